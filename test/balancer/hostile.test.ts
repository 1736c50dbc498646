import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { heldOn } from "../support/connections.js";
import { until } from "../support/until.js";
import { applyOpen, closeOpened, makePair, node, ok, rawBackend, rawClient, request, spec, startPlane } from "./support.js";

afterEach(closeOpened);

/** Clients of each bad kind, all at once. */
const CROWD = 200;
const BIG_ANSWER = Buffer.from(ok("x".repeat(8_000_000)));

type Client = Awaited<ReturnType<typeof rawClient>>;

/** Answers the head of every request as `answer` says; undefined: not at all. */
const answering = (answer: (head: string) => Buffer | string | undefined) => {
  const read = new Map<number, number>();
  return rawBackend((socket, said, connection) => {
    const heads = said.split("\r\n\r\n").slice(0, -1);
    for (const head of heads.slice(read.get(connection) ?? 0)) {
      const text = answer(head);
      if (text !== undefined) socket.write(text);
    }
    read.set(connection, heads.length);
  });
};

/** `/big` is more than all buffers on the way can take; a POST's body never comes. */
const webNode = () => answering((head) => (head.startsWith("POST") ? undefined : head.startsWith("GET /big") ? BIG_ANSWER : ok("hi")));

const crowd = (port: number, join: (client: Client) => void): Promise<Client[]> =>
  Promise.all(
    Array.from({ length: CROWD }, async () => {
      const client = await rawClient(port);
      join(client);
      return client;
    }),
  );

const good = async (port: number): Promise<string> => {
  const client = await rawClient(port);
  client.say(request("GET /", ["Connection: close"]));
  await until(client.gone);
  return client.heard.text;
};

describe.each([true, false])("fast lane %s", (fastLane) => {
  test("slow heads, slow bodies and slow readers, 200 of each at once, do not keep others from their answers", async () => {
    const backend = await webNode();
    const port = await applyOpen(startPlane({ fastLane }), spec([node(1, backend.port)]));
    const heads = await crowd(port, ({ say }) => void say("GET / HTTP/1.1\r\nHost: a"));
    const bodies = await crowd(port, ({ say }) => void say(request("POST /", ["Content-Length: 1000000"], "a little")));
    const readers = await crowd(port, ({ socket, say }) => {
      socket.pause();
      say(request("GET /big"));
    });
    await until(() => backend.open.size === 2 * CROWD, { withinMs: 30_000 });
    for (let turn = 0; turn < 50; turn++) expect(await good(port)).toMatch(/^HTTP\/1\.1 200 [\s\S]*hi$/);
    for (const { socket } of [...heads, ...bodies]) {
      socket.write("x");
      expect(socket.readyState).toBe("open");
    }
    // The node is held back as well: what its readers leave lies in its own buffers, not in ours.
    for (const socket of backend.open) expect(socket.destroyed).toBe(false);
    for (const client of readers) expect(client.gone()).toBe(false);
  });

  // One that comes in several reads, and one that is whole before anybody sees that nobody takes it.
  test.each([30_000, 5_000])(
    "a client that pipelines and reads nothing gets no further answers made, and is cut off (%d bytes each)",
    async (size) => {
      const answer = Buffer.from(ok("x".repeat(size)));
      let asked = 0;
      const backend = await answering(() => {
        asked++;
        return answer;
      });
      const port = await applyOpen(startPlane({ fastLane, limits: { readMs: 500 } }), spec([node(1, backend.port)]));
      const client = connect({ port, host: "127.0.0.1" }).on("error", () => undefined);
      client.pause();
      const closed = new Promise((resolve) => client.once("close", resolve));
      client.write(request("GET /").repeat(2_000));
      // A paused socket hears of the end only by writing.
      const writing = setInterval(() => client.write(request("GET /")), 20);
      await closed;
      clearInterval(writing);
      // As much as the kernel's buffers hold: 4 MB and what is on the way.
      expect(asked * size).toBeLessThan(6_500_000);
    },
  );

  test("a client that is refused again and again and reads nothing is cut off", async () => {
    const plane = startPlane({ fastLane, limits: { readMs: 500 } });
    const port = await applyOpen(plane, spec([]));
    const client = await rawClient(port);
    client.socket.pause();
    let asked = 0;
    while (!client.gone()) {
      const { requests = 0 } = (await plane.counters())["config:1"] ?? {};
      // Never so far ahead that this alone would end the connection; a paused socket hears of its end only by writing.
      const more = asked - requests < 200 ? 100 : 0;
      client.say(request("GET /").repeat(more));
      asked += more;
    }
    // More than the kernel's buffers hold of the answers, each of some 200 bytes.
    expect(asked).toBeGreaterThan(2_000);
  });

  test("a client that stopped reading an answer whose end is the connection's sees that it was cut", async () => {
    const backend = await rawBackend((socket) => socket.write(`HTTP/1.1 200 OK\r\n\r\n${"x".repeat(8_000_000)}`));
    const port = await applyOpen(startPlane({ fastLane, limits: { readMs: 500 } }), spec([node(1, backend.port)]));
    // Node tells a socket that is paused of an end, whatever it was.
    const script = `exec 3<>/dev/tcp/127.0.0.1/${port}; printf 'GET / HTTP/1.0\\r\\nHost: a\\r\\n\\r\\n' >&3; read; cat <&3 >/dev/null`;
    const client = spawn("bash", ["-c", script], { env: { ...process.env, LC_ALL: "C" } });
    let said = "";
    client.stderr.on("data", (chunk) => {
      said += chunk;
    });
    const exited = once(client, "close");
    await until(() => backend.open.size === 1);
    await until(() => backend.open.size === 0);
    client.stdin.end("\n");
    await exited;
    expect(said).toMatch(/Connection reset by peer/);
  });

  test.each([
    ["says what is no HTTP", "\0\r\n\r\n", 400],
    ["sends two lengths", request("POST /", ["Content-Length: 1", "Content-Length: 2"]), 400],
    ["stops in its body", request("POST /", ["Content-Length: 9"], "x"), 408],
    ["asks for a tunnel", request("CONNECT a:1"), 501],
    ["expects what nobody knows", request("GET /", ["Expect: wonders"]), 417],
  ])("a client that %s, is told so and stays, is let go", async (_what, words, status) => {
    const backend = await rawBackend(() => undefined);
    const port = await applyOpen(startPlane({ fastLane, limits: { bodyMs: 200 } }), spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.say(words);
    await until(() => client.heard.ended);
    expect(client.heard.text).toContain(`HTTP/1.1 ${status} `);
    await until(() => heldOn(port) === 0);
  });

  test("a client that asks further and further ahead is not read from", async () => {
    const backend = await rawBackend(() => undefined);
    const plane = startPlane({ fastLane });
    const port = await applyOpen(plane, spec([node(1, backend.port)]));
    const client = await rawClient(port);
    const crowd = request("GET /").repeat(1_000);
    client.socket.on("drain", () => client.say(crowd));
    while (client.say(crowd));
    let [last, quiet] = [-1, 0];
    const taken = await until(async () => {
      const { bytesIn = 0 } = (await plane.counters())["config:1"] ?? {};
      quiet = bytesIn === last ? quiet + 1 : 0;
      last = bytesIn;
      return quiet === 20 && bytesIn;
    });
    expect(taken).toBeLessThan(400_000);
    expect((await plane.counters())["config:1"]?.requests).toBeLessThanOrEqual(512);
  });

  test.each([
    ["one field of 100 kB", `X-Big: ${"a".repeat(100_000)}\r\n`],
    ["20,000 fields", "X-Many: 1\r\n".repeat(20_000)],
    ["fields that never end", `${"X-More: 1\r\n".repeat(12_000)}X-Mor`],
  ])("a header bomb (%s) is 431 and reaches no node", async (_what, fields) => {
    const backend = await webNode();
    const port = await applyOpen(startPlane({ fastLane }), spec([node(1, backend.port)]));
    const client = await rawClient(port);
    client.say(`GET / HTTP/1.1\r\nHost: test\r\n${fields}\r\n\r\n`);
    await until(client.gone);
    expect(client.heard.text).toMatch(/^HTTP\/1\.1 431 [\s\S]*X-Backlot-Reason: too-large\r\n/);
    expect(backend.accepted()).toBe(0);
    expect(await good(port)).toMatch(/ 200 OK/);
  });

  test("bytes that are no HTTP are refused, whatever they are", async () => {
    const backend = await webNode();
    const port = await applyOpen(startPlane({ fastLane }), spec([node(1, backend.port)]));
    for (const bytes of [
      "\0\r\n\r\n",
      "\x16\x03\x01\x02\0\x01\0\x01\xfc\x03\x03\r\n\r\n",
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "a\n\n",
      "\xff".repeat(70_000),
    ]) {
      const client = await rawClient(port);
      client.say(bytes);
      await until(client.gone);
      expect(client.heard.text, JSON.stringify(bytes.slice(0, 20))).toMatch(/^HTTP\/1\.1 (400|431|505) /);
    }
    expect(backend.accepted()).toBe(0);
  });
});

test("a TLS client that does not finish its handshake is let go", async () => {
  const backend = await webNode();
  const tls = { ...makePair("hostile.test"), cipherSuite: "recommended" as const };
  const port = await applyOpen(startPlane({ limits: { handshakeMs: 500 } }), spec([node(1, backend.port)], { protocol: "https", tls }));
  const silent = await crowd(port, ({ say }) => void say("\x16\x03\x01"));
  await until(() => silent.every(({ gone }) => gone()));
});

test("a flood of connections beyond the bound leaves the listener as it was", async () => {
  const backend = await webNode();
  const plane = startPlane({ maxConnections: 50 });
  const port = await applyOpen(plane, spec([node(1, backend.port)]));
  const held = await Promise.all(Array.from({ length: 50 }, () => rawClient(port)));
  const flood = await Promise.all(Array.from({ length: 1_000 }, () => rawClient(port)));
  await until(() => flood.every(({ gone }) => gone()));
  for (const { heard } of flood) expect(heard.text === "" || heard.text.includes("X-Backlot-Reason: too-many-connections")).toBe(true);
  expect(flood.filter(({ heard }) => heard.text !== "").length).toBeGreaterThan(0);
  for (const client of held) expect(client.gone()).toBe(false);
  held[0]?.socket.destroy();
  await until(async () => (await good(port)).includes(" 200 OK"));
  expect((await plane.counters())["config:1"]?.connections).toBeLessThan(60);
});
