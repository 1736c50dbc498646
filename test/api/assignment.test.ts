import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { createInstance, dial, eventsOf, fieldsOf, instanceIn, rawExchange, removeInstance, selfNaming } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const request = "GET /x HTTP/1.1\r\nHost: y\r\nConnection: close\r\n\r\n";
/** Which instance answers at an address of the cloud; undefined when nobody does. The hello-api script (2) tells. */
const whoAnswers = async (address: string): Promise<number | undefined> => {
  const answer = await rawExchange(await dial(cloud, address, 8000), request).catch(() => undefined);
  return answer === undefined ? undefined : JSON.parse(answer.split("\r\n\r\n")[1] ?? "").instance.id;
};
const answers = (address: string, id: number | undefined) =>
  until(async () => (await whoAnswers(address)) === id, { what: `${address} answered by ${id ?? "nobody"}` });

const assign = (assignments: object[], region = "us-east", path = "/v4/networking/ips/assign") => cloud.api.post(path, { region, assignments });
const ipv4 = async (id: number): Promise<string[]> => (await cloud.api.get(`/v4/cloud/instances/${id}`)).body.ipv4;
const addPublic = async (id: number): Promise<string> =>
  (await cloud.api.post(`/v4/cloud/instances/${id}/ips`, { type: "ipv4", public: true })).body.address;

const serving = async (): Promise<Json> => instanceIn(cloud, (await createInstance(cloud, { script_id: 2 })).id, "running");

describe("assigning addresses (contract 10.2, 10.3)", () => {
  it("really moves one between two running machines, and tells both", async () => {
    const [first, second] = await Promise.all([serving(), serving()]);
    const spare = await addPublic(first.id);
    await answers(spare, first.id);
    expect(await assign([{ address: spare, cloud_id: second.id }])).toMatchObject({ status: 200, body: {} });
    expect(await ipv4(second.id)).toContain(spare);
    expect(await ipv4(first.id)).not.toContain(spare);
    await answers(spare, second.id);
    await answers(first.ipv4[0], first.id);
    await answers(second.ipv4[0], second.id);
    expect((await eventsOf(cloud, "instance", first.id, { action: "instance_deleteip" }))[0].message).toBe(spare);
    expect((await eventsOf(cloud, "instance", second.id, { action: "instance_addip" }))[0].message).toBe(spare);
  });

  it("two running machines exchange theirs in one request, under the path of 2018 too", async () => {
    const [first, second] = await Promise.all([serving(), serving()]);
    const [mine] = first.ipv4;
    const [theirs] = second.ipv4;
    await Promise.all([answers(mine, first.id), answers(theirs, second.id)]);
    const exchange = [
      { address: mine, cloud_id: second.id },
      { address: theirs, cloud_id: first.id },
    ];
    expect((await assign(exchange, "us-east", "/v4/networking/ipv4/assign")).status).toBe(200);
    await Promise.all([answers(mine, second.id), answers(theirs, first.id)]);
    expect((await cloud.api.get(`/v4/cloud/instances/${first.id}`)).body.status).toBe("running");
    expect((await cloud.api.get(`/v4/cloud/instances/${second.id}`)).body.status).toBe("running");
  });

  it("an address that is assigned away from a stopped machine answers on the other", async () => {
    const off = await instanceIn(cloud, (await createInstance(cloud, { booted: false })).id, "offline");
    const on = await serving();
    const spare = await addPublic(off.id);
    await assign([{ address: spare, cloud_id: on.id }]);
    await answers(spare, on.id);
  });

  it("is all or nothing, with every reason at once", async () => {
    const [here, other, there] = await Promise.all([
      createInstance(cloud, { booted: false, private_ip: true }),
      createInstance(cloud, { booted: false, private_ip: true }),
      createInstance(cloud, { booted: false, region: "eu-west" }),
    ]);
    const before = await Promise.all([here, other, there].map(({ id }) => ipv4(id)));
    const cases: Array<[object[], string[], RegExp]> = [
      [[{ address: here.ipv4[0], cloud_id: other.id }], ["assignments"], /without a public address/],
      [[{ address: here.ipv4[1], cloud_id: other.id }], ["assignments"], /two private/],
      [
        [
          { address: "203.0.113.9", cloud_id: 999 },
          { address: there.ipv4[0], cloud_id: there.id },
        ],
        ["assignments[0].address", "assignments[0].cloud_id", "assignments[1].address", "assignments[1].cloud_id"],
        /not found/,
      ],
      [
        [
          { address: here.ipv4[0], cloud_id: other.id },
          { address: here.ipv4[0], cloud_id: here.id },
        ],
        ["assignments[1].address"],
        /twice/,
      ],
      [[{ address: 5, cloud_id: "x" }], ["assignments[0].address", "assignments[0].cloud_id"], /Must be/],
      [[], ["assignments"], /at least one/],
    ];
    for (const [sent, fields, reason] of cases) {
      const { status, body } = await assign(sent);
      expect([status, fieldsOf(body)]).toEqual([400, fields]);
      expect(body.errors[0].reason).toMatch(reason);
      expect(selfNaming(body)).toEqual([]);
    }
    expect(fieldsOf((await cloud.api.post("/v4/networking/ips/assign", {})).body)).toEqual(["assignments", "region"]);
    expect(await Promise.all([here, other, there].map(({ id }) => ipv4(id)))).toEqual(before);
  });
});

describe("taking an address away", () => {
  it("ends its answering, and gives it to nobody before the machine is without it", async () => {
    const machine = await serving();
    const spare = await addPublic(machine.id);
    await answers(spare, machine.id);
    expect(await cloud.api.del(`/v4/cloud/instances/${machine.id}/ips/${spare}`)).toMatchObject({ status: 200, body: {} });
    expect((await cloud.api.get(`/v4/networking/ips/${spare}`)).status).toBe(404);
    const next = await createInstance(cloud, { booted: false });
    expect(next.ipv4).not.toContain(spare);
    await answers(spare, undefined);
    await answers(machine.ipv4[0], machine.id);
    // Known to be free by now, and the lowest one.
    const given = await until(async () => {
      const { id, ipv4 } = await createInstance(cloud, { booted: false });
      await removeInstance(cloud, id);
      return ipv4[0] === spare && ipv4[0];
    });
    expect(given).toBe(spare);
    expect((await eventsOf(cloud, "instance", machine.id, { action: "instance_deleteip" }))[0]).toMatchObject({
      message: spare,
      username: "backlot",
    });
  });

  it("the last public one stays, a private one may go and another comes", async () => {
    const made = await createInstance(cloud, { booted: false, private_ip: true });
    const [last, privately] = made.ipv4;
    const refused = await cloud.api.del(`/v4/cloud/instances/${made.id}/ips/${last}`);
    expect([refused.status, refused.body.errors]).toEqual([400, [{ reason: expect.stringMatching(/at least one public/) }]]);
    expect((await cloud.api.del(`/v4/cloud/instances/${made.id}/ips/${privately}`)).status).toBe(200);
    expect(await ipv4(made.id)).toEqual([last]);
    expect((await cloud.api.post(`/v4/cloud/instances/${made.id}/ips`, { type: "ipv4", public: false })).status).toBe(200);
  });

  it("another instance's is not found", async () => {
    const [one, two] = await Promise.all([createInstance(cloud, { booted: false }), createInstance(cloud, { booted: false })]);
    const spare = await addPublic(two.id);
    expect((await cloud.api.del(`/v4/cloud/instances/${one.id}/ips/${spare}`)).status).toBe(404);
    expect((await cloud.api.put(`/v4/cloud/instances/${one.id}/ips/${spare}`, { rdns: null })).status).toBe(404);
    expect(await ipv4(two.id)).toContain(spare);
  });

  it("an address that a balancer's node names is given out last", async () => {
    const first = await createInstance(cloud, { booted: false, region: "ap-west" });
    const { body: held } = await cloud.api.post(`/v4/cloud/instances/${first.id}/ips`, { type: "ipv4", public: false });
    const { body: balancer } = await cloud.api.post("/v4/balancers", { label: "holder", region: "ap-west" });
    const { body: config } = await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, { port: 20_081 });
    await cloud.api.post(`/v4/balancers/${balancer.id}/configs/${config.id}/nodes`, { label: "held", address: `${held.address}:80` });
    await cloud.api.del(`/v4/cloud/instances/${first.id}/ips/${held.address}`);
    await until(async () => (await cloud.api.get(`/v4/cloud/instances/${first.id}`)).body.status === "offline");
    for (let count = 0; count < 3; count += 1) {
      const next = await createInstance(cloud, { booted: false, region: "ap-west", private_ip: true });
      expect(next.ipv4[1]).not.toBe(held.address);
    }
    await cloud.api.del(`/v4/balancers/${balancer.id}`);
  });
});

describe("reverse names (contract 10.1, 10.2)", () => {
  it("are set, shown, filtered and reset, with an event, on both paths", async () => {
    const {
      id,
      ipv4: [address],
    } = await createInstance(cloud, { booted: false });
    const initial = `${address.replaceAll(".", "-")}.ip.backlot.test`;
    const { status, body } = await cloud.api.put(`/v4/networking/ips/${address}`, { rdns: "www.example.org" });
    expect([status, body.rdns]).toEqual([200, "www.example.org"]);
    const found = await cloud.api.get("/v4/networking/ips", { "X-Filter": '{"rdns":"www.example.org"}' });
    expect(found.body.data.map((entry: Json) => entry.address)).toEqual([address]);
    expect((await cloud.api.put(`/v4/cloud/instances/${id}/ips/${address}`, { rdns: null })).body.rdns).toBe(initial);
    expect((await cloud.api.put(`/v4/networking/ips/${address}`, {})).body.rdns).toBe(initial);
    expect(await eventsOf(cloud, "ipaddress", address, { action: "ipaddress_update" })).toHaveLength(2);
  });

  it.each(["", "nodots", "a b.example.org", "-x.example.org", "ex_.example..org", "192.0.2.1", `${"a".repeat(64)}.org`, 5, ["x.org"]])(
    "%j is no domain",
    async (rdns) => {
      const {
        ipv4: [address],
      } = await createInstance(cloud, { booted: false });
      const { status, body } = await cloud.api.put(`/v4/networking/ips/${address}`, { rdns });
      expect([status, fieldsOf(body)]).toEqual([400, ["rdns"]]);
      expect((await cloud.api.get(`/v4/networking/ips/${address}`)).body.rdns).toMatch(/backlot\.test$/);
    },
  );

  it("inside the account's own domains one of their A records must point back", async () => {
    const {
      ipv4: [address],
    } = await createInstance(cloud, { booted: false });
    const { body: domain } = await cloud.api.post("/v4/domains", { type: "master", domain: "reverse.test", soa_email: "a@reverse.test" });
    const put = (rdns: string) => cloud.api.put(`/v4/networking/ips/${address}`, { rdns });
    const refused = await put("www.reverse.test");
    expect([refused.status, refused.body.errors]).toEqual([400, [{ reason: expect.stringMatching(/^No match found/), field: "rdns" }]]);
    const record = (name: string, target: string) => cloud.api.post(`/v4/domains/${domain.id}/records`, { type: "A", name, target });
    await record("www", "203.0.113.9");
    expect((await put("www.reverse.test")).status).toBe(400);
    await record("www", address);
    expect((await put("WWW.reverse.test")).status).toBe(200);
    await record("", address);
    expect((await put("reverse.test")).status).toBe(200);
    expect((await put("www.elsewhere.test")).status).toBe(200);
  });

  it("a private address has none", async () => {
    const {
      ipv4: [, address],
    } = await createInstance(cloud, { booted: false, private_ip: true });
    expect(fieldsOf((await cloud.api.put(`/v4/networking/ips/${address}`, { rdns: "www.example.org" })).body)).toEqual(["rdns"]);
    expect((await cloud.api.put(`/v4/networking/ips/${address}`, { rdns: null })).status).toBe(200);
  });
});

describe("sharing (contract 10.3)", () => {
  it("is recorded, shown, replaced, and forgotten with either side", async () => {
    const [holder, other, third] = await Promise.all([0, 1, 2].map(() => createInstance(cloud, { booted: false })));
    const shared = async (id: number) => (await cloud.api.get(`/v4/cloud/instances/${id}/ips`)).body.ipv4.shared.map((entry: Json) => entry.address);
    const share = (id: number, ips: unknown, path = "/v4/networking/ips/share") => cloud.api.post(path, { cloud_id: id, ips });
    expect(await share(other.id, [holder.ipv4[0], third.ipv4[0]])).toMatchObject({ status: 200, body: {} });
    expect((await shared(other.id)).sort()).toEqual([holder.ipv4[0], third.ipv4[0]].sort());
    expect(await shared(holder.id)).toEqual([]);
    expect((await share(other.id, [holder.ipv4[0]], "/v4/networking/ipv4/share")).status).toBe(200);
    expect(await shared(other.id)).toEqual([holder.ipv4[0]]);
    await removeInstance(cloud, holder.id);
    expect(await shared(other.id)).toEqual([]);
    await share(other.id, [third.ipv4[0]]);
    await removeInstance(cloud, other.id);
    expect((await cloud.api.get(`/v4/networking/ips/${third.ipv4[0]}`)).body.cloud_id).toBe(third.id);
  });

  it("a shared address answers on whoever runs: its holder first, then who shares it in their order, and it comes back", async () => {
    const [holder, second, third] = await Promise.all([serving(), serving(), serving()]);
    const [address] = holder.ipv4;
    for (const { id } of [second, third]) await cloud.api.post("/v4/networking/ips/share", { cloud_id: id, ips: [address] });
    await answers(address, holder.id);
    await cloud.api.post(`/_backlot/instances/${holder.id}/kill`);
    await answers(address, second.id);
    await answers(second.ipv4[0], second.id);
    // The watchdog restarts the holder, two simulated minutes after its death.
    await answers(address, holder.id);
    await cloud.api.post(`/v4/cloud/instances/${holder.id}/shutdown`);
    await answers(address, second.id);
    await cloud.api.post(`/v4/cloud/instances/${second.id}/shutdown`);
    await answers(address, third.id);
    await cloud.api.post("/v4/networking/ips/share", { cloud_id: third.id, ips: [] });
    await answers(address, undefined);
    await answers(third.ipv4[0], third.id);
    await instanceIn(cloud, holder.id, "offline");
    await cloud.api.post(`/v4/cloud/instances/${holder.id}/boot`);
    await answers(address, holder.id);
  });

  it("an address that another machine has up in its deleted holder's place goes to nobody before that machine is without it", async () => {
    const [holder, other] = await Promise.all([serving(), serving()]);
    const [address] = holder.ipv4;
    await cloud.api.post("/v4/networking/ips/share", { cloud_id: other.id, ips: [address] });
    await cloud.api.post(`/v4/cloud/instances/${holder.id}/shutdown`);
    await answers(address, other.id);
    await removeInstance(cloud, holder.id);
    await answers(address, undefined);
    await answers(other.ipv4[0], other.id);
  });

  it("refuses what cannot be shared", async () => {
    const [holder, far] = await Promise.all([
      createInstance(cloud, { booted: false, private_ip: true }),
      createInstance(cloud, { booted: false, region: "eu-west" }),
    ]);
    const { status, body } = await cloud.api.post("/v4/networking/ips/share", { cloud_id: far.id, ips: [...holder.ipv4, far.ipv4[0], "1.2.3.4"] });
    expect([status, fieldsOf(body)]).toEqual([400, ["ips[0]", "ips[1]", "ips[2]", "ips[3]"]]);
    expect(fieldsOf((await cloud.api.post("/v4/networking/ips/share", { cloud_id: 999, ips: [] })).body)).toEqual(["cloud_id"]);
  });
});
