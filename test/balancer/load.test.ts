import http from "node:http";
import https from "node:https";
import { setTimeout as pause } from "node:timers/promises";
import { afterEach, expect, test } from "vitest";
import type { ListenerSpec, NodeSpec } from "../../src/balancer/plane.js";
import { applyOpen, closeOpened, listen, makePair, node, spec, startPlane } from "./support.js";

afterEach(closeOpened);

const CLIENTS = 12;
const BIG = "x".repeat(200_000);

/** A node as people write them: keep-alive, bodies echoed in length, a big answer now and then. */
const webNode = async (): Promise<{ port: number; server: http.Server }> => {
  const server = http.createServer((req, res) => {
    let size = 0;
    req.on("data", (bytes: Buffer) => {
      size += bytes.length;
    });
    req.on("end", () => res.end(req.url === "/big" ? BIG : `got ${size}`));
  });
  server.keepAliveTimeout = 50; // shorter than anybody expects: kept connections go stale all the time
  return { port: await listen(server), server };
};

/** Asks until `total` were asked; what went wrong, in words. */
const hammer = async (port: number, secure: boolean, asked: { count: number }, total: number): Promise<string[]> => {
  const web = secure ? https : http;
  const agent = new web.Agent({ keepAlive: true, maxSockets: CLIENTS, rejectUnauthorized: false } as https.AgentOptions);
  const failures: string[] = [];
  const ask = (turn: number) =>
    new Promise<void>((resolve) => {
      const kind = turn % 5;
      const body = kind === 1 ? "a".repeat(1 + (turn % 3_000)) : undefined;
      const path = kind === 2 && turn % 20 === 2 ? "/big" : "/";
      const expected = path === "/big" ? BIG : `got ${body?.length ?? 0}`;
      const options = { port, host: "127.0.0.1", agent, path, method: body === undefined ? "GET" : "POST" };
      const fail = (reason: string) => {
        failures.push(`${options.method} ${path} (${turn}): ${reason}`);
        resolve();
      };
      const req = web.request(options, (res) => {
        const chunks: Buffer[] = [];
        res.on("data", (bytes: Buffer) => chunks.push(bytes));
        res.on("error", (error) => fail(String(error)));
        res.on("end", () => {
          const heard = Buffer.concat(chunks).toString();
          if (res.statusCode !== 200) return fail(`${res.statusCode} ${heard.trim()}`);
          if (heard !== expected) return fail(`${heard.length} bytes instead of ${expected.length}`);
          resolve();
        });
      });
      req.on("error", (error) => fail(String(error)));
      req.end(body);
    });
  await Promise.all(
    Array.from({ length: CLIENTS }, async () => {
      while (asked.count < total) await ask(asked.count++);
    }),
  );
  agent.destroy();
  return failures;
};

test.each([
  ["http", true, 2_500],
  ["https", true, 1_000],
  ["http", false, 500],
] as const)("under load nothing that is changed costs a request (%s, fast lane %s, %i requests)", async (protocol, fastLane, total) => {
  const webs = [await webNode(), await webNode(), await webNode()];
  const nodes: NodeSpec[] = webs.map(({ port }, index) => node(index + 1, port));
  const pairs = [makePair("one.test"), makePair("two.test")].map((pair) => ({ ...pair, cipherSuite: "recommended" as const }));
  const plane = startPlane({ fastLane });
  const more: Partial<ListenerSpec> = { protocol, tls: protocol === "https" ? (pairs[0] ?? null) : null };
  const port = await applyOpen(plane, spec(nodes, more));
  const asked = { count: 0 };
  const running = hammer(port, protocol === "https", asked, total);

  const but = (id: number, change: Partial<NodeSpec>) => nodes.map((each) => (each.id === id ? { ...each, ...change } : each));
  const changes: Array<() => Promise<unknown>> = [
    () => applyOpen(plane, spec(nodes.slice(1), more)),
    () => applyOpen(plane, spec(nodes, more)),
    () => applyOpen(plane, spec(but(2, { mode: "drain" }), more)),
    () => applyOpen(plane, spec(but(3, { mode: "reject" }), more)),
    () => applyOpen(plane, spec(but(1, { up: false }), more)),
    () => applyOpen(plane, spec(but(1, { weight: 200 }), { ...more, algorithm: "leastconn" })),
    () => applyOpen(plane, spec(nodes, { ...more, algorithm: "source", stickiness: "table" })),
    () => applyOpen(plane, spec(nodes, { ...more, stickiness: "http_cookie" })),
    () => applyOpen(plane, spec(nodes, { ...more, ...(protocol === "https" ? { tls: pairs[1] ?? null } : {}) })),
    () => applyOpen(plane, spec(nodes, more), "config:2"),
    () => plane.apply("config:2", undefined),
  ];
  let changed = 0;
  while (asked.count < total) {
    await changes[changed++ % changes.length]?.();
    await pause(5);
  }
  // A node that was taken out may stop for good; nothing is on its way to it once its requests are over.
  expect(await running).toEqual([]);
  expect(changed).toBeGreaterThan(changes.length);
  expect((await plane.counters())["config:1"]?.requests).toBe(total);
});
