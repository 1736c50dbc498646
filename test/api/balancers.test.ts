import { createServer } from "node:net";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  createBalancer,
  createConfig,
  eventsOf,
  fieldsOf,
  freshLabel,
  isListening,
  listening,
  placeOfListener,
  selfNaming,
  unheldAddress,
} from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterEach(closeWorld);
afterAll(() => cloud.close());

const bind = (host: string, port: number): Promise<void> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once("error", reject);
    server.listen({ host, port }, () => server.close(() => resolve()));
  });

describe("balancers (description 2.1, contract 8.1)", () => {
  it("a new one has every member of the record, an address of its own and no configs", async () => {
    const label = freshLabel("new");
    const asked = Date.now();
    const { status, body } = await cloud.api.post("/v4/balancers", {
      label,
      region: "us-east",
      client_conn_throttle: 20,
      client_udp_sess_throttle: 3,
      tags: ["stage", "west"],
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      id: expect.any(Number),
      label,
      region: "us-east",
      hostname: `${body.ipv4.replaceAll(".", "-")}.ip.backlot.test`,
      ipv4: expect.stringMatching(/^127\.0\./),
      ipv6: null,
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
      updated: body.created,
      client_conn_throttle: 20,
      client_udp_sess_throttle: 3,
      transfer: { total: null, out: null, in: null },
      tags: ["stage", "west"],
      type: "common",
      lke_cluster: null,
      frontend_address_type: null,
      frontend_vpc_subnet_id: null,
      locks: [],
    });
    expect(Date.parse(`${body.created}Z`)).toBeGreaterThanOrEqual(Math.floor(asked / 1000) * 1000);
    expect((await cloud.api.get(`/v4/balancers/${body.id}`)).body).toEqual(body);
    expect((await cloud.api.get("/v4/balancers")).body.data).toContainEqual(body);
    expect((await cloud.api.get(`/v4/balancers/${body.id}/configs`)).body).toEqual({ data: [], page: 1, pages: 1, results: 0 });
    expect(await eventsOf(cloud, "balancer", body.id)).toMatchObject([{ action: "balancer_create", status: "notification", username: "backlot" }]);
    const other = await createBalancer(cloud);
    expect(other.ipv4).not.toBe(body.ipv4);
    expect(other).toMatchObject({ client_conn_throttle: 0, client_udp_sess_throttle: 0, tags: [] });
  });

  it("an update changes what is sent and nothing else", async () => {
    const made = await createBalancer(cloud, { client_conn_throttle: 5, tags: ["one"] });
    const label = freshLabel("renamed");
    const { status, body } = await cloud.api.put(`/v4/balancers/${made.id}`, { label, region: "eu-west", ipv4: "127.9.9.9" });
    expect(status).toBe(200);
    expect(body).toEqual({ ...made, label, updated: expect.any(String) });
    expect((await cloud.api.put(`/v4/balancers/${made.id}`, { tags: [], client_conn_throttle: 0 })).body).toMatchObject({
      label,
      tags: [],
      client_conn_throttle: 0,
    });
    expect((await cloud.api.put(`/v4/balancers/${made.id}`, {})).body).toMatchObject({ label, tags: [] });
    expect((await eventsOf(cloud, "balancer", made.id)).map((event) => event.action)).toEqual([
      ...Array(3).fill("balancer_update"),
      "balancer_create",
    ]);
  });

  it.each([
    [{}, ["label", "region"]],
    [{ label: "ok-label" }, ["region"]],
    [{ region: "us-east" }, ["label"]],
    [{ label: "ab", region: "us-east" }, ["label"]],
    [{ label: "a".repeat(33), region: "us-east" }, ["label"]],
    [{ label: "with space", region: "us-east" }, ["label"]],
    [{ label: 5, region: 5 }, ["label", "region"]],
    [{ label: "ok-label", region: "us_east" }, ["region"]],
    [{ label: "ok-label", region: "us-east", client_conn_throttle: 21 }, ["client_conn_throttle"]],
    [{ label: "ok-label", region: "us-east", client_conn_throttle: -1 }, ["client_conn_throttle"]],
    [{ label: "ok-label", region: "us-east", client_conn_throttle: 1.5 }, ["client_conn_throttle"]],
    [{ label: "ok-label", region: "us-east", client_conn_throttle: "5" }, ["client_conn_throttle"]],
    [{ label: "ok-label", region: "us-east", client_udp_sess_throttle: 21, tags: "x" }, ["client_udp_sess_throttle", "tags"]],
    [{ label: "ok-label", region: "us-east", tags: ["ab", "fine", 7] }, ["tags[0]", "tags[2]"]],
    [{ label: "ok-label", region: "us-east", configs: {} }, ["configs"]],
    [{ label: "x", region: "nowhere", client_conn_throttle: 99 }, ["client_conn_throttle", "label", "region"]],
  ])("%j is refused on %j, and nothing is made", async (sent, fields) => {
    const before = (await cloud.api.get("/v4/balancers")).body.results;
    const { status, body } = await cloud.api.post("/v4/balancers", sent);
    expect(status).toBe(400);
    expect([...new Set(fieldsOf(body))]).toEqual(fields);
    expect(selfNaming(body)).toEqual([]);
    expect((await cloud.api.get("/v4/balancers")).body.results).toBe(before);
  });

  it("a throttle out of bounds says the bounds", async () => {
    const { body } = await cloud.api.post("/v4/balancers", { label: "ok-label", region: "us-east", client_conn_throttle: 21 });
    expect(body.errors).toEqual([{ reason: "Must be 0-20", field: "client_conn_throttle" }]);
  });

  it("a label is unique, at creation and at an update", async () => {
    const [first, second] = [await createBalancer(cloud), await createBalancer(cloud)];
    expect(fieldsOf((await cloud.api.post("/v4/balancers", { label: first.label, region: "us-east" })).body)).toEqual(["label"]);
    const both = await cloud.api.put(`/v4/balancers/${second.id}`, { label: first.label, client_conn_throttle: 99 });
    expect(both.status).toBe(400);
    expect(fieldsOf(both.body)).toEqual(["client_conn_throttle", "label"]);
    expect((await cloud.api.get(`/v4/balancers/${second.id}`)).body.label).toBe(second.label);
    expect((await cloud.api.put(`/v4/balancers/${second.id}`, { label: second.label })).status).toBe(200);
  });

  it.each(["get", "put", "del"] as const)("an unknown id is not found (%s)", async (verb) => {
    const answer = verb === "put" ? await cloud.api.put("/v4/balancers/999", {}) : await cloud.api[verb]("/v4/balancers/999");
    expect([answer.status, answer.body]).toEqual([404, { errors: [{ reason: "Not found" }] }]);
  });
});

describe("a balancer made with its configs and nodes (contract 8.1)", () => {
  it("stands whole in one call: rows, events and open ports", async () => {
    const nodes = [
      { label: "one", address: `${unheldAddress(cloud)}:80`, weight: 7, mode: "backup" },
      { label: "two", address: `${unheldAddress(cloud)}:80` },
    ];
    const made = await createBalancer(cloud, {
      configs: [
        { port: 20_110, label: "front", nodes },
        { port: 20_111, protocol: "tcp", stickiness: null, nodes: nodes.slice(0, 1) },
      ],
    });
    expect(made).not.toHaveProperty("configs");
    const configs = (await cloud.api.get(`/v4/balancers/${made.id}/configs`)).body.data;
    expect(configs).toMatchObject([
      { port: 20_110, label: "front", protocol: "http", nodes_status: { up: 0, down: 2 } },
      { port: 20_111, protocol: "tcp", nodes_status: { up: 0, down: 1 } },
    ]);
    const listed = (await cloud.api.get(`/v4/balancers/${made.id}/configs/${configs[0].id}/nodes`)).body.data;
    expect(listed).toMatchObject([
      { ...nodes[0], config_id: configs[0].id, balancer_id: made.id },
      { ...nodes[1], weight: 50, mode: "accept" },
    ]);
    expect((await eventsOf(cloud, "balancer", made.id)).map((event) => event.action).reverse()).toEqual([
      "balancer_create",
      "balancer_config_create",
      "balancer_node_create",
      "balancer_node_create",
      "balancer_config_create",
      "balancer_node_create",
    ]);
    for (const config of configs) expect(await isListening(placeOfListener(await listening(cloud, config)))).toBe(true);
  });

  it("is refused whole, every problem at its place", async () => {
    const before = (await cloud.api.get("/v4/balancers")).body.results;
    const fine = { label: "fine", address: `${unheldAddress(cloud)}:80` };
    const { status, body } = await cloud.api.post("/v4/balancers", {
      label: freshLabel(),
      region: "us-east",
      configs: [
        { port: 80, nodes: [{ label: "one", address: "10.0.0.1:80" }, fine, fine] },
        { port: 80, check: "http", nodes: [{ label: "two", address: "192.168.1.1" }] },
      ],
    });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual([
      "configs[0].nodes[0].address",
      "configs[0].nodes[2].label",
      "configs[1].check_path",
      "configs[1].nodes[0].address",
      "configs[1].port",
    ]);
    expect(selfNaming(body)).toEqual([]);
    expect((await cloud.api.get("/v4/balancers")).body.results).toBe(before);
  });

  it.each([
    [[{ port: 80 }], ["configs[0].nodes"]],
    [[{ port: 80, nodes: [] }], ["configs[0].nodes"]],
    [
      [{ port: 0, protocol: "ftp", nodes: [{}] }],
      ["configs[0].nodes[0].address", "configs[0].nodes[0].label", "configs[0].port", "configs[0].protocol"],
    ],
    [[{ protocol: "https", nodes: [{ label: "one", address: "x" }] }], ["configs[0].nodes[0].address", "configs[0].ssl_cert", "configs[0].ssl_key"]],
    [[5], ["configs[0]"]],
    // What is well formed is judged beside what is not.
    [
      [
        {
          port: "x",
          check: "http",
          nodes: [
            { label: "one", address: 5 },
            { label: "one", address: "10.0.0.1:80", mode: "sideways" },
          ],
        },
        { port: 80, nodes: [{ label: null, address: "x" }] },
        { port: 80, protocol: "https", check_timeout: 99, check_interval: 1, nodes: "none" },
      ],
      [
        "configs[0].check_path",
        "configs[0].nodes[0].address",
        "configs[0].nodes[1].address",
        "configs[0].nodes[1].label",
        "configs[0].nodes[1].mode",
        "configs[0].port",
        "configs[1].nodes[0].address",
        "configs[1].nodes[0].label",
        "configs[2].check_interval",
        "configs[2].check_timeout",
        "configs[2].nodes",
        "configs[2].port",
        "configs[2].ssl_cert",
        "configs[2].ssl_key",
      ],
    ],
  ])("%j names %j", async (configs, fields) => {
    const { status, body } = await cloud.api.post("/v4/balancers", { label: freshLabel(), region: "us-east", configs });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(fields);
  });
});

describe("deleting", () => {
  it("a balancer takes its configs and nodes along and frees its ports", async () => {
    const node = { label: "one", address: `${unheldAddress(cloud)}:80` };
    const made = await createBalancer(cloud, {
      configs: [
        { port: 20_120, nodes: [node] },
        { port: 20_121, nodes: [node] },
      ],
    });
    const configs = (await cloud.api.get(`/v4/balancers/${made.id}/configs`)).body.data;
    const places = [];
    for (const config of configs) places.push(placeOfListener(await listening(cloud, config)));
    for (const place of places) expect(await isListening(place)).toBe(true);

    const { status, body } = await cloud.api.del(`/v4/balancers/${made.id}`);
    expect([status, body]).toEqual([200, {}]);
    expect((await eventsOf(cloud, "balancer", made.id))[0]).toMatchObject({ action: "balancer_delete", entity: { label: made.label } });
    for (const path of ["", "/configs", `/configs/${configs[0].id}`, `/configs/${configs[0].id}/nodes`]) {
      expect((await cloud.api.get(`/v4/balancers/${made.id}${path}`)).status).toBe(404);
    }
    expect((await cloud.api.del(`/v4/balancers/${made.id}`)).status).toBe(404);
    for (const { host, port } of places) await until(() => bind(host, port).then(() => true), { what: "a port that can be bound" });
    const health = (await cloud.api.get("/_backlot/health")).body.counts;
    const all = (await cloud.api.get("/v4/balancers?page_size=500")).body.data;
    const left = await Promise.all(all.map(async ({ id }: { id: number }) => (await cloud.api.get(`/v4/balancers/${id}/configs`)).body.results));
    expect(health).toMatchObject({ balancer: all.length, config: left.reduce((sum: number, count: number) => sum + count, 0) });
  });

  it("a config frees its own port and leaves the other serving", async () => {
    const balancer = await createBalancer(cloud);
    const [first, second] = [await createConfig(cloud, balancer.id, { port: 20_130 }), await createConfig(cloud, balancer.id, { port: 20_131 })];
    const place = placeOfListener(await listening(cloud, first));
    const other = placeOfListener(await listening(cloud, second));
    expect((await cloud.api.del(`/v4/balancers/${balancer.id}/configs/${first.id}`)).body).toEqual({});
    await until(() => bind(place.host, place.port).then(() => true), { what: "a port that can be bound" });
    expect(await isListening(other)).toBe(true);
    expect((await eventsOf(cloud, "balancer", balancer.id))[0]).toMatchObject({
      action: "balancer_config_delete",
      secondary_entity: { id: first.id, type: "balancer_config" },
    });
  });
});
