import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, dial, eventsOf, fieldsOf, instanceIn, rawExchange, selfNaming } from "./world.js";

let cloud: TestCloud;
let instance: Json;
beforeAll(async () => {
  cloud = await startCloud();
  instance = await instanceIn(cloud, (await createInstance(cloud, { booted: false })).id, "offline");
});
afterAll(() => cloud.close());

const ask = (body: object) => cloud.api.post("/v4/networking/ips", body);

describe("addresses (description 2.5, contract 10)", () => {
  it("an instance begins with a public one, with its whole record", async () => {
    const [address] = instance.ipv4;
    expect(instance.ipv4).toHaveLength(1);
    expect((await cloud.api.get(`/v4/networking/ips/${address}`)).body).toEqual({
      address,
      gateway: expect.stringMatching(/^198\.18\.\d+\.1$/),
      subnet_mask: "255.255.252.0",
      prefix: 22,
      type: "ipv4",
      public: true,
      rdns: `${address.replaceAll(".", "-")}.ip.backlot.test`,
      cloud_id: instance.id,
      region: "us-east",
      interface_id: null,
      reserved: false,
      vpc_nat_1_1: null,
      assigned_entity: null,
      tags: [],
    });
  });

  it("a private one is given once per instance, from the pool", async () => {
    const { status, body } = await ask({ type: "ipv4", public: false, cloud_id: instance.id });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      public: false,
      gateway: null,
      rdns: null,
      cloud_id: instance.id,
      prefix: 22,
      address: expect.stringMatching(/^192\.168\./),
    });
    expect(await eventsOf(cloud, "instance", instance.id, { action: "instance_addip" })).toMatchObject([
      { message: body.address, status: "notification", username: "backlot" },
    ]);
    for (const again of [
      await ask({ type: "ipv4", public: false, cloud_id: instance.id }),
      await cloud.api.post(`/v4/cloud/instances/${instance.id}/ips`, { type: "ipv4", public: false }),
    ]) {
      expect(again.status).toBe(400);
      expect(again.body.errors).toHaveLength(1);
      expect(again.body.errors[0].reason).toMatch(/already has a private/);
    }
    expect((await cloud.api.get(`/v4/cloud/instances/${instance.id}`)).body.ipv4).toEqual([instance.ipv4[0], body.address]);
    expect(await eventsOf(cloud, "instance", instance.id, { action: "instance_addip" })).toHaveLength(1);
  });

  it("further public ones come too, up to a limit, each its own", async () => {
    const given = new Set(instance.ipv4);
    const first = await cloud.api.post(`/v4/cloud/instances/${instance.id}/ips`, { type: "ipv4", public: true });
    expect(first.body).toMatchObject({ public: true, cloud_id: instance.id });
    given.add(first.body.address);
    for (;;) {
      const { status, body } = await ask({ type: "ipv4", public: true, cloud_id: instance.id });
      if (status !== 200) {
        expect([status, body.errors[0].reason]).toEqual([400, expect.stringMatching(/limit/)]);
        break;
      }
      expect(given.has(body.address)).toBe(false);
      given.add(body.address);
    }
    expect(given.size).toBe(8);
    const { body } = await cloud.api.get(`/v4/cloud/instances/${instance.id}/ips`);
    expect(body).toMatchObject({ ipv4: { shared: [], reserved: [], vpc: [] }, ipv6: { slaac: null, link_local: null, global: [], vpc: [] } });
    expect(body.ipv4.public.map((entry: Json) => entry.address).sort()).toEqual([...given].sort());
    expect(body.ipv4.private).toHaveLength(1);
    expect((await cloud.api.get(`/v4/cloud/instances/${instance.id}/ips/${body.ipv4.private[0].address}`)).body).toEqual(body.ipv4.private[0]);
  });

  it.each([
    [{}, ["cloud_id", "public", "type"]],
    [{ type: "ipv4", public: false }, ["cloud_id"]],
    [{ type: "ipv4", cloud_id: 1 }, ["public"]],
    [{ public: false, cloud_id: 1 }, ["type"]],
    [{ type: "ipv6", public: false, cloud_id: 1 }, ["type"]],
    [{ type: "ipv4", public: false, cloud_id: 999 }, ["cloud_id"]],
    [{ type: "ipv6", public: false, cloud_id: 999 }, ["cloud_id", "type"]],
    [{ type: "ipv6", public: "no", cloud_id: 999 }, ["cloud_id", "public", "type"]],
    [{ type: 4, public: null, cloud_id: "1" }, ["cloud_id", "public", "type"]],
  ])("%j is refused on %j", async (sent, fields) => {
    const before = (await cloud.api.get("/v4/networking/ips")).body.results;
    const { status, body } = await ask(sent);
    expect([status, fieldsOf(body)]).toEqual([400, fields]);
    expect(selfNaming(body)).toEqual([]);
    expect((await cloud.api.get("/v4/networking/ips")).body.results).toBe(before);
  });

  it("lists public and private ones, and filters them", async () => {
    const other = await createInstance(cloud, { region: "eu-west", booted: false, private_ip: true });
    const list = async (filter: object) =>
      (await cloud.api.get("/v4/networking/ips", { "X-Filter": JSON.stringify(filter) })).body.data.map((entry: Json) => entry.address);
    expect(await list({ region: "eu-west" })).toEqual(other.ipv4);
    expect(await list({ address: other.ipv4[1] })).toEqual([other.ipv4[1]]);
    expect(await list({ rdns: null, region: "eu-west" })).toEqual([other.ipv4[1]]);
    expect((await list({ type: "ipv4" })).length).toBe((await cloud.api.get("/v4/networking/ips")).body.results);
    expect(await list({ prefix: 24 })).toEqual([]);
    const slices = [instance.id, other.id].map(async (id) =>
      (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.ipv4.find((address: string) => address.startsWith("192.168")),
    );
    const [here, there] = await Promise.all(slices);
    expect(Math.floor(Number(here.split(".")[3]) / 16)).not.toBe(Math.floor(Number(there.split(".")[3]) / 16));
    const { status, body } = await cloud.api.get("/v4/networking/ips", { "X-Filter": '{"gateway":null}' });
    expect([status, body.errors[0].reason]).toEqual([400, "Cannot filter on gateway"]);
  });

  it.each(["192.168.250.250", "1.2.3.4", "nonsense", "192.168.0.1%2F24"])("%s is not found", async (address) => {
    expect((await cloud.api.get(`/v4/networking/ips/${address}`)).status).toBe(404);
    expect((await cloud.api.get(`/v4/cloud/instances/${instance.id}/ips/${address}`)).status).toBe(404);
  });

  it("an address of another instance is not found under this one; nor is one of no instance", async () => {
    const other = await createInstance(cloud, { booted: false });
    expect((await cloud.api.get(`/v4/cloud/instances/${instance.id}/ips/${other.ipv4[0]}`)).status).toBe(404);
    expect((await cloud.api.get(`/v4/cloud/instances/${other.id}/ips/${other.ipv4[0]}`)).status).toBe(200);
    expect((await cloud.api.get("/v4/cloud/instances/999/ips")).status).toBe(404);
    expect((await cloud.api.post("/v4/cloud/instances/999/ips", { type: "ipv4", public: true })).status).toBe(404);
  });

  it("an address added to an instance serves after its boot", async () => {
    const made = await createInstance(cloud, { booted: false, script_id: 2 });
    const { body: added } = await ask({ type: "ipv4", public: false, cloud_id: made.id });
    await cloud.api.post(`/v4/cloud/instances/${made.id}/boot`, {});
    const answer = await until(async () =>
      rawExchange(await dial(cloud, added.address, 8000), "GET /x HTTP/1.1\r\nHost: y\r\nConnection: close\r\n\r\n"),
    );
    expect(JSON.parse(answer.split("\r\n\r\n")[1] ?? "").instance).toMatchObject({ id: made.id, private_address: added.address });
  });
});

describe("/_backlot/dial", () => {
  it("maps addresses of both pools, held by an instance or not", async () => {
    const [a, b, c] = cloud.config.privatePool.split(".");
    for (const address of [...instance.ipv4, `${a}.${b}.${c}.77`]) {
      const { status, body } = await cloud.api.get(`/_backlot/dial?address=${address}&port=8080`);
      expect(status).toBe(200);
      expect(body).toEqual({ host: expect.stringMatching(/^127\./), port: 8080 });
    }
  });

  it.each([
    ["", ["address", "port"]],
    ["?address=192.168.0.1", ["address", "port"]],
    ["?port=80", ["address"]],
    ["?address=8.8.8.8&port=80", ["address"]],
    ["?address=8.8.8.8&port=0", ["address", "port"]],
    ["?address=nonsense&port=65536", ["address", "port"]],
    ["?address=192.168.1.1.1&port=1.5", ["address", "port"]],
    ["?address=&port=", ["address", "port"]],
    ["?address=8.8.8.8&port=80&foo=1", ["address", "foo"]],
  ])("%s is refused on %j", async (query, fields) => {
    const { status, body } = await cloud.api.get(`/_backlot/dial${query}`);
    expect([status, fieldsOf(body)]).toEqual([400, fields]);
    expect(selfNaming(body)).toEqual([]);
  });
});

describe("our own endpoints", () => {
  it("health answers without a token", async () => {
    const { status, body } = await send(cloud.url, "GET", "/_backlot/health", {});
    expect(status).toBe(200);
    expect(body).toMatchObject({
      status: "ok",
      pid: process.pid,
      runtime: "process",
      version: expect.stringMatching(/^\d/),
      state: cloud.state,
      uptime_s: expect.any(Number),
    });
    expect(body.counts.instance).toBe((await cloud.api.get("/v4/cloud/instances")).body.results);
    expect(body.counts.address).toBe((await cloud.api.get("/v4/networking/ips")).body.results);
  });

  it("capabilities say what is not real", async () => {
    const { status, body } = await send(cloud.url, "GET", "/_backlot/capabilities", {});
    expect(status).toBe(200);
    expect(body.runtime).toBe("process");
    for (const row of body.rows) expect(row).toEqual({ subject: expect.any(String), real: expect.any(Boolean), note: expect.any(String) });
    for (const [subject, real] of [
      [/udp/, true],
      [/throttle/, true],
      [/sharing/, true],
      [/IPv6/, false],
      [/health/, true],
    ] as const) {
      expect(
        body.rows.find((row: Json) => subject.test(row.subject)),
        String(subject),
      ).toMatchObject({ real });
    }
  });

  it("an instance that never ran is shown as it is", async () => {
    const made = await createInstance(cloud, { booted: false });
    const { status, body } = await cloud.api.get(`/_backlot/instances/${made.id}`);
    expect(status).toBe(200);
    expect(body).toEqual({
      runtime: "process",
      pid: null,
      running: false,
      addresses: made.ipv4,
      endpoint: { host: expect.stringMatching(/^127\.18\./), port: 80 },
      substituted_image: null,
      script: null,
      problem: null,
      boot_log: "",
    });
    expect((await cloud.api.get("/_backlot/instances/999")).status).toBe(404);
  });
});
