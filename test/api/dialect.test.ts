import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { routes } from "#backlot/resources/index.js";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
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

/** What both spellings say of one thing, and the members they call otherwise: theirs, ours. */
const both = async (path: string, renamed: Record<string, string> = {}) => {
  const [ours, theirs] = [await get(`/v4${path}`), await get(`/v4beta${path}`)];
  const back = Object.fromEntries(Object.entries(theirs as Json).map(([name, value]) => [renamed[name] ?? name, value]));
  expect(Object.keys(theirs)).toEqual(Object.keys(ours).map((name) => Object.entries(renamed).find(([, own]) => own === name)?.[0] ?? name));
  return { ours, theirs, back };
};

describe("volumes, domains, tags, grants and the account, made in their words and read in both", () => {
  it("a volume", async () => {
    const label = freshLabel("disk").slice(0, 30);
    const holder = await createInstance(cloud, { booted: false });
    await instanceIn(cloud, holder.id, "offline");
    const made = await cloud.api.post("/v4beta/volumes", { label, size: 10, linode_id: holder.id, tags: ["linode/kept"] });
    expect([made.status, made.body.linode_id, made.body.linode_label]).toEqual([200, holder.id, holder.label]);
    expect(made.body.filesystem_path).toBe(`/dev/disk/by-id/scsi-0Linode_Volume_${label}`);
    const attaching = async () => (await cloud.api.get("/v4/account/events")).body.data.find((event: Json) => event.action === "volume_attach");
    await until(async () => (await attaching())?.status === "finished", { what: "the attachment" });
    const { ours, back } = await both(`/volumes/${made.body.id}`, { linode_id: "cloud_id", linode_label: "cloud_label" });
    expect(ours.tags).toEqual(["linode/kept"]);
    expect({ ...back, filesystem_path: `/dev/disk/by-id/scsi-0Cloud_Volume_${label}` }).toEqual(ours);
    const refused = await cloud.api.post("/v4beta/volumes", { label: `${label}x`, size: 10, linode_id: 999_999 });
    expect(fieldsOf(refused.body)).toEqual(["linode_id"]);
    expect((await cloud.api.post(`/v4beta/volumes/${made.body.id}/detach`, {})).status).toBe(200);
  });

  it("a domain with a record is the same in both", async () => {
    const wanted = { type: "master", domain: `${freshLabel("zone")}.test`, soa_email: "linode@cloud.test", description: "cloud/linode" };
    const made = (await cloud.api.post("/v4beta/domains", wanted)).body;
    expect(made).toMatchObject(wanted);
    const record = (await cloud.api.post(`/v4beta/domains/${made.id}/records`, { type: "TXT", name: "linode", target: "cloud/instance" })).body;
    for (const path of [`/domains/${made.id}`, `/domains/${made.id}/records/${record.id}`]) {
      const { ours, back } = await both(path);
      expect(back).toEqual(ours);
    }
    expect(record).toMatchObject({ type: "TXT", name: "linode", target: "cloud/instance" });
  });

  it("a tag: ids by their words, things by their kinds, and the word itself untouched", async () => {
    const label = freshLabel("linode");
    const wanted = { label, linodes: [instance.id], nodebalancers: [balancer.id] };
    expect((await cloud.api.post("/v4beta/tags", wanted)).body).toEqual({ label });
    const [ours, theirs] = [(await get(`/v4/tags/${label}`)).data, (await get(`/v4beta/tags/${label}`)).data];
    const kinds = (things: Json[]) => things.map(({ type, data }) => [type, data.id]);
    expect(kinds(ours)).toEqual([
      ["instance", instance.id],
      ["balancer", balancer.id],
    ]);
    expect(kinds(theirs)).toEqual([
      ["linode", instance.id],
      ["nodebalancer", balancer.id],
    ]);
    expect([ours[0].data.image, theirs[0].data.image, theirs[0].data.tags]).toEqual(["cloud/debian12", "linode/debian12", [label]]);
    const refused = await cloud.api.post("/v4beta/tags", { label, linodes: [999_999], nodebalancers: [999_999] });
    expect(fieldsOf(refused.body)).toEqual(["linodes[0]", "nodebalancers[0]"]);
  });

  it("grants: kinds and rights", async () => {
    const username = freshLabel("granted");
    await cloud.api.post("/v4/account/users", { username, email: "a@example.com", password: "Prompter-and-Pulley-1" });
    const path = `/account/users/${username}/grants`;
    const global = { add_linodes: true, add_nodebalancers: true, add_stackscripts: true, add_volumes: true };
    const wanted = { id: instance.id, permissions: "read_only" };
    expect((await cloud.api.put(`/v4beta${path}`, { global, linode: [wanted], nodebalancer: [], stackscript: [] })).status).toBe(200);
    const { ours, theirs, back } = await both(path, { linode: "instance", nodebalancer: "balancer", stackscript: "script" });
    expect(ours.global).toMatchObject({ add_instances: true, add_balancers: true, add_scripts: true, add_volumes: true, add_domains: false });
    expect(theirs.global).toMatchObject({ ...global, add_domains: false });
    expect(JSON.stringify(theirs.global)).not.toMatch(/"add_(instances|balancers|scripts)"/);
    expect(ours.instance).toContainEqual({ ...wanted, label: instance.label });
    expect({ ...back, global: ours.global }).toEqual(ours);
    const refused = await cloud.api.put(`/v4beta${path}`, { linode: [{ id: 999_999, permissions: "read_only" }], global: { add_linodes: "x" } });
    expect(fieldsOf(refused.body)).toContain("global.add_linodes");
  });

  it("the account: who bills, and what can be used", async () => {
    const { ours, theirs } = await both("/account");
    expect([ours.billing_source, theirs.billing_source]).toEqual(["cloud", "linode"]);
    expect(ours.capabilities).toEqual(["Instances", "Balancers", "Block Storage", "Scripts"]);
    expect(theirs.capabilities).toEqual(["Linodes", "NodeBalancers", "Block Storage", "StackScripts"]);
    const words = (await get("/v4beta/regions?page_size=500")).data.flatMap(({ capabilities }: Json) => capabilities);
    expect(words).toContain("GPU Linodes");
    expect(words.filter((word: string) => /Instance|(?<!Node)Balancer|(?<!Stack)Script/.test(word))).toEqual([]);
  });

  it("a balancer needs no label there, and gets one of its own", async () => {
    const [first, second] = [
      await cloud.api.post("/v4/nodebalancers", { region: "us-east" }),
      await there("POST", "/v4beta/nodebalancers", { region: "us-east", label: null }),
    ];
    expect([first.status, second.status]).toEqual([200, 200]);
    for (const { body } of [first, second]) expect(body.label).toMatch(/^balancer-[0-9a-f]{8}$/);
    expect(first.body.label).not.toBe(second.body.label);
    expect(fieldsOf((await cloud.api.post("/v4/balancers", { region: "us-east" })).body)).toEqual(["label"]);
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
