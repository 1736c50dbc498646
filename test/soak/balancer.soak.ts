import { readdirSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { afterEach, expect, test } from "vitest";
import { applyOpen, closeOpened, listen, makePair, node, request, spec, startPlane } from "../balancer/support.js";
import { until } from "../support/until.js";

afterEach(closeOpened);

/** Rounds of each kind of client; a round is 160 connections. `SOAK_ROUNDS=1000 npm run soak`. */
const rounds = Number(process.env.SOAK_ROUNDS ?? 100);
const CROWD = 16;
const BIG = Buffer.alloc(1_000_000, "x");

const answer: RequestListener = (req, res) => {
  if (req.url === "/endless") {
    const more = () => {
      while (!res.destroyed && res.write(BIG));
    };
    res.on("drain", more);
    more();
  } else req.resume().on("end", () => res.end(req.url === "/big" ? BIG : "hi"));
};

type Say = (socket: Socket) => void;

/** Connects, says something, and ends when `end` has seen to it. */
const client = (port: number, secure: boolean, say: string, behave: Say): Promise<void> =>
  new Promise((resolve) => {
    const socket = secure ? connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false }) : connect({ port, host: "127.0.0.1" });
    socket.on("error", () => undefined).once("close", () => resolve());
    socket.once(secure ? "secureConnect" : "connect", () => {
      socket.write(say);
      behave(socket);
    });
  });

const whole: Say = (socket) => void socket.resume();
const abort: Say = (socket) => void socket.once("data", () => (socket.constructor.name === "Socket" ? socket.resetAndDestroy() : socket.destroy()));
const leave: Say = (socket) => void socket.once("data", () => socket.end());
/** Reads a little now and then, then breaks off. */
const slow: Say = (socket) => {
  let reads = 0;
  socket.on("data", () => {
    socket.pause();
    reads++;
    if (reads === 3) socket.destroy();
    else setImmediate(() => socket.resume());
  });
};
const echoed: Say = (socket) => {
  let heard = 0;
  socket.on("data", (bytes: Buffer) => {
    if (heard === 0) socket.write("ping".repeat(10_000));
    heard += bytes.length;
    if (heard > 30_000) socket.destroy();
  });
};

test("aborts, slow readers, upgrades and broken tunnels leave memory and descriptors as they were", async () => {
  const server = createServer(answer);
  server.on("upgrade", (_req, socket) => {
    socket.on("error", () => undefined);
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    socket.pipe(socket);
  });
  const nodes = [node(1, await listen(server))];
  const plane = startPlane();
  const plain = await applyOpen(plane, spec(nodes), "config:1");
  const tls = { ...makePair("localhost"), cipherSuite: "recommended" } as const;
  const secure = await applyOpen(plane, spec(nodes, { protocol: "https", tls }), "config:2");
  const tcp = await applyOpen(plane, spec(nodes, { protocol: "tcp" }), "config:3");

  const close = ["Connection: close"];
  const kinds: [number, boolean, string, Say][] = [
    [plain, false, request("GET /big", close), whole],
    [plain, false, request("GET /endless"), abort],
    [plain, false, request("GET /endless"), slow],
    [plain, false, request("GET /echo", ["Connection: Upgrade", "Upgrade: echo"]), echoed],
    [plain, false, request("POST /", ["Content-Length: 100"], "too short"), (socket) => void setImmediate(() => socket.resetAndDestroy())],
    [secure, true, request("GET /endless"), abort],
    [secure, true, request("GET /big", close), whole],
    [tcp, false, request("GET /endless"), abort],
    [tcp, false, request("GET /endless"), leave],
    [tcp, false, request("GET /endless"), slow],
  ];
  const round = () => Promise.all(kinds.flatMap((kind) => Array.from({ length: CROWD }, () => client(...kind))));
  const descriptors = () => readdirSync("/proc/self/fd").length;
  const before = descriptors();
  const rssMb: number[] = [];
  for (let turn = 0; turn < rounds; turn++) {
    await round();
    if (turn % Math.max(1, Math.floor(rounds / 10)) === 0) rssMb.push(Math.round(process.memoryUsage.rss() / 1_048_576));
  }
  const open = async () => Object.values(await plane.counters()).flatMap(({ nodes: all }) => Object.values(all).map((each) => each.open));
  await until(async () => (await open()).every((count) => count === 0));
  // Kept connections to nodes end after a few seconds, and then nothing may be left.
  await until(() => descriptors() <= before, { withinMs: 20_000, what: "as few descriptors as at the beginning" });
  console.log(JSON.stringify({ rounds, connections: rounds * kinds.length * CROWD, rssMb, descriptors: { before, after: descriptors() } }));
  expect(rssMb.at(-1)).toBeLessThan((rssMb[Math.floor(rssMb.length / 2)] ?? 0) * 1.15);
});
