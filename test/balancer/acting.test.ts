import { createSocket, type Socket as Datagrams } from "node:dgram";
import { readdirSync, readlinkSync } from "node:fs";
import { connect, createServer } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { ringHash } from "#backlot/balancer/algorithm.js";
import { cut } from "#backlot/balancer/cut.js";
import { Gate } from "#backlot/balancer/gate.js";
import { proxyHeader } from "#backlot/balancer/proxy-protocol.js";
import { until } from "../support/until.js";
import { applyOpen, closeLater, closeOpened, helloBackend, listen, node, ok, rawBackend, rawClient, request, spec, startPlane } from "./support.js";

afterEach(closeOpened);

/** Connects `count` times at once; how many of them get an answer. */
const answeredOf = async (port: number, count: number): Promise<number> => {
  const clients = await Promise.all(Array.from({ length: count }, () => rawClient(port)));
  for (const client of clients) client.say(request("GET /"));
  await until(() => clients.every((client) => client.gone() || client.heard.text.endsWith("hi")));
  return clients.filter((client) => client.heard.text.endsWith("hi")).length;
};

describe("the throttle", () => {
  test("lets a client in so many times in any second", () => {
    const gate = new Gate();
    const times = [0, 100, 200, 900, 1000, 1050, 1100, 1101];
    expect(times.map((atMs) => gate.admits("a", 3, atMs))).toEqual([true, true, true, false, true, false, true, false]);
    expect(gate.admits("b", 3, 1101)).toBe(true);
    expect(gate.admits("a", 0, 1101)).toBe(true);
  });

  test("counts over all listeners of a balancer, and closes the rest without a word", async () => {
    const backend = await helloBackend("hi");
    const plane = startPlane();
    const nodes = [node(1, backend.port)];
    const ports = [
      await applyOpen(plane, spec(nodes, { connThrottle: 3 }), "config:1"),
      await applyOpen(plane, spec(nodes, { connThrottle: 3, protocol: "tcp" }), "config:2"),
      await applyOpen(plane, spec(nodes, { connThrottle: 3, balancer: 2 }), "config:3"),
    ];
    const [http = 0, tcp = 0, other = 0] = ports;
    expect(await answeredOf(http, 2)).toBe(2);
    expect(await answeredOf(tcp, 2)).toBe(1);
    expect(await answeredOf(other, 5)).toBe(3);
    const refused = await rawClient(http);
    await until(refused.gone);
    expect(refused.heard.text).toBe("");
    await applyOpen(plane, spec(nodes), "config:1");
    expect(await answeredOf(http, 5)).toBe(5);
  });
});

test("connections beyond the bound are answered 503, those within it are not touched, and their end makes room", async () => {
  const backend = await helloBackend("hi");
  const plane = startPlane({ maxConnections: 3 });
  const port = await applyOpen(plane, spec([node(1, backend.port)]));
  const held = await Promise.all([1, 2, 3].map(() => rawClient(port)));
  for (const client of held) client.say(request("GET /"));
  await until(() => held.every((client) => client.heard.text.endsWith("hi")));
  const refused = await rawClient(port);
  await until(refused.gone);
  expect(refused.heard.text).toMatch(/^HTTP\/1\.1 503 [\s\S]*X-Backlot-Reason: too-many-connections\r\n/);
  held[0]?.say(request("GET /"));
  await until(() => held[0]?.heard.text.split("200 OK").length === 3);
  held[1]?.socket.destroy();
  await until(async () => (await answeredOf(port, 1)) === 1);
});

describe.each([true, false])("fast lane %s", (fastLane) => {
  test("keep-alive off: the connection ends with its answer, which says so", async () => {
    const backend = await helloBackend("hi");
    const port = await applyOpen(startPlane({ keepAlive: false, fastLane }), spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(client.gone);
    expect(client.heard.text).toMatch(/\r\nConnection: close\r\n[\s\S]*hi$/);
  });

  test("a body that stops coming is 408, and its node is free again", async () => {
    const backend = await rawBackend(() => undefined);
    const port = await applyOpen(startPlane({ fastLane, limits: { bodyMs: 300 } }), spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.say(request("POST /", ["Content-Length: 100"], "only this"));
    await until(client.gone);
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 408 [\s\S]*X-Backlot-Reason: too-slow\r\n/);
    await until(() => backend.open.size === 0);
  });

  test("a client that reads nothing is cut off when its time is up, and its node is free again", async () => {
    const backend = await rawBackend((socket) => void socket.write(ok("x".repeat(50_000_000))));
    const port = await applyOpen(startPlane({ fastLane, limits: { readMs: 300 } }), spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.socket.pause();
    client.say(request("GET /"));
    await until(() => backend.open.size === 1);
    await until(() => backend.open.size === 0);
    client.socket.resume();
    await until(client.gone);
    expect(client.heard.text.length).toBeLessThan(50_000_000);
  });

  test("an idle connection ends when its time is up", async () => {
    const backend = await helloBackend("hi");
    const port = await applyOpen(startPlane({ fastLane, limits: { keepAliveMs: 300 } }), spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.say(request("GET /"));
    await until(client.gone);
    expect(client.heard.text).toMatch(/hi$/);
  });

  test("a client that says nothing is told 408 when its time is up", async () => {
    const backend = await helloBackend("hi");
    const port = await applyOpen(startPlane({ fastLane, limits: { headMs: 300 } }), spec([node(1, backend.port)]));
    const client = await rawClient(port);
    await until(client.gone);
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 408 /);
  });

  test("counters tell of each node", async () => {
    const good = await helloBackend("hi");
    const ill = await rawBackend((socket) => void socket.write("HTTP/1.1 500 Ill\r\nContent-Length: 0\r\n\r\n"));
    const plane = startPlane({ fastLane });
    const port = await applyOpen(plane, spec([node(1, good.port), node(2, ill.port)]));
    const client = await rawClient(port);
    for (let round = 1; round <= 4; round++) {
      client.say(request("GET /"));
      await until(() => client.heard.text.split("HTTP/1.1 ").length === round + 1 && /(hi|\r\n\r\n)$/.test(client.heard.text));
    }
    const counted = (await plane.counters())["config:1"];
    expect(counted).toMatchObject({ connections: 1, requests: 4 });
    const [first, second] = [counted?.nodes[1], counted?.nodes[2]];
    expect(first).toMatchObject({ requests: 2, errors: 0, open: 0, bytesOut: 2 * ok("hi").length });
    expect(second).toMatchObject({ requests: 2, errors: 2, open: 0 });
    expect(first?.bytesIn).toBe(good.received.join("").length);
    expect(first?.latency.reduce((sum, count) => sum + count, 0)).toBe(2);
  });
});

/** Descriptors of sockets that this process holds, its threads' included. */
const openSockets = (): number =>
  readdirSync("/proc/self/fd").filter((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`).startsWith("socket:");
    } catch {
      return false; // the descriptor of the listing itself
    }
  }).length;

test.runIf(process.platform === "linux")("a connection that is cut keeps no descriptor, its end under way or not", async () => {
  const backend = await rawBackend(() => undefined);
  const before = openSockets();
  for (const said of ["", "a few words"]) {
    for (const ending of [true, false]) {
      const { socket } = await rawClient(backend.port);
      await until(() => backend.open.size === 1);
      if (said !== "") socket.write(said);
      if (ending) socket.end();
      cut(socket);
      await until(() => backend.open.size === 0 && openSockets() <= before);
    }
  }
});

test("a tunnel whose client ended and whose node says nothing more does not stay for ever", async () => {
  const server = createServer({ allowHalfOpen: true }, (socket) => void socket.on("error", () => undefined).resume());
  const silent = await listen(server);
  const plane = startPlane({ limits: { halfTunnelMs: 200 } });
  const port = await applyOpen(plane, spec([node(1, silent)], { protocol: "tcp" }));
  const client = await rawClient(port);
  client.socket.end("bye");
  await until(client.gone);
  await until(async () => (await plane.counters())["config:1"]?.nodes[1]?.open === 0);
});

describe("the PROXY protocol", () => {
  const route = { sourceAddress: "10.1.2.3", sourcePort: 40_000, destinationAddress: "127.0.0.2", destinationPort: 443 };
  const route6 = { sourceAddress: "2001:db8::1", sourcePort: 1, destinationAddress: "::1", destinationPort: 65_535 };

  test("version 1", () => {
    expect(proxyHeader("v1", route).toString()).toBe("PROXY TCP4 10.1.2.3 127.0.0.2 40000 443\r\n");
    expect(proxyHeader("v1", route6).toString()).toBe("PROXY TCP6 2001:db8::1 ::1 1 65535\r\n");
    expect(proxyHeader("v1", { ...route, sourceAddress: "" }).toString()).toBe("PROXY UNKNOWN\r\n");
  });

  test("version 2", () => {
    const signature = "0d0a0d0a000d0a515549540a";
    expect(proxyHeader("v2", route).toString("hex")).toBe(`${signature}2111000c0a0102037f0000029c4001bb`);
    expect(proxyHeader("v2", route6).toString("hex")).toBe(
      `${signature}2121002420010db800000000000000000000000100000000000000000000000000000001${"0001"}ffff`,
    );
    expect(proxyHeader("v2", { ...route, destinationAddress: "" }).toString("hex")).toBe(`${signature}20000000`);
  });

  test.each(["v1", "v2"] as const)("%s comes before the client's first byte", async (proxyProtocol) => {
    const backend = await rawBackend(() => undefined);
    const port = await applyOpen(startPlane(), spec([node(1, backend.port)], { protocol: "tcp", proxyProtocol }));
    const client = await rawClient(port);
    client.say("first");
    const { localPort = 0 } = client.socket;
    const expected = proxyHeader(proxyProtocol, {
      sourceAddress: "127.0.0.1",
      sourcePort: localPort,
      destinationAddress: "127.0.0.1",
      destinationPort: port,
    });
    await until(() => backend.received[0] === `${expected.toString("latin1")}first`);
  });
});

describe("udp", () => {
  /** A node that says its name and what it heard. */
  const echo = async (name: string): Promise<number> => {
    const socket = createSocket("udp4");
    closeLater(() => void socket.close());
    socket.on("message", (bytes, from) => void socket.send(`${name}:${bytes}`, from.port, from.address));
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    return socket.address().port;
  };

  const talker = async (port: number) => {
    const socket: Datagrams = createSocket("udp4");
    closeLater(() => void socket.close());
    const heard: string[] = [];
    socket.on("message", (bytes) => heard.push(String(bytes)));
    await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
    const say = (text: string) => socket.send(text, port, "127.0.0.1");
    const ask = async (text: string): Promise<string> => {
      say(text);
      const answer = await until(() => heard.find((each) => each.endsWith(`:${text}`)));
      return answer.split(":")[0] ?? "";
    };
    return { say, ask, heard };
  };

  const udp = { protocol: "udp", stickiness: "session", checkPassive: false } as const;

  test("session: a client keeps its node, others get the next; a node that goes down loses its clients", async () => {
    const nodes = [node(1, await echo("a")), node(2, await echo("b"))];
    const plane = startPlane();
    const port = await applyOpen(plane, spec(nodes, udp));
    const [one, two] = [await talker(port), await talker(port)];
    expect([await one.ask("1"), await one.ask("2"), await two.ask("1"), await two.ask("2")]).toEqual(["a", "a", "b", "b"]);
    await applyOpen(
      plane,
      spec(
        nodes.map((each) => ({ ...each, up: each.id !== 1 })),
        udp,
      ),
    );
    expect(await one.ask("3")).toBe("b");
    expect((await plane.counters())["config:1"]).toMatchObject({ connections: 3, requests: 5 });
  });

  test("none: every datagram is given anew; answers still find their client", async () => {
    const nodes = [node(1, await echo("a")), node(2, await echo("b"))];
    const port = await applyOpen(startPlane(), spec(nodes, { ...udp, stickiness: "none" }));
    const one = await talker(port);
    expect([await one.ask("1"), await one.ask("2"), await one.ask("3")]).toEqual(["a", "b", "a"]);
  });

  test("source_ip: all ports of an address keep one node", async () => {
    const nodes = [node(1, await echo("a")), node(2, await echo("b"))];
    const port = await applyOpen(startPlane(), spec(nodes, { ...udp, stickiness: "source_ip" }));
    expect([await (await talker(port)).ask("1"), await (await talker(port)).ask("2")]).toEqual(["a", "a"]);
  });

  test("only the node answers: what others send to a session's port is not passed on", async () => {
    const heard: number[] = [];
    const quiet = createSocket("udp4");
    closeLater(() => void quiet.close());
    quiet.on("message", (bytes, from) => {
      heard.push(from.port);
      if (String(bytes) === "now") quiet.send("node:now", from.port, from.address);
    });
    await new Promise<void>((resolve) => quiet.bind(0, "127.0.0.1", resolve));
    const port = await applyOpen(startPlane(), spec([node(1, quiet.address().port)], udp));
    const one = await talker(port);
    one.say("hello");
    await until(() => heard.length === 1);
    const stranger = await talker(heard[0] ?? 0);
    stranger.say("stranger:hello");
    expect(await one.ask("now")).toBe("node");
    expect(one.heard).toEqual(["node:now"]);
  });

  test("a session ends when nobody says anything", async () => {
    const plane = startPlane({ limits: { udpSessionMs: 200 } });
    const port = await applyOpen(plane, spec([node(1, await echo("a"))], udp));
    await (await talker(port)).ask("1");
    const open = async () => (await plane.counters())["config:1"]?.nodes[1]?.open;
    expect(await open()).toBe(1);
    await until(async () => (await open()) === 0);
  });

  test("sessions beyond the throttle are dropped; tcp and udp have each their own port space", async () => {
    const plane = startPlane();
    const backend = await helloBackend("hi");
    const http = await applyOpen(plane, spec([node(1, backend.port)]), "config:1");
    const port = await applyOpen(plane, spec([node(1, await echo("a"))], { ...udp, port: http, udpSessThrottle: 2 }), "config:2");
    expect(port).toBe(http);
    const talkers = await Promise.all([1, 2, 3].map(() => talker(port)));
    expect([await talkers[0]?.ask("1"), await talkers[1]?.ask("1")]).toEqual(["a", "a"]);
    talkers[2]?.say("lost");
    await talkers[0]?.ask("2");
    expect(talkers[2]?.heard).toEqual([]);
  });

  test("a config that becomes tcp frees its udp port, and back", async () => {
    const plane = startPlane();
    // Below the ports that the kernel gives to clients: one of those may be somebody's over tcp while it is free over udp.
    const port = await applyOpen(plane, spec([node(1, await echo("a"))], { ...udp, port: 20_000 + (process.pid % 10_000) }));
    const backend = await helloBackend("hi");
    expect(await applyOpen(plane, spec([node(1, backend.port)], { port, protocol: "tcp" }))).toBe(port);
    const probe = createSocket("udp4");
    await new Promise<void>((resolve, reject) => probe.once("error", reject).bind(port, "127.0.0.1", resolve));
    await new Promise<void>((resolve) => probe.close(() => resolve()));
    await applyOpen(plane, spec([node(1, await echo("a"))], { ...udp, port }));
    await expect(new Promise((resolve, reject) => connect(port, "127.0.0.1").once("connect", resolve).once("error", reject))).rejects.toMatchObject({
      code: "ECONNREFUSED",
    });
    expect(await (await talker(port)).ask("1")).toBe("a");
  });

  test("ring_hash: a node that goes moves its own clients only, and weights are kept", () => {
    const nodes = [node(1, 1), node(2, 1), node(3, 1, { weight: 100 })];
    const clients = Array.from({ length: 2_000 }, (_, index) => `10.0.${index >> 8}.${index & 255}`);
    const chosen = clients.map((client) => ringHash(nodes, client)?.id);
    const after = clients.map((client) => ringHash(nodes.slice(1), client)?.id);
    expect(clients.filter((_, index) => chosen[index] !== 1 && chosen[index] !== after[index])).toEqual([]);
    expect(Math.abs(chosen.filter((id) => id === 3).length - 1_000)).toBeLessThan(100);
    expect(ringHash([], "a")).toBeUndefined();
  });
});
