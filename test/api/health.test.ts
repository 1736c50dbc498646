import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import {
  closeWorld,
  configPath,
  createBalancer,
  createConfig,
  createInstance,
  createNode,
  dial,
  httpServer,
  instanceIn,
  listening,
  nodePath,
  nodesStatus,
  placeOfListener,
  rawExchange,
  removeInstance,
  silentServer,
  unheldAddress,
} from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterEach(closeWorld);
afterAll(() => cloud.close());

const quick = { check_interval: 2, check_timeout: 1, check_attempts: 2 };

/** A config with one node, on an address where nothing listens yet. */
const front = async (more: object = {}) => {
  const balancer = await createBalancer(cloud);
  const config = await createConfig(cloud, balancer.id, { port: 20_300, check: "connection", ...quick, ...more });
  const address = unheldAddress(cloud);
  const node = await createNode(cloud, config, `${address}:8080`);
  return { config, node, place: await dial(cloud, address, 8080) };
};

const ask = async (config: Json, path = "/") => {
  const { host, port } = placeOfListener(await listening(cloud, config));
  return rawExchange({ host, port }, `GET ${path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n`);
};

const probes = async (node: Json): Promise<Json[]> => (await cloud.api.get(`/_backlot/nodes/${node.id}/probes`)).body.probes;

describe("nodes_status follows the world (description 3)", () => {
  it("is down until a process listens, up while it does, and down again", async () => {
    const { config, node, place } = await front();
    await nodesStatus(cloud, config, 0, 1);
    await until(async () => (await cloud.api.get(nodePath(node))).body.status === "DOWN");
    const server = await httpServer(place, "here");
    await nodesStatus(cloud, config, 1, 0);
    expect((await cloud.api.get(nodePath(node))).body.status).toBe("UP");
    expect(await until(async () => (await ask(config)).includes("here") && "here")).toBe("here");
    await server.close();
    await nodesStatus(cloud, config, 0, 1);
    expect((await cloud.api.get(nodePath(node))).body.status).toBe("DOWN");
    await httpServer(place, "back");
    await nodesStatus(cloud, config, 1, 0);
  });

  it("requests are shared by the nodes that are up, and go on when one goes down", async () => {
    const { config, place } = await front();
    const address = unheldAddress(cloud);
    await createNode(cloud, config, `${address}:8080`);
    const first = await httpServer(place, "first");
    await httpServer(await dial(cloud, address, 8080), "second");
    await nodesStatus(cloud, config, 2, 0);
    const bodies = new Set<string>();
    await until(async () => bodies.add((await ask(config)).split("\r\n\r\n")[1] ?? "").size === 2);
    expect([...bodies].sort()).toEqual(["first", "second"]);
    await first.close();
    await nodesStatus(cloud, config, 1, 1);
    for (let count = 0; count < 4; count += 1) expect(await ask(config)).toMatch(/^HTTP\/1\.1 200 [\s\S]*second$/);
  });

  it("without a node that is up the answer is 503 with its reason; tcp is closed", async () => {
    const { config } = await front();
    await nodesStatus(cloud, config, 0, 1);
    const answer = await ask(config);
    expect(answer).toMatch(/^HTTP\/1\.1 503 /);
    expect(answer).toMatch(/\r\nx-backlot-[a-z-]*: ?.+/i);
    const { config: tcp } = await front({ protocol: "tcp", port: 20_301 });
    await nodesStatus(cloud, tcp, 0, 1);
    expect(await ask(tcp).catch((error: NodeJS.ErrnoException) => (error.code === "ECONNRESET" ? "" : Promise.reject(error)))).toBe("");
  });

  it("mode reject counts as down and gets nothing, though the server is up", async () => {
    const { config, node, place } = await front();
    const seen: string[] = [];
    await httpServer(place, (request, response) => {
      seen.push(request.url ?? "");
      response.end("here");
    });
    await nodesStatus(cloud, config, 1, 0);
    await cloud.api.put(nodePath(node), { mode: "reject" });
    await nodesStatus(cloud, config, 0, 1);
    await until(async () => (await ask(config, "/rejected")).startsWith("HTTP/1.1 503"));
    expect(seen.filter((path) => path === "/rejected")).toEqual([]);
    await cloud.api.put(nodePath(node), { mode: "accept" });
    await nodesStatus(cloud, config, 1, 0);
  });

  it("two configs measure the same address for themselves", async () => {
    const { config, node, place } = await front();
    const other = await createConfig(cloud, config.balancer_id, { port: 20_302, check: "http", check_path: "/missing", ...quick });
    await createNode(cloud, other, node.address);
    await httpServer(place, (request, response) => void response.writeHead(request.url === "/missing" ? 404 : 200).end());
    await nodesStatus(cloud, config, 1, 0);
    await nodesStatus(cloud, other, 0, 1);
  });
});

describe("checks", () => {
  it("http asks for check_path and wants 2xx or 3xx", async () => {
    let status = 500;
    const asked: Array<[string, string]> = [];
    const { config, node, place } = await front({ check: "http", check_path: "/healthz?full=1" });
    await httpServer(place, (request, response) => {
      asked.push([request.method ?? "", request.url ?? ""]);
      response.writeHead(status).end();
    });
    await until(async () => (await probes(node)).some((probe) => /500/.test(probe.reason)));
    expect((await cloud.api.get(configPath(config))).body.nodes_status).toEqual({ up: 0, down: 1 });
    for (const [good, up] of [
      [204, 1],
      [404, 0],
      [302, 1],
      [503, 0],
    ] as const) {
      status = good;
      await nodesStatus(cloud, config, up, 1 - up);
    }
    expect(new Set(asked.map((entry) => entry.join(" ")))).toEqual(new Set(["GET /healthz?full=1"]));
  });

  it("http_body wants the expression to match", async () => {
    let text = "half well";
    const { config, node, place } = await front({ check: "http_body", check_path: "/", check_body: "^all (is )?well$" });
    await httpServer(place, (_request, response) => void response.end(text));
    await until(async () => (await probes(node)).length >= 2 && (await cloud.api.get(nodePath(node))).body.status === "DOWN");
    text = "all is well";
    await nodesStatus(cloud, config, 1, 0);
    text = "all is lost";
    await nodesStatus(cloud, config, 0, 1);
  });

  it("connection is content with a socket that says nothing; http is not", async () => {
    const { config, node, place } = await front();
    await silentServer(place);
    await nodesStatus(cloud, config, 1, 0);
    await cloud.api.put(configPath(config), { check: "http", check_path: "/" });
    await nodesStatus(cloud, config, 0, 1);
    expect((await probes(node)).at(-1)).toMatchObject({ ok: false });
  });

  it("none uses a node whatever is measured, and its status is measured all the same", async () => {
    const { config, node, place } = await front({ check: "none" });
    await until(async () => (await cloud.api.get(nodePath(node))).body.status === "DOWN");
    expect(await ask(config)).toMatch(/^HTTP\/1\.1 50[234] /);
    // The failed request took it out for a while (passive checks); a measurement that fails does not.
    await httpServer(place, "used again");
    await until(async () => /used again$/.test(await ask(config)));
    await nodesStatus(cloud, config, 1, 0);
  });

  it("none sends nobody to the address of an instance that does not run, whoever answers there", async () => {
    const instance = await createInstance(cloud, { private_ip: true });
    await instanceIn(cloud, instance.id, "running");
    const balancer = await createBalancer(cloud);
    const config = await createConfig(cloud, balancer.id, { port: 20_391, check: "none" });
    await createNode(cloud, config, `${instance.ipv4[1]}:8080`);
    await listening(cloud, config);
    await httpServer(await dial(cloud, instance.ipv4[1], 8_080), "a stranger");
    await until(async () => /a stranger$/.test(await ask(config)));
    await cloud.api.post(`/v4/cloud/instances/${instance.id}/shutdown`);
    await instanceIn(cloud, instance.id, "offline");
    await until(async () => /^HTTP\/1\.1 503 [\s\S]*X-Backlot-Reason: no-node-up/.test(await ask(config)));
    await cloud.api.post(`/v4/cloud/instances/${instance.id}/boot`);
    await until(async () => /a stranger$/.test(await ask(config)));
    await removeInstance(cloud, instance.id);
  });

  it("attempts: one failure takes nobody out, that many in a row do", async () => {
    let failing = 0;
    // 600 ms here for an answer: on a busy machine one that comes late would be a failure of another kind.
    const patient = { check_interval: 31, check_timeout: 30, check_attempts: 3, check_passive: false };
    const { config, node, place } = await front({ check: "http", check_path: "/", ...patient });
    await httpServer(place, (_request, response) => {
      failing -= 1;
      response.writeHead(failing >= 0 ? 500 : 200).end();
    });
    await nodesStatus(cloud, config, 1, 0);
    failing = 2;
    const seen = new Set<string>();
    await until(async () => {
      seen.add((await cloud.api.get(nodePath(node))).body.status);
      const list = await probes(node);
      const last = list.findLastIndex((probe) => !probe.ok);
      return last > 0 && list.slice(last).some((probe) => probe.ok);
    });
    expect([...seen]).toEqual(["UP"]);
    expect((await probes(node)).filter((probe) => /500/.test(probe.reason))).toHaveLength(2);
    failing = 1_000_000;
    await nodesStatus(cloud, config, 0, 1);
  });

  it("passive: a failing answer to a real request makes it look at once", async () => {
    let status = 200;
    // An hour between two checks (72 s here): only the request itself can tell.
    const { config, place } = await front({ check: "http", check_path: "/", check_interval: 3600, check_timeout: 30 });
    await httpServer(place, (_request, response) => void response.writeHead(status).end());
    await nodesStatus(cloud, config, 1, 0);
    status = 500;
    await ask(config);
    await nodesStatus(cloud, config, 0, 1);
  });
});

describe("a check under way", () => {
  it("is cut when its machine dies or its row changes: neither waits for an address that is silent", async () => {
    // At real speed, where this check would wait 30 s.
    const slow = await startCloud({ speed: 1 });
    try {
      const instance = await createInstance(slow, { private_ip: true });
      await instanceIn(slow, instance.id, "running");
      const address = instance.ipv4.find((each: string) => each.startsWith("192.168."));
      let asked = 0;
      const silent = () => {
        asked += 1;
      };
      await httpServer(await dial(slow, address, 8080), silent);
      const balancer = await createBalancer(slow);
      const config = await createConfig(slow, balancer.id, { port: 20_303, check: "http", check_path: "/", check_interval: 31, check_timeout: 30 });
      const node = await createNode(slow, config, `${address}:8080`);
      await until(() => asked === 1);
      await slow.api.put(configPath(config), { check_path: "/other" });
      await until(() => asked === 2);
      await slow.api.post(`/_backlot/instances/${instance.id}/kill`);
      await until(async () => (await slow.api.get(nodePath(node))).body.status === "DOWN");
      const list = (await slow.api.get(`/_backlot/nodes/${node.id}/probes`)).body.probes;
      expect(list).toHaveLength(1);
      expect(list[0].reason).toMatch(/is not running/);
    } finally {
      await slow.close();
    }
  });
});

describe("/_backlot/nodes/ID/probes", () => {
  it("holds the last 50 with time, duration, verdict and reason", async () => {
    const { config, node, place } = await front();
    await until(async () => (await probes(node)).length > 0);
    const [first] = await probes(node);
    expect(first).toEqual({
      time: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      duration_ms: expect.any(Number),
      ok: false,
      reason: expect.stringMatching(/\w+/),
    });
    await httpServer(place, "here");
    await nodesStatus(cloud, config, 1, 0);
    const full = await until(
      async () => {
        const list = await probes(node);
        return list.length === 50 && list[0].time !== first.time && list;
      },
      { what: "50 probes and one forgotten" },
    );
    const times = full.map((probe: Json) => probe.time);
    expect(times).toEqual([...times].sort());
    expect(full.at(-1)).toMatchObject({ ok: true });
    expect((await cloud.api.get("/_backlot/nodes/999/probes")).status).toBe(404);
    expect((await send(cloud.url, "GET", `/_backlot/nodes/${node.id}/probes`, {})).status).toBe(401);
  });
});
