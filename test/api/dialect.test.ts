import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { routes } from "#backlot/resources/index.js";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { createBalancer, createConfig, createInstance, createNode, fieldsOf, freshLabel, instanceIn, unheldAddress } from "./world.js";

let cloud: TestCloud;
let instance: Json;
let balancer: Json;
let config: Json;
let node: Json;
beforeAll(async () => {
  cloud = await startCloud({ linodePort: 0 });
  instance = await createInstance(cloud, { private_ip: true, script_id: 1 });
  await instanceIn(cloud, instance.id, "running");
  balancer = await createBalancer(cloud);
  config = await createConfig(cloud, balancer.id);
  node = await createNode(cloud, config, `${unheldAddress(cloud)}:80`);
});
afterAll(() => cloud.close());

const get = async (path: string, headers?: Record<string, string>) => (await cloud.api.get(path, headers)).body;
/** Over the port that speaks the public spelling. */
const there = (method: string, path: string, body?: object) =>
  send(cloud.running.linodeUrl ?? "", method, path, { Authorization: `Bearer ${cloud.token}` }, body);

/** Members that move while they are looked at. */
const still = ({ updated: _, status: __, nodes_status: ___, ...rest }: Json): Json => rest;

describe("one row, read both ways", () => {
  it("an instance", async () => {
    const ours = await get(`/v4/cloud/instances/${instance.id}`);
    const theirs = await get(`/v4/linode/instances/${instance.id}`);
    expect(theirs.image).toBe("linode/debian12");
    expect(still({ ...theirs, image: "cloud/debian12" })).toEqual(still(ours));
    expect((await get("/v4/linode/instances")).data.map((entry: Json) => entry.id)).toEqual([instance.id]);
  });

  it("a balancer, its config and node", async () => {
    expect(still(await get(`/v4/nodebalancers/${balancer.id}`))).toEqual(still(await get(`/v4/balancers/${balancer.id}`)));
    const { balancer_id, ...ours } = await get(`/v4/balancers/${balancer.id}/configs/${config.id}`);
    const { nodebalancer_id, ...theirs } = await get(`/v4/nodebalancers/${balancer.id}/configs/${config.id}`);
    expect([nodebalancer_id, theirs.id]).toEqual([balancer_id, ours.id]);
    const path = `${balancer.id}/configs/${config.id}/nodes/${node.id}`;
    expect((await get(`/v4/nodebalancers/${path}`)).nodebalancer_id).toBe((await get(`/v4/balancers/${path}`)).balancer_id);
    expect(await get(`/v4/nodebalancers/${path}`)).not.toHaveProperty("balancer_id");
  });

  it.each(["/v4beta", "the port"])("an address, through %s", async (way) => {
    const path = `/networking/ips/${instance.ipv4[0]}`;
    const { cloud_id, ...ours } = await get(`/v4${path}`);
    const { linode_id, ...theirs } = way === "/v4beta" ? await get(`/v4beta${path}`) : (await there("GET", `/v4${path}`)).body;
    expect([linode_id, theirs]).toEqual([cloud_id, ours]);
  });

  it("events, with the filter that linodego polls with", async () => {
    const filter = {
      action: "linode_boot",
      "entity.id": instance.id,
      "entity.type": "linode",
      created: { "+gte": "2020-01-01T00:00:00" },
      "+order_by": "created",
      "+order": "desc",
    };
    const { data } = await get("/v4beta/account/events", { "X-Filter": JSON.stringify(filter) });
    expect(data[0]).toMatchObject({
      action: "linode_boot",
      entity: { id: instance.id, type: "linode", url: `/v4/linode/instances/${instance.id}` },
      status: "finished",
    });
    const [ours] = (await get("/v4/account/events", { "X-Filter": JSON.stringify({ id: data[0].id }) })).data;
    expect(ours).toMatchObject({ action: "instance_boot", entity: { type: "instance", url: `/v4/cloud/instances/${instance.id}` } });
  });

  it("images and kernels, by their slugs, raw or escaped", async () => {
    for (const path of ["images/linode/debian12", "images/linode%2Fdebian12", "images/cloud%2Fdebian12"]) {
      expect((await get(`/v4beta/${path}`)).id, path).toBe("linode/debian12");
    }
    expect((await get("/v4/images/cloud%2Fdebian12")).id).toBe("cloud/debian12");
    const { data } = await get("/v4/linode/kernels?page_size=500");
    expect(data.every((entry: Json) => entry.id.startsWith("linode/"))).toBe(true);
    expect((await get(`/v4/linode/kernels/${encodeURIComponent(data[0].id)}`)).id).toBe(data[0].id);
    const vendors = await get("/v4beta/images", { "X-Filter": '{"vendor":"Debian","deprecated":false}' });
    expect(vendors.data.length).toBeGreaterThan(0);
  });

  it("public scripts, with and without a token", async () => {
    const { body } = await send(cloud.url, "GET", "/v4/linode/stackscripts", {});
    expect(body.data[0].images.join()).not.toContain("cloud/");
    expect((await get(`/v4/linode/stackscripts/${body.data[0].id}`)).script).toBe((await get(`/v4/cloud/scripts/${body.data[0].id}`)).script);
  });

  it("no list leaks a word of ours", async () => {
    const lists = routes.filter(({ method, answers, path }) => method === "GET" && answers === "list" && !/[:*]/.test(path));
    expect(lists.length).toBeGreaterThan(8);
    for (const { path } of lists) {
      const { status, body } = await there("GET", path.replace("/v4/", "/v4beta/"));
      expect(status, path).toBe(200);
      const text = JSON.stringify(body);
      expect(text, path).not.toMatch(/"(cloud_id|cloud_label|script_id|script_data|balancer_id|add_(instances|balancers|scripts))":/);
      expect(text, path).not.toMatch(/"(instance|balancer|script)_(?!ran)[a-z_]+"|"\/v4\/(cloud|balancers)|"(id|image|kernel)":"cloud\//);
      expect(text, path).not.toMatch(/\b(instances|balancers|scripts):read/);
    }
  });
});

describe("requests in the public spelling", () => {
  it("an instance is made of their words, and refused in them", async () => {
    const { status, body } = await cloud.api.post("/v4/linode/instances", {
      region: "us-east",
      type: "g6-nanode-1",
      image: "linode/debian12",
      root_pass: "Curtain-7-Call",
      booted: false,
      label: freshLabel("theirs"),
      stackscript_id: 1,
      stackscript_data: { greeting: "linode/kept" },
    });
    expect([status, body.image]).toEqual([200, "linode/debian12"]);
    expect((await get(`/v4/cloud/instances/${body.id}`)).image).toBe("cloud/debian12");
    const refused = await cloud.api.post("/v4/linode/instances", {
      type: "g0",
      image: "linode/none",
      stackscript_id: 999,
      root_pass: "Curtain-7-Call",
    });
    expect(fieldsOf(refused.body)).toEqual(["image", "region", "stackscript_id", "type"]);
    expect(JSON.stringify(refused.body)).not.toMatch(/cloud/);
  });

  it("the busy text is the one linodego retries on", async () => {
    const reboot = (path: string) => cloud.api.post(`${path}/${instance.id}/reboot`, {});
    for (const [path, text] of [
      ["/v4/linode/instances", "Linode busy."],
      ["/v4/cloud/instances", "Instance busy."],
    ] as const) {
      await instanceIn(cloud, instance.id, "running");
      const [first, second] = await Promise.all([reboot(path), reboot(path)]);
      expect([first.status, second.status, second.body]).toEqual([200, 400, { errors: [{ reason: text }] }]);
    }
    await instanceIn(cloud, instance.id, "running");
  });

  it("shared paths understand both, and answer as their port does", async () => {
    const other = await createInstance(cloud, { booted: false });
    const asked = await cloud.api.post("/v4/networking/ips", { type: "ipv4", public: false, linode_id: other.id });
    expect([asked.status, asked.body.cloud_id]).toEqual([200, other.id]);
    const { status, body } = await there("POST", "/v4/networking/ips", { type: "ipv4", public: true, linode_id: other.id });
    expect([status, body.linode_id]).toEqual([200, other.id]);
    const refused = await there("POST", "/v4/networking/ips", { type: "ipv4", public: true, linode_id: 999 });
    expect(fieldsOf(refused.body)).toEqual(["linode_id"]);
    const moved = await there("POST", "/v4beta/networking/ipv4/assign", {
      region: "us-east",
      assignments: [{ address: "203.0.113.1", linode_id: 999 }],
    });
    expect(fieldsOf(moved.body)).toEqual(["assignments[0].address", "assignments[0].linode_id"]);
    const filtered = await there("GET", "/v4/networking/ips", undefined);
    expect(filtered.body.data.every((entry: Json) => "linode_id" in entry)).toBe(true);
  });

  it("a page is 25 to 500 entries there, 1 to 500 here", async () => {
    for (const [path, size, status] of [
      ["/v4/linode/types", 24, 400],
      ["/v4/linode/types", 25, 200],
      ["/v4beta/regions", 501, 400],
      ["/v4/cloud/types", 1, 200],
      ["/v4/cloud/types", 501, 400],
    ] as const) {
      const answer = await cloud.api.get(`${path}?page_size=${size}`);
      expect([path, size, answer.status]).toEqual([path, size, status]);
      if (status === 400) expect(fieldsOf(answer.body)).toEqual(["page_size"]);
    }
  });

  it("scopes are told in the words of the path", async () => {
    expect((await cloud.api.get("/v4/linode/instances")).headers["x-accepted-oauth-scopes"]).toBe("linodes:read_only");
    expect((await cloud.api.post("/v4/nodebalancers", {})).headers["x-accepted-oauth-scopes"]).toBe("nodebalancers:read_write");
    expect((await cloud.api.get("/v4/cloud/instances")).headers["x-accepted-oauth-scopes"]).toBe("instances:read_only");
  });

  it("what neither spelling has is not found, and verbs are as they are", async () => {
    expect((await cloud.api.get("/v4/linode")).status).toBe(404);
    expect((await cloud.api.get("/v4/linode/nothing")).status).toBe(404);
    expect((await cloud.api.get("/v4beta")).status).toBe(404);
    const { status, headers } = await there("OPTIONS", "/v4/nodebalancers");
    expect([status, headers.allow]).toEqual([200, "GET, POST, HEAD, OPTIONS"]);
    expect((await there("DELETE", "/v4/linode/types")).status).toBe(405);
  });
});
