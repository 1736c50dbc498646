import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  configPath,
  createBalancer,
  createConfig,
  createNode,
  eventsOf,
  fieldsOf,
  freshLabel,
  httpServer,
  isListening,
  listening,
  nodePath,
  placeOfListener,
  selfNaming,
  silentServer,
  unheldAddress,
} from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterEach(closeWorld);
afterAll(() => cloud.close());

const defaults = {
  label: "",
  port: 80,
  protocol: "http",
  algorithm: "roundrobin",
  stickiness: "none",
  check: "none",
  check_interval: 31,
  check_timeout: 30,
  check_attempts: 3,
  check_path: "",
  check_body: "",
  check_passive: true,
  proxy_protocol: "none",
  cipher_suite: "recommended",
  udp_check_port: 80,
  ssl_cert: null,
  ssl_key: null,
  ssl_commonname: "",
  ssl_fingerprint: "",
  udp_session_timeout: 16,
  nodes_status: { up: 0, down: 0 },
  listener: { status: "pending", address: null, port: null, reason: null },
};

describe("configs (description 2.2, contract 8.2)", () => {
  it("an empty body makes an http config on port 80 with every default", async () => {
    const balancer = await createBalancer(cloud);
    const { status, body } = await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, {});
    expect(status).toBe(200);
    expect(body).toEqual({ id: expect.any(Number), balancer_id: balancer.id, ...defaults });
    expect(await eventsOf(cloud, "balancer", balancer.id)).toMatchObject([
      { action: "balancer_config_create", status: "notification", secondary_entity: { id: body.id, type: "balancer_config", url: configPath(body) } },
      { action: "balancer_create" },
    ]);
    const open = await listening(cloud, body);
    expect(open.listener).toMatchObject({ address: balancer.ipv4, reason: null });
    expect(await isListening(placeOfListener(open))).toBe(true);
    expect((await cloud.api.get(`/v4/balancers/${balancer.id}/configs`)).body).toEqual({ data: [open], page: 1, pages: 1, results: 1 });
  });

  it("every member is kept, read back, listed, and left alone by an update that does not name it", async () => {
    const balancer = await createBalancer(cloud);
    const sent = {
      label: "every member",
      port: 20_200,
      protocol: "http",
      algorithm: "leastconn",
      stickiness: "http_cookie",
      check: "http_body",
      check_interval: 60,
      check_timeout: 20,
      check_attempts: 7,
      check_path: "/health?deep=1&x=%20",
      check_body: "^all (is )?well$",
      check_passive: false,
      cipher_suite: "legacy",
      udp_check_port: 5353,
      proxy_protocol: "none",
    };
    const { status, body } = await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, sent);
    expect(status).toBe(200);
    expect(body).toMatchObject(sent);
    const { listener: _, ...settled } = (await cloud.api.get(configPath(body))).body;
    expect(settled).toMatchObject(sent);
    for (const [name, value] of Object.entries({
      label: "other",
      algorithm: "source",
      stickiness: "table",
      check_attempts: 1,
      check_path: "/",
      check_body: "x",
      check_passive: true,
      cipher_suite: "recommended",
      check_interval: 61,
      check_timeout: 21,
      port: 20_201,
      udp_check_port: 1,
      check: "connection",
    })) {
      const updated = await cloud.api.put(configPath(body), { [name]: value });
      expect(updated.status, name).toBe(200);
      Object.assign(settled, { [name]: value });
      expect(updated.body, name).toMatchObject(settled);
    }
    const { body: unchanged } = await cloud.api.put(configPath(body), { label: null, port: null, check: null });
    expect(unchanged).toMatchObject(settled);
    const whole = (await cloud.api.get(configPath(body))).body;
    const back = await cloud.api.put(configPath(body), whole);
    expect(back.status).toBe(200);
    expect(back.body).toMatchObject(settled);
  });

  it("tcp takes a PROXY version, udp its own words and defaults", async () => {
    const balancer = await createBalancer(cloud);
    expect(await createConfig(cloud, balancer.id, { port: 20_210, protocol: "tcp", proxy_protocol: "v2", stickiness: "table" })).toMatchObject({
      proxy_protocol: "v2",
      stickiness: "table",
    });
    const udp = await createConfig(cloud, balancer.id, { port: 20_210, protocol: "udp" });
    expect(udp).toMatchObject({ stickiness: "session", check_passive: false, cipher_suite: "none", algorithm: "roundrobin" });
    expect(await createConfig(cloud, balancer.id, { port: 20_211, protocol: "udp", algorithm: "ring_hash", stickiness: "source_ip" })).toMatchObject({
      algorithm: "ring_hash",
    });
    expect((await listening(cloud, udp)).listener).toMatchObject({ status: "open", port: 20_210 });
    const tcp = await cloud.api.put(configPath(udp), { protocol: "tcp", port: 20_212 });
    expect(tcp.body).toMatchObject({ stickiness: "none", check_passive: true, cipher_suite: "recommended" });
    expect(await isListening(placeOfListener(await listening(cloud, tcp.body)))).toBe(true);
  });

  it.each([
    [{ port: 0 }, ["port"]],
    [{ port: 65_536 }, ["port"]],
    [{ port: "80" }, ["port"]],
    [{ port: 1.5 }, ["port"]],
    [{ protocol: "ftp" }, ["protocol"]],
    [{ protocol: "HTTP" }, ["protocol"]],
    [{ algorithm: "ring_hash" }, ["algorithm"]],
    [{ algorithm: "random" }, ["algorithm"]],
    [{ stickiness: "session" }, ["stickiness"]],
    [{ protocol: "tcp", stickiness: "http_cookie" }, ["stickiness"]],
    [{ proxy_protocol: "v1" }, ["proxy_protocol"]],
    [{ cipher_suite: "none" }, ["cipher_suite"]],
    [
      { protocol: "udp", algorithm: "source", stickiness: "table", check_passive: true, cipher_suite: "legacy", proxy_protocol: "v1" },
      ["algorithm", "check_passive", "cipher_suite", "proxy_protocol", "stickiness"],
    ],
    [{ check: "ping" }, ["check"]],
    [{ check: "http" }, ["check_path"]],
    [{ check: "http_body" }, ["check_body", "check_path"]],
    [{ check: "http_body", check_path: "/" }, ["check_body"]],
    [{ check_path: "health" }, ["check_path"]],
    [{ check_path: "/a b" }, ["check_path"]],
    [{ check_path: "/a\r\nX: y" }, ["check_path"]],
    [{ check_path: `/${"a".repeat(2048)}` }, ["check_path"]],
    [{ check_body: "(" }, ["check_body"]],
    [{ check_body: "a".repeat(256) }, ["check_body"]],
    [{ check_interval: 1 }, ["check_interval"]],
    [{ check_interval: 3601 }, ["check_interval"]],
    [{ check_interval: 30 }, ["check_interval"]],
    [{ check_interval: 5, check_timeout: 5 }, ["check_interval"]],
    [{ check_timeout: 0 }, ["check_timeout"]],
    [{ check_interval: 20, check_timeout: 31 }, ["check_timeout"]],
    [{ check_attempts: 0 }, ["check_attempts"]],
    [{ check_attempts: 31 }, ["check_attempts"]],
    [{ check_passive: "yes" }, ["check_passive"]],
    [{ udp_check_port: 0 }, ["udp_check_port"]],
    [{ label: "a".repeat(129) }, ["label"]],
    [{ protocol: "https" }, ["ssl_cert", "ssl_key"]],
    [{ ssl_cert: "x" }, ["ssl_key"]],
    [{ ssl_cert: 5, ssl_key: [] }, ["ssl_cert", "ssl_key"]],
    [{ port: 70_000, protocol: "https", check: "http", check_interval: 1 }, ["check_interval", "check_path", "port", "ssl_cert", "ssl_key"]],
    [{ nodes: [{ label: "x", address: "192.168.1.1:80" }] }, ["nodes[0].address", "nodes[0].label"]],
  ])("%j is refused on %j, at creation and at an update", async (sent, fields) => {
    const balancer = await createBalancer(cloud);
    const created = await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, sent);
    expect(created.status).toBe(400);
    expect(fieldsOf(created.body)).toEqual(fields);
    expect(selfNaming(created.body)).toEqual([]);
    expect((await cloud.api.get(`/v4/balancers/${balancer.id}/configs`)).body.results).toBe(0);
    if ("nodes" in sent) return;
    const standing = await listening(cloud, await createConfig(cloud, balancer.id, { port: 20_220 }));
    const updated = await cloud.api.put(configPath(standing), sent);
    expect(updated.status).toBe(400);
    expect(fieldsOf(updated.body)).toEqual(fields);
    expect((await cloud.api.get(configPath(standing))).body).toEqual(standing);
    expect(await eventsOf(cloud, "balancer", balancer.id, { action: "balancer_config_update" })).toEqual([]);
  });

  it("bounds and choices are told in full", async () => {
    const balancer = await createBalancer(cloud);
    const { body } = await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, { port: 0, check: "ping" });
    expect(body.errors).toEqual([
      { reason: "Must be 1-65535", field: "port" },
      { reason: "Must be one of none, connection, http, http_body.", field: "check" },
    ]);
  });

  it("a port is unique among tcp, http and https of a balancer; udp and another balancer have their own", async () => {
    const [first, second] = [await createBalancer(cloud), await createBalancer(cloud)];
    const config = await createConfig(cloud, first.id, { port: 20_230 });
    const rival = await cloud.api.post(`/v4/balancers/${first.id}/configs`, { port: 20_230, protocol: "tcp" });
    expect([rival.status, fieldsOf(rival.body)]).toEqual([400, ["port"]]);
    await createConfig(cloud, first.id, { port: 20_230, protocol: "udp" });
    await createConfig(cloud, second.id, { port: 20_230 });
    const other = await createConfig(cloud, first.id, { port: 20_231 });
    expect(fieldsOf((await cloud.api.put(configPath(other), { port: 20_230 })).body)).toEqual(["port"]);
    expect((await cloud.api.put(configPath(config), { port: 20_230, label: "same port" })).status).toBe(200);
  });

  it("a config belongs to its balancer: elsewhere it is not found", async () => {
    const [first, second] = [await createBalancer(cloud), await createBalancer(cloud)];
    const config = await createConfig(cloud, first.id);
    const elsewhere = `/v4/balancers/${second.id}/configs/${config.id}`;
    for (const path of [elsewhere, `/v4/balancers/${first.id}/configs/999`, `/v4/balancers/999/configs/${config.id}`]) {
      expect((await cloud.api.get(path)).status).toBe(404);
      expect((await cloud.api.put(path, {})).status).toBe(404);
      expect((await cloud.api.del(path)).status).toBe(404);
      expect((await cloud.api.get(`${path}/nodes`)).status).toBe(404);
      expect((await cloud.api.post(`${path}/nodes`, {})).status).toBe(404);
    }
    expect((await cloud.api.get("/v4/balancers/999/configs")).status).toBe(404);
    expect((await cloud.api.post("/v4/balancers/999/configs", {})).status).toBe(404);
  });

  it("lists take filters only on what is documented as filterable: nothing", async () => {
    const balancer = await createBalancer(cloud);
    const { status, body } = await cloud.api.get(`/v4/balancers/${balancer.id}/configs`, { "X-Filter": '{"port":80}' });
    expect([status, body.errors[0].reason]).toEqual([400, "Cannot filter on port"]);
  });

  it("is rebuilt with all its nodes at once: named ones are updated, new ones made, the rest is removed", async () => {
    const balancer = await createBalancer(cloud);
    const address = unheldAddress(cloud);
    const nodes = ["one", "two"].map((label, index) => ({ label: `node-${label}`, address: `${address}:${8000 + index}` }));
    const config = await createConfig(cloud, balancer.id, { port: 20_700, nodes });
    const rebuild = (body: object) => cloud.api.post(`${configPath(config)}/rebuild`, body);
    const list = async () => (await cloud.api.get(`${configPath(config)}/nodes`)).body.data;
    const [one, two] = await list();
    const { status, body } = await rebuild({
      algorithm: "leastconn",
      nodes: [
        { id: two.id, label: "node-one", address: two.address, weight: 7 },
        { label: "node-three", address: `${address}:8002` },
      ],
    });
    expect([status, body.id, body.algorithm, body.port]).toEqual([200, config.id, "leastconn", 20_700]);
    const after = await list();
    expect(after).toMatchObject([
      { id: two.id, label: "node-one", weight: 7 },
      { label: "node-three", weight: 50 },
    ]);
    expect((await cloud.api.get(`${configPath(config)}/nodes/${one.id}`)).status).toBe(404);
    const refused = await rebuild({
      port: 0,
      nodes: [
        { id: one.id, label: "node-four", address: `${address}:1` },
        { id: two.id, label: "node-four", address: "10.0.0.1:1" },
        { id: two.id, label: "x", address: `${address}:2` },
      ],
    });
    expect(refused.status).toBe(400);
    expect(fieldsOf(refused.body)).toEqual(["nodes[0].id", "nodes[1].address", "nodes[1].label", "nodes[2].id", "nodes[2].label", "port"]);
    expect(fieldsOf((await rebuild({})).body)).toEqual(["nodes"]);
    expect((await list()).map(({ id, label }: Json) => [id, label])).toEqual(after.map(({ id, label }: Json) => [id, label]));
  });

  it("nodes may come with it, and are refused with it", async () => {
    const balancer = await createBalancer(cloud);
    const node = { label: "first", address: `${unheldAddress(cloud)}:80` };
    const config = await createConfig(cloud, balancer.id, { nodes: [node] });
    expect(config.nodes_status).toEqual({ up: 0, down: 1 });
    expect((await cloud.api.get(`${configPath(config)}/nodes`)).body.data).toMatchObject([node]);
    const { status, body } = await cloud.api.post(`/v4/balancers/${balancer.id}/configs`, {
      port: 20_240,
      nodes: [node, node, { label: "third", address: "8.8.8.8:80" }],
    });
    expect([status, fieldsOf(body)]).toEqual([400, ["nodes[1].label", "nodes[2].address"]]);
    expect((await cloud.api.get(`/v4/balancers/${balancer.id}/configs`)).body.results).toBe(1);
  });
});

describe("listeners", () => {
  it("move with the port: the old one refuses, the new one takes", async () => {
    const balancer = await createBalancer(cloud);
    const config = await listening(cloud, await createConfig(cloud, balancer.id, { port: 20_250 }));
    const old = placeOfListener(config);
    await cloud.api.put(configPath(config), { port: 20_251 });
    await until(async () => !(await isListening(old)), { what: "the old port to refuse" });
    const moved = await until(async () => {
      const { body } = await cloud.api.get(configPath(config));
      return body.listener.port === 20_251 && body;
    });
    expect(await isListening(placeOfListener(moved))).toBe(true);
  });

  it("a taken port is the config's visible failure, and is mended when it is free", async () => {
    const balancer = await createBalancer(cloud);
    const thief = await silentServer({ host: balancer.ipv4, port: 20_260 });
    const config = await createConfig(cloud, balancer.id, { port: 20_260 });
    const failed = await listening(cloud, config, "failed");
    expect(failed.listener).toMatchObject({ address: null, port: null });
    expect(failed.listener.reason).toMatch(/20260|in use|taken/i);
    expect((await cloud.api.get(`/v4/balancers/${balancer.id}/configs`)).body.data[0].listener.status).toBe("failed");
    await thief.close();
    const open = await listening(cloud, config);
    expect(open.listener.reason).toBeNull();
    expect(await isListening(placeOfListener(open))).toBe(true);
  });
});

describe("nodes (description 2.3, contract 8.4)", () => {
  const front = async () => createConfig(cloud, (await createBalancer(cloud)).id, { port: 20_270 });

  it("a new one has every member, with its defaults, and counts as down", async () => {
    const config = await front();
    const address = `${unheldAddress(cloud)}:8080`;
    const { status, body } = await cloud.api.post(`${configPath(config)}/nodes`, { label: "web.1_a-b", address });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.any(Number),
      label: "web.1_a-b",
      address,
      weight: 50,
      mode: "accept",
      status: "Unknown",
      config_id: config.id,
      balancer_id: config.balancer_id,
      vpc_config_id: null,
    });
    const seen = await until(async () => {
      const one = (await cloud.api.get(nodePath(body))).body;
      return one.status === "DOWN" && one;
    });
    expect(seen).toEqual({ ...body, status: "DOWN" });
    expect((await cloud.api.get(`${configPath(config)}/nodes`)).body).toEqual({ data: [seen], page: 1, pages: 1, results: 1 });
    expect((await cloud.api.get(configPath(config))).body.nodes_status).toEqual({ up: 0, down: 1 });
    expect(await eventsOf(cloud, "balancer", config.balancer_id, { action: "balancer_node_create" })).toMatchObject([
      { secondary_entity: { id: body.id, label: "web.1_a-b", type: "balancer_node" }, status: "notification" },
    ]);
  });

  it("an update changes what is sent; deleting removes it", async () => {
    const config = await front();
    const node = await createNode(cloud, config, `${unheldAddress(cloud)}:80`, { weight: 1, mode: "drain" });
    expect(node).toMatchObject({ weight: 1, mode: "drain" });
    const address = `${unheldAddress(cloud)}:65535`;
    for (const [name, value] of Object.entries({ label: "moved", address, weight: 255, mode: "backup" })) {
      const { status, body } = await cloud.api.put(nodePath(node), { [name]: value });
      expect(status).toBe(200);
      expect(body[name]).toBe(value);
    }
    expect((await cloud.api.put(nodePath(node), { label: null, weight: null, id: 9, status: "UP" })).body).toMatchObject({
      id: node.id,
      label: "moved",
      address,
      weight: 255,
      mode: "backup",
    });
    expect((await cloud.api.del(nodePath(node))).body).toEqual({});
    expect((await cloud.api.get(nodePath(node))).status).toBe(404);
    expect((await cloud.api.del(nodePath(node))).status).toBe(404);
    expect((await cloud.api.get(configPath(config))).body.nodes_status).toEqual({ up: 0, down: 0 });
    const actions = (await eventsOf(cloud, "balancer", config.balancer_id)).map((event) => event.action);
    expect(actions.filter((action) => action === "balancer_node_update")).toHaveLength(5);
    expect(actions[0]).toBe("balancer_node_delete");
  });

  it.each([
    [{}, ["address", "label"]],
    [{ label: "ok-node" }, ["address"]],
    [{ label: "ab", address: "$:80" }, ["label"]],
    [{ label: "has space", address: "$:80" }, ["label"]],
    [{ label: "a".repeat(33), address: "$:80" }, ["label"]],
    [{ label: "ok-node", address: "$" }, ["address"]],
    [{ label: "ok-node", address: "$:" }, ["address"]],
    [{ label: "ok-node", address: "$:0" }, ["address"]],
    [{ label: "ok-node", address: "$:65536" }, ["address"]],
    [{ label: "ok-node", address: "$:080" }, ["address"]],
    [{ label: "ok-node", address: "http://$:80" }, ["address"]],
    [{ label: "ok-node", address: "localhost:80" }, ["address"]],
    [{ label: "ok-node", address: "[::1]:80" }, ["address"]],
    [{ label: "ok-node", address: "127.0.0.1:80" }, ["address"]],
    [{ label: "ok-node", address: "10.0.0.1:80" }, ["address"]],
    [{ label: "ok-node", address: "8.8.8.8:80" }, ["address"]],
    [{ label: "ok-node", address: "192.168.255.1:80" }, ["address"]],
    [{ label: "ok-node", address: "192.168.300.1:80" }, ["address"]],
    [{ label: "ok-node", address: 5 }, ["address"]],
    [{ label: "ok-node", address: "$:80", weight: 0 }, ["weight"]],
    [{ label: "ok-node", address: "$:80", weight: 256 }, ["weight"]],
    [{ label: "ok-node", address: "$:80", mode: "none" }, ["mode"]],
    [{ label: "x", address: "10.0.0.1:80", weight: 0, mode: 1 }, ["address", "label", "mode", "weight"]],
  ])("%j is refused on %j, at creation and at an update", async (wanted, fields) => {
    const config = await front();
    const address = unheldAddress(cloud);
    const sent = {
      ...wanted,
      ...("address" in wanted && typeof wanted.address === "string" ? { address: wanted.address.replace("$", address) } : {}),
    };
    const { status, body } = await cloud.api.post(`${configPath(config)}/nodes`, sent);
    expect([status, fieldsOf(body)]).toEqual([400, fields]);
    expect(selfNaming(body)).toEqual([]);
    expect((await cloud.api.get(`${configPath(config)}/nodes`)).body.results).toBe(0);
    const standing = await createNode(cloud, config, `${address}:81`, { mode: "reject" });
    const updated = await cloud.api.put(nodePath(standing), sent);
    const present = fields.filter((field) => field in sent);
    expect(updated.status).toBe(present.length > 0 ? 400 : 200);
    if (present.length > 0) expect(fieldsOf(updated.body)).toEqual(present);
    if (present.length > 0) expect((await cloud.api.get(nodePath(standing))).body).toEqual(standing);
  });

  it("an address outside the private pool is told what it must begin with", async () => {
    const { body } = await cloud.api.post(`${configPath(await front())}/nodes`, { label: "ok-node", address: "10.0.0.1:80" });
    expect(body.errors[0].reason).toMatch(/begin with 192\.168/);
  });

  it("a label is unique in its config and free in the next", async () => {
    const [first, second] = [await front(), await front()];
    const node = await createNode(cloud, first, `${unheldAddress(cloud)}:80`);
    const other = await createNode(cloud, first, `${unheldAddress(cloud)}:80`);
    const taken = await cloud.api.post(`${configPath(first)}/nodes`, { label: node.label, address: node.address, weight: 999 });
    expect(fieldsOf(taken.body)).toEqual(["label", "weight"]);
    expect(fieldsOf((await cloud.api.put(nodePath(other), { label: node.label })).body)).toEqual(["label"]);
    expect((await cloud.api.put(nodePath(node), { label: node.label })).status).toBe(200);
    expect((await cloud.api.post(`${configPath(second)}/nodes`, { label: node.label, address: node.address })).status).toBe(200);
  });

  it("an address of an instance in another region is refused, with both regions", async () => {
    const config = await front();
    const { body: instance } = await cloud.api.post("/v4/cloud/instances", { region: "eu-west", type: "g6-nanode-1", private_ip: true });
    const address = `${instance.ipv4[1]}:80`;
    const { status, body } = await cloud.api.post(`${configPath(config)}/nodes`, { label: freshLabel(), address });
    expect([status, fieldsOf(body)]).toEqual([400, ["address"]]);
    expect(body.errors[0].reason).toMatch(/eu-west.*us-east/);
    const { body: near } = await cloud.api.post("/v4/cloud/instances", { region: "us-east", type: "g6-nanode-1", private_ip: true });
    expect((await cloud.api.post(`${configPath(config)}/nodes`, { label: freshLabel(), address: `${near.ipv4[1]}:80` })).status).toBe(200);
  });

  it("deleting a config takes its nodes along: nothing is probed any more", async () => {
    const config = await front();
    const node = await createNode(cloud, config, `${unheldAddress(cloud)}:80`);
    const probed: string[] = [];
    const place = (await cloud.api.get(`/_backlot/dial?address=${node.address.split(":")[0]}&port=80`)).body;
    await httpServer(place, (request, response) => {
      probed.push(request.url ?? "");
      response.end("up");
    });
    await cloud.api.put(configPath(config), { check: "http", check_path: "/alive", check_interval: 2, check_timeout: 1 });
    await until(() => probed.includes("/alive"));
    await cloud.api.del(configPath(config));
    expect((await cloud.api.get(nodePath(node))).status).toBe(404);
    expect((await cloud.api.get(`/_backlot/nodes/${node.id}/probes`)).status).toBe(404);
    const other = await createConfig(cloud, config.balancer_id, { check: "http", check_path: "/other", check_interval: 2, check_timeout: 1 });
    await createNode(cloud, other, node.address);
    await until(() => probed.includes("/other"));
    const before = probed.filter((path) => path === "/alive").length;
    await until(() => probed.filter((path) => path === "/other").length > 3);
    expect(probed.filter((path) => path === "/alive")).toHaveLength(before);
  });
});
