import { spawn } from "node:child_process";
import { once } from "node:events";
import http, { createServer } from "node:http";
import { createServer as createTcp } from "node:net";
import { connect as connectTls } from "node:tls";
import type { Worker } from "node:worker_threads";
import { afterEach, beforeAll, describe, expect, test } from "vitest";
import { type ClientOptions, WebSocket, WebSocketServer } from "ws";
import { until } from "../support/until.js";
import {
  applyOpen,
  closeLater,
  closeOpened,
  helloBackend,
  listen,
  makePair,
  node,
  ok,
  rawBackend,
  rawClient,
  request,
  spec,
  startPlane,
} from "./support.js";

afterEach(closeOpened);

let one: { cert: string; key: string };
let two: { cert: string; key: string };
beforeAll(() => {
  one = makePair("one.example");
  two = makePair("two.example");
});
const tls = (pair: { cert: string; key: string }, cipherSuite: "recommended" | "legacy" = "recommended") => ({ ...pair, cipherSuite });

/** A TLS client that trusts exactly `pair` under its name, so a wrong certificate is an error. */
const secureClient = async (port: number, pair: { cert: string }, name: string, more: object = {}) => {
  const socket = connectTls({ host: "127.0.0.1", port, ca: pair.cert, servername: name, ...more });
  closeLater(() => {
    socket.destroy();
  });
  let heard = "";
  socket.on("data", (chunk) => {
    heard += chunk.toString("latin1");
  });
  await new Promise<void>((resolve, reject) => {
    socket.once("secureConnect", resolve);
    socket.once("error", reject);
  });
  socket.on("error", () => undefined);
  return { socket, heard: () => heard, say: (text: string) => socket.write(text, "latin1") };
};

const free = async (port: number): Promise<void> => {
  const server = createTcp();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", resolve);
  });
  await new Promise<void>((resolve) => server.close(() => resolve()));
};

describe("a listener", () => {
  test("requests go to up nodes in turn, and node changes hold at once", async () => {
    const [a, b] = [await helloBackend("a"), await helloBackend("b")];
    const plane = startPlane();
    const nodes = [node(1, a.port), node(2, b.port)];
    const port = await applyOpen(plane, spec(nodes));
    const client = await rawClient(port);
    const ask = async () => {
      client.heard.text = "";
      client.say(request("GET /"));
      await until(() => /\r\n\r\n[ab]$/.test(client.heard.text));
      return client.heard.text.at(-1);
    };
    expect([await ask(), await ask(), await ask(), await ask()].join("")).toMatch(/^(abab|baba)$/);
    expect(await applyOpen(plane, spec([node(1, a.port), node(2, b.port, { up: false })]))).toBe(port);
    expect([await ask(), await ask(), await ask()].join("")).toBe("aaa");
    const counters = (await plane.counters())["config:1"];
    expect(counters).toMatchObject({ connections: 1, requests: 7 });
    expect(counters?.bytesIn).toBe(client.socket.bytesWritten);
    expect(counters?.bytesOut).toBe(client.socket.bytesRead);
  });

  test("what a closed listener counted is told until it is forgotten, and only what was read is forgotten", async () => {
    const backend = await helloBackend("hi");
    const plane = startPlane();
    const visit = async (): Promise<void> => {
      const client = await rawClient(await applyOpen(plane, spec([node(1, backend.port)])));
      client.say(request("GET /"));
      await until(() => client.heard.text.endsWith("hi"));
      client.socket.destroy();
    };
    const requests = async () => (await plane.counters())["config:1"]?.requests;
    await visit();
    plane.forget(await plane.counters()); // it is open
    expect(await requests()).toBe(1);
    await plane.apply("config:1", undefined);
    const early = await plane.counters();
    expect(early["config:1"]?.requests).toBe(1);
    await visit();
    plane.forget(early); // it is open again
    await plane.apply("config:1", undefined);
    plane.forget(early); // more was counted since
    expect(await requests()).toBe(2);
    plane.forget(await plane.counters());
    expect(await requests()).toBeUndefined();
  });

  test("a taken port is a failure that says who has it, and the same spec opens once it is free", async () => {
    const holder = createTcp();
    const port = await listen(holder);
    const plane = startPlane();
    const state = await plane.apply("config:1", spec([], { port }));
    expect(state).toEqual({
      status: "failed",
      reason: expect.stringMatching(new RegExp(`127.0.0.1:${port} is taken.*EADDRINUSE.*choose another port`)),
    });
    if (process.platform === "linux") expect((state as { reason: string }).reason).toContain("by another listener of this process");
    await new Promise<void>((resolve) => holder.close(() => resolve()));
    expect(await plane.apply("config:1", spec([], { port }))).toEqual({ status: "open", address: "127.0.0.1", port });
  });

  test.runIf(process.platform === "linux")("who has the same port of another address is not who has it", async () => {
    const neighbour = createTcp();
    const port = await listen(neighbour, 0, "127.0.0.2");
    const holder = spawn(process.execPath, ["-e", `require("node:net").createServer().listen(${port}, "127.0.0.1", () => console.log("here"))`]);
    closeLater(() => void holder.kill("SIGKILL"));
    await once(holder.stdout, "data");
    const state = await startPlane().apply("config:1", spec([], { port }));
    expect(state).toEqual({ status: "failed", reason: expect.stringContaining(`is taken by node (pid ${holder.pid}) (EADDRINUSE)`) });
  });

  test("an address that is not ours is a failure", async () => {
    const state = await startPlane().apply("config:1", spec([], { address: "192.0.2.1" }));
    expect(state).toEqual({ status: "failed", reason: expect.stringContaining("EADDRNOTAVAIL") });
  });

  test("the port is free when the config goes: idle and upgraded connections end, a request under way finishes", async () => {
    let answer: () => void = () => undefined;
    const backend = await rawBackend((socket, said) => {
      if (said.includes("Upgrade")) socket.write("HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n");
      else if (said.includes("/slow")) answer = () => socket.write(ok("slow"));
      else socket.write(ok("fast"));
    });
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, backend.port)]));
    const [idle, busy, tunnel] = [await rawClient(port), await rawClient(port), await rawClient(port)];
    idle.say(request("GET /fast"));
    busy.say(request("GET /slow"));
    tunnel.say(request("GET /t", ["Connection: Upgrade", "Upgrade: x"]));
    await until(() => idle.heard.text.endsWith("fast") && tunnel.heard.text.includes("101") && backend.received.join("").includes("/slow"));
    const closed = plane.apply("config:1", undefined);
    await until(() => idle.gone() && tunnel.gone());
    expect(busy.gone()).toBe(false);
    answer();
    expect(await closed).toEqual({ status: "closed" });
    await until(() => busy.heard.text.endsWith("slow") && busy.gone());
    await free(port);
    await until(() => backend.open.size === 0);
  });

  test("a request that never ends is cut when its time is up", async () => {
    const backend = await rawBackend(() => undefined);
    const plane = startPlane({ limits: { drainMs: 100 } });
    const port = await applyOpen(plane, spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(() => backend.open.size === 1);
    await plane.apply("config:1", undefined);
    await until(client.gone);
    await until(() => backend.open.size === 0);
    await free(port);
  });

  test("a new port opens before the old one closes, and the old one is free then", async () => {
    const backend = await helloBackend("hi");
    const plane = startPlane();
    const first = await applyOpen(plane, spec([node(1, backend.port)]));
    const spare = createTcp();
    const second = await listen(spare);
    expect(await plane.apply("config:1", spec([node(1, backend.port)], { port: second }))).toMatchObject({ status: "failed" });
    const still = await rawClient(first);
    still.say(request("GET /"));
    await until(() => still.heard.text.endsWith("hi"));
    await new Promise<void>((resolve) => spare.close(() => resolve()));
    expect(await applyOpen(plane, spec([node(1, backend.port)], { port: second }))).toBe(second);
    await until(still.gone);
    await free(first);
  });

  test("from one address to all of them on the same port, and back", async () => {
    const backend = await helloBackend("hi");
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, backend.port)]));
    for (const address of ["0.0.0.0", "127.0.0.1"]) {
      expect(await plane.apply("config:1", spec([node(1, backend.port)], { address, port }))).toEqual({ status: "open", address, port });
      const client = await rawClient(port);
      client.say(request("GET /"));
      await until(() => client.heard.text.endsWith("hi"));
    }
  });

  test("orders about one key keep their order", async () => {
    const plane = startPlane();
    const port = await applyOpen(plane, spec([]));
    const states = await Promise.all([
      plane.apply("config:1", undefined),
      plane.apply("config:1", spec([], { port })),
      plane.apply("config:1", undefined),
    ]);
    expect(states.map((state) => state.status)).toEqual(["closed", "open", "closed"]);
    await free(port);
  });

  test("a listener that is opened again while its old self still finishes a request is really open", async () => {
    let answer: () => void = () => undefined;
    const backend = await rawBackend((socket, said) => {
      if (said.lastIndexOf("/slow") > said.lastIndexOf("/fast")) answer = () => socket.write(ok("slow"));
      else socket.write(ok("fast"));
    });
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, backend.port)]));
    const busy = await rawClient(port);
    busy.say(request("GET /slow"));
    await until(() => backend.open.size === 1);
    const states = Promise.all([plane.apply("config:1", undefined), plane.apply("config:1", spec([node(1, backend.port)], { port }))]);
    expect(await applyOpen(plane, spec([node(1, backend.port)]), "config:2")).toBeGreaterThan(0); // other keys do not wait
    answer();
    expect((await states).map((state) => state.status)).toEqual(["closed", "open"]);
    const client = await rawClient(port);
    client.say(request("GET /fast"));
    await until(() => client.heard.text.endsWith("fast"));
    await plane.apply("config:1", undefined);
    await free(port);
  });

  test("nodes that come and go under load cost no request", async () => {
    const bodies = ["a", "b", "c"];
    const ports = await Promise.all(bodies.map((body) => listen(createServer((_req, res) => res.end(body)))));
    const plane = startPlane();
    const all = ports.map((port, index) => node(index + 1, port));
    const port = await applyOpen(plane, spec(all));
    const agent = new http.Agent({ keepAlive: true, maxSockets: 20 });
    closeLater(() => agent.destroy());
    const seen: Record<string, number> = {};
    const ask = () =>
      new Promise<void>((resolve) => {
        const note = (what: string) => {
          seen[what] = (seen[what] ?? 0) + 1;
          resolve();
        };
        http
          .get({ host: "127.0.0.1", port, agent }, (res) => {
            let body = "";
            res.on("data", (chunk) => {
              body += chunk;
            });
            res.on("end", () => note(res.statusCode === 200 ? body : `status ${res.statusCode}`));
          })
          .on("error", (error) => note(error.message));
      });
    let running = true;
    const changes = (async () => {
      let count = 0;
      for (; running; count++)
        await applyOpen(plane, spec([all.slice(0, 1), all.slice(1), all, all.map((n) => ({ ...n, up: n.id === 2 }))][count % 4] ?? all));
      return count;
    })();
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        for (let count = 0; count < 25; count++) await ask();
      }),
    );
    running = false;
    expect(await changes).toBeGreaterThan(4);
    expect(Object.keys(seen).sort()).toEqual(bodies);
    expect(Object.values(seen).reduce((sum, count) => sum + count, 0)).toBe(500);
  });
});

describe("TLS", () => {
  test("terminates, tells the node so, and negotiates 1.2 and 1.3 only", async () => {
    const backend = await helloBackend("hi");
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, backend.port)], { protocol: "https", tls: tls(one) }));
    const client = await secureClient(port, one, "one.example");
    expect(client.socket.getProtocol()).toBe("TLSv1.3");
    client.say(request("GET /"));
    await until(() => client.heard().endsWith("hi"));
    expect(backend.received[0]).toContain("\r\nX-Forwarded-Proto: https\r\n");
    expect(backend.received[0]).toContain(`\r\nX-Forwarded-Port: ${port}\r\n`);
    const older = { maxVersion: "TLSv1.2", ciphers: "ECDHE-RSA-AES256-SHA384:@SECLEVEL=0" };
    expect((await secureClient(port, one, "one.example", { maxVersion: "TLSv1.2" })).socket.getProtocol()).toBe("TLSv1.2");
    await expect(secureClient(port, one, "one.example", older)).rejects.toThrow();
    await expect(
      secureClient(port, one, "one.example", { minVersion: "TLSv1.1", maxVersion: "TLSv1.1", ciphers: "ALL:@SECLEVEL=0" }),
    ).rejects.toThrow();
    await applyOpen(plane, spec([node(1, backend.port)], { protocol: "https", tls: tls(one, "legacy") }));
    expect((await secureClient(port, one, "one.example", older)).socket.getCipher().name).toBe("ECDHE-RSA-AES256-SHA384");
    const counters = (await plane.counters())["config:1"];
    expect(counters?.bytesIn).toBeGreaterThan(1000);
    expect(counters?.bytesOut).toBeGreaterThan(1000);
  });

  test.each(["TLSv1.2", "TLSv1.3"] as const)("a session of %s is resumed", async (version) => {
    const backend = await helloBackend("hi");
    const port = await applyOpen(startPlane(), spec([node(1, backend.port)], { protocol: "https", tls: tls(one) }));
    const only = { minVersion: version, maxVersion: version };
    const first = await secureClient(port, one, "one.example", only);
    const session = new Promise<Buffer>((resolve) => first.socket.once("session", resolve));
    first.say(request("GET /"));
    await until(() => first.heard().endsWith("hi"));
    expect(first.socket.isSessionReused()).toBe(false);
    const second = await secureClient(port, one, "one.example", {
      ...only,
      session: version === "TLSv1.2" ? first.socket.getSession() : await session,
    });
    second.say(request("GET /"));
    await until(() => second.heard().endsWith("hi"));
    expect(second.socket.isSessionReused()).toBe(true);
  });

  test("a connection changes lanes in the middle, with what it said ahead", async () => {
    const backend = await helloBackend("hi");
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, backend.port)], { protocol: "https", tls: tls(one) }));
    const client = await secureClient(port, one, "one.example");
    client.say(request("GET /1") + request("PROPFIND /2") + request("GET /3"));
    await until(() => client.heard().split("200 OK").length === 4);
    client.say(request("GET /4"));
    await until(() => client.heard().split("200 OK").length === 5);
    expect(backend.received.join("").match(/[A-Z]+ \/\d/g)).toEqual(["GET /1", "PROPFIND /2", "GET /3", "GET /4"]);
    expect((await plane.counters())["config:1"]).toMatchObject({ connections: 1, requests: 4, handedOver: 1 });
  });

  test("a new certificate reaches new connections and drops no old one", async () => {
    const backend = await helloBackend("hi");
    const plane = startPlane();
    const nodes = [node(1, backend.port)];
    const port = await applyOpen(plane, spec(nodes, { protocol: "https", tls: tls(one) }));
    const old = await secureClient(port, one, "one.example");
    old.say(request("GET /"));
    await until(() => old.heard().endsWith("hi"));
    expect(await applyOpen(plane, spec(nodes, { protocol: "https", tls: tls(two) }))).toBe(port);
    const fresh = await secureClient(port, two, "two.example");
    fresh.say(request("GET /"));
    await until(() => fresh.heard().endsWith("hi"));
    old.say(request("GET /"));
    await until(() => old.heard().split("\r\n\r\nhi").length === 3);
    await expect(secureClient(port, one, "one.example")).rejects.toThrow();
  });

  test("a certificate that cannot be used is refused; the old listener serves on, with the new nodes", async () => {
    const [a, b] = [await helloBackend("a"), await helloBackend("b")];
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, a.port)], { protocol: "https", tls: tls(one) }));
    for (const pair of [
      { cert: one.cert, key: two.key },
      { cert: "garbage", key: one.key },
    ]) {
      const state = await plane.apply("config:1", spec([node(2, b.port)], { protocol: "https", tls: tls(pair) }));
      expect(state).toEqual({ status: "failed", reason: expect.stringContaining("cannot be used") });
      expect(JSON.stringify(state)).not.toContain("PRIVATE");
    }
    expect(await plane.apply("config:1", spec([node(2, b.port)], { protocol: "https" }))).toMatchObject({ status: "failed" });
    const client = await secureClient(port, one, "one.example");
    client.say(request("GET /"));
    await until(() => client.heard().endsWith("b"));
    expect(await plane.apply("config:2", spec([], { protocol: "https", tls: tls({ cert: one.cert, key: two.key }) }))).toMatchObject({
      status: "failed",
    });
  });

  test("a client that leaves or lingers in the handshake does not hold the port", async () => {
    const plane = startPlane({ limits: { drainMs: 60_000 } });
    const port = await applyOpen(plane, spec([], { protocol: "https", tls: tls(one) }));
    await expect(secureClient(port, two, "one.example")).rejects.toThrow();
    const leaving = await rawClient(port);
    leaving.socket.end();
    await until(leaving.gone, { what: "the end of a connection whose client gave up" });
    const silent = await rawClient(port);
    await until(async () => (await plane.counters())["config:1"]?.connections === 3);
    await plane.apply("config:1", undefined); // a wait of 60 s is longer than a test may take
    await until(silent.gone);
    await free(port);
  });

  test("http becomes https on the same port and back; a request under way finishes and its connection ends then", async () => {
    let answer: () => void = () => undefined;
    const backend = await rawBackend((socket, said) => {
      if (said.lastIndexOf("/slow") > said.lastIndexOf("/fast")) answer = () => socket.write(ok("slow"));
      else socket.write(ok("fast"));
    });
    const plane = startPlane();
    const nodes = [node(1, backend.port)];
    const port = await applyOpen(plane, spec(nodes));
    const [idle, busy] = [await rawClient(port), await rawClient(port)];
    idle.say(request("GET /fast"));
    await until(() => idle.heard.text.endsWith("fast"));
    busy.say(request("GET /slow"));
    await until(() => backend.received.join("").includes("/slow"));
    expect(await applyOpen(plane, spec(nodes, { port: 0, protocol: "https", tls: tls(one) }))).toBe(port);
    await until(idle.gone);
    const secure = await secureClient(port, one, "one.example");
    secure.say(request("GET /fast"));
    await until(() => secure.heard().endsWith("fast"));
    answer();
    await until(() => busy.heard.text.endsWith("slow") && busy.gone());
    await applyOpen(plane, spec(nodes));
    const plain = await rawClient(port);
    plain.say(request("GET /fast"));
    await until(() => plain.heard.text.endsWith("fast"));
  });
});

describe("WebSocket", () => {
  const echoServer = async () => {
    const server = createServer();
    const sockets = new WebSocketServer({ server });
    sockets.on("connection", (socket) => socket.on("message", (data, binary) => socket.send(data, { binary })));
    closeLater(() => sockets.close());
    return listen(server);
  };

  test.each(["http", "https"] as const)("passes through %s, both ways and big", async (protocol) => {
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, await echoServer())], { protocol, tls: tls(one) }));
    const scheme = protocol === "http" ? "ws" : "wss";
    const socket = new WebSocket(`${scheme}://127.0.0.1:${port}/chat`, { ca: one.cert, servername: "one.example" } as ClientOptions);
    closeLater(() => socket.terminate());
    const heard: string[] = [];
    socket.on("message", (data) => heard.push(data.toString()));
    await new Promise((resolve, reject) => socket.once("open", resolve).once("error", reject));
    socket.send("hello");
    socket.send("x".repeat(1_000_000));
    await until(() => heard.length === 2);
    expect(heard[0]).toBe("hello");
    expect(heard[1]).toHaveLength(1_000_000);
    const closed = new Promise<number>((resolve) => socket.once("close", resolve));
    socket.close(1000);
    expect(await closed).toBe(1000);
  });
});

describe("tcp", () => {
  test("bytes pass both ways, a half-close stays one, and a refusing node is passed over", async () => {
    const dead = await rawBackend(() => undefined);
    await new Promise<void>((resolve) => dead.server.close(() => resolve()));
    const backend = createTcp({ allowHalfOpen: true }, (socket) => {
      let said = "";
      socket.on("error", () => undefined);
      socket.on("data", (chunk) => {
        said += chunk;
      });
      socket.on("end", () => socket.end(`you said ${said}`));
    });
    const plane = startPlane();
    const hints: string[] = [];
    plane.watch((_key, id, reason) => hints.push(`${id} ${reason}`));
    const port = await applyOpen(plane, spec([node(1, dead.port), node(2, await listen(backend))], { protocol: "tcp" }));
    for (let round = 0; round < 2; round++) {
      const client = await rawClient(port);
      client.socket.end("hello");
      await until(() => client.heard.ended);
      expect(client.heard.text).toBe("you said hello");
      expect(client.heard.reset).toBe(false);
    }
    await until(() => hints.length > 0);
    expect(hints).toEqual(["1 refused the connection"]);
  });

  test("no node up: the client is closed; a node's reset is the client's reset", async () => {
    const backend = await rawBackend((socket) => void socket.resetAndDestroy());
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, backend.port)], { protocol: "tcp" }));
    const client = await rawClient(port);
    client.say("x");
    await until(client.gone);
    expect(client.heard.reset).toBe(true);
    await applyOpen(plane, spec([node(1, backend.port, { up: false })], { protocol: "tcp" }));
    const other = await rawClient(port);
    await until(other.gone);
    expect(other.heard.text).toBe("");
  });

  test("open tunnels are cut when the config goes", async () => {
    const backend = await rawBackend(() => undefined);
    const plane = startPlane();
    const port = await applyOpen(plane, spec([node(1, backend.port)], { protocol: "tcp" }));
    const client = await rawClient(port);
    client.say("x");
    await until(() => backend.received[0] === "x");
    await plane.apply("config:1", undefined);
    await until(client.gone);
    await until(() => backend.open.size === 0);
    await free(port);
  });
});

describe("the worker thread", () => {
  /** Node tells the process about every worker it starts: no door of ours is needed to end one. */
  const nextWorker = () => new Promise<Worker>((resolve) => process.once("worker", resolve));

  test("starts with the first listener; close frees the ports and ends it", async () => {
    const started: Worker[] = [];
    const count = (worker: Worker) => started.push(worker);
    process.on("worker", count);
    closeLater(() => void process.removeListener("worker", count));
    const plane = startPlane();
    expect(await plane.apply("config:1", undefined)).toEqual({ status: "closed" });
    expect(await plane.counters()).toEqual({});
    expect(started).toHaveLength(0);
    const ports = await Promise.all([applyOpen(plane, spec([]), "a"), applyOpen(plane, spec([]), "b")]);
    expect(started).toHaveLength(1);
    let exited = false;
    started[0]?.once("exit", () => {
      exited = true;
    });
    await plane.close();
    expect(exited).toBe(true);
    for (const port of ports) await free(port);
    await plane.close();
    expect(await plane.apply("a", spec([]))).toMatchObject({ status: "failed" });
  });

  test("when it dies it is replaced: same ports, loss told, counters kept, an order in between is carried out", async () => {
    const backend = await helloBackend("hi");
    const problems: string[] = [];
    const first = nextWorker();
    const plane = startPlane({ onProblem: (reason) => problems.push(reason) });
    const spare = createTcp();
    const fixed = await listen(spare);
    await new Promise<void>((resolve) => spare.close(() => resolve()));
    const loose = await applyOpen(plane, spec([node(1, backend.port)]), "loose");
    expect(await applyOpen(plane, spec([node(1, backend.port)], { port: fixed }), "fixed")).toBe(fixed);
    const client = await rawClient(loose);
    client.say(request("GET /"));
    await until(() => client.heard.text.endsWith("hi"));
    (await rawClient(await applyOpen(plane, spec([]), "closed"))).socket.destroy();
    await until(async () => (await plane.counters()).closed?.connections === 1);
    expect((await plane.counters()).loose?.requests).toBe(1);
    await plane.apply("closed", undefined);

    const second = nextWorker();
    await (await first).terminate();
    await until(client.gone);
    const late = plane.apply("late", spec([node(1, backend.port)]));
    await second;
    expect(problems).toEqual([expect.stringContaining("worker thread was lost")]);
    expect((await late).status).toBe("open");
    for (const port of [loose, fixed]) {
      const again = await until(() => rawClient(port).catch(() => undefined));
      again.say(request("GET /"));
      await until(() => again.heard.text.endsWith("hi"));
    }
    const counted = await plane.counters();
    expect(counted.loose?.requests).toBe(2);
    expect(counted.closed?.connections).toBe(1);
    expect(await applyOpen(plane, spec([node(1, backend.port)]), "loose")).toBe(loose);
    expect(problems).toHaveLength(1);
  });

  test("a port that was taken while the thread was gone is told", async () => {
    const first = nextWorker();
    const plane = startPlane();
    const spare = createTcp();
    const fixed = await listen(spare);
    await new Promise<void>((resolve) => spare.close(() => resolve()));
    await applyOpen(plane, spec([], { port: fixed }), "fixed");
    const told: string[] = [];
    plane.watchReopened((key) => told.push(key));
    await (await first).terminate();
    const thief = createTcp();
    await listen(thief, fixed);
    await until(() => told.length > 0);
    expect(told).toEqual(["fixed"]);
    expect(await plane.apply("fixed", spec([], { port: fixed }))).toEqual({ status: "failed", reason: expect.stringContaining(`${fixed} is taken`) });
    await new Promise<void>((resolve) => thief.close(() => resolve()));
    expect(await applyOpen(plane, spec([], { port: fixed }), "fixed")).toBe(fixed);
  });

  test("when it cannot be kept alive, whoever waits is told, and closing works", async () => {
    const problems: string[] = [];
    const plane = startPlane({ onProblem: (reason) => problems.push(reason) });
    const kill = (worker: Worker) => void worker.terminate();
    process.on("worker", kill);
    closeLater(() => void process.removeListener("worker", kill));
    expect(await plane.apply("a", spec([]))).toEqual({ status: "failed", reason: expect.stringContaining("cannot be kept alive") });
    expect(problems.length).toBeGreaterThan(1);
  });
});
