import { once } from "node:events";
import { readdirSync, writeFileSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { type AddressInfo, connect, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { expect, test } from "vitest";
import { makePair, request } from "../balancer/support.js";
import { apiOf, type Json, testConfig } from "../support/cloud.js";
import { until } from "../support/until.js";
import { openLibrary } from "./library.js";
import { curves } from "./picture.js";

/** Rounds of each kind of client; a round is 160 connections. `SOAK_ROUNDS=1000 npm run soak -- balancer`. */
const rounds = Number(process.env.SOAK_ROUNDS ?? 200);
const picture = new URL("../../docs/soak-balancer.svg", import.meta.url);
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

interface Place {
  host: string;
  port: number;
}

type Say = (socket: Socket) => void;

/** Connects, says something, and ends when `end` has seen to it. */
const client = ({ host, port }: Place, secure: boolean, say: string, behave: Say): Promise<void> =>
  new Promise((resolve) => {
    const socket = secure ? connectTls({ port, host, rejectUnauthorized: false }) : connect({ port, host });
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

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[values.length >> 1] ?? Number.NaN;
const megabytes = (bytes: number): number => Math.round(bytes / 2 ** 20);

test("aborts, slow readers, upgrades and broken tunnels leave memory and descriptors as they were", async () => {
  const server = createServer(answer);
  server.on("upgrade", (_req, socket) => {
    socket.on("error", () => undefined);
    socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
    socket.pipe(socket);
  });
  const config = await testConfig({ speed: 1, dnsPort: "off" });
  // In a process of its own: clients and the back end have memory too.
  const library = await openLibrary(config);
  const api = apiOf(library.url, library.token);
  try {
    const [first, second, third = 0] = config.privatePool.split(".").map((part) => Number.parseInt(part, 10));
    const address = `${first}.${second}.${third + 3}.200`;
    const { host } = (await api.get(`/_backlot/dial?address=${address}&port=80`)).body;
    await once(server.listen(0, host), "listening");
    const nodes = [{ label: "one", address: `${address}:${(server.address() as AddressInfo).port}` }];
    const { body: balancer } = await api.post("/v4/balancers", { label: "soak", region: "us-east" });
    const configs = `/v4/balancers/${balancer.id}/configs`;
    // An aborted request is a failed one: a passive check would take the node out.
    const check = { check: "connection", check_interval: 5, check_timeout: 3, check_passive: false };
    const open = async (port: number, more: object): Promise<Place> => {
      const { body } = await api.post(configs, { port, nodes, ...check, ...more });
      const listener = await until(
        async () => {
          const now: Json = (await api.get(`${configs}/${body.id}`)).body;
          return now.listener.status === "open" && now.nodes_status.up === 1 && now.listener;
        },
        { what: `an open listener on ${port}` },
      );
      return { host: listener.address, port: listener.port };
    };
    const { cert, key } = makePair("localhost");
    const plain = await open(24_080, { protocol: "http" });
    const secure = await open(24_443, { protocol: "https", ssl_cert: cert, ssl_key: key });
    const tcp = await open(24_081, { protocol: "tcp" });

    const close = ["Connection: close"];
    const kinds: [Place, boolean, string, Say][] = [
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
    const descriptors = () => readdirSync(`/proc/${library.pid}/fd`).length;
    const before = descriptors();
    const points: Array<{ at: number; rss: number }> = [];
    for (let turn = 0; turn < rounds; turn++) {
      await round();
      points.push({ at: turn + 1, rss: (await library.measure()).rss });
    }
    // Kept connections to nodes end after a few seconds, and then nothing may be left.
    await until(() => descriptors() <= before, { withinMs: 20_000, what: "as few descriptors as at the beginning" });
    const rss = points.map((point) => point.rss);
    const quarter = (nth: number) => rss.slice(Math.floor((rss.length * nth) / 4), Math.floor((rss.length * (nth + 1)) / 4));
    const connections = rounds * kinds.length * CROWD;
    const mb = [0, 1, 2, 3].map((nth) => megabytes(median(quarter(nth))));
    const caption = `${rounds} rounds, ${connections} connections; RSS by quarters ${mb.join(", ")} MB (medians); descriptors ${before} before, ${descriptors()} after`;
    console.log(caption);
    const title = "Memory of Backlot while clients break off, read slowly, upgrade and tunnel; first round = 1";
    writeFileSync(picture, curves(points, { title, caption, unit: "rounds" }));
    // One round says little: memory swings with when V8 collects, and warms up for a while. What leaks adds up with every round, so the last quarter
    // is compared with the one before: 1 kB for each of its connections would be more than this.
    expect(median(quarter(3))).toBeLessThan(median(quarter(2)) + (connections / 4) * 1_000);
    expect(Math.min(...quarter(3))).toBeLessThanOrEqual(Math.max(...quarter(2)));
  } finally {
    server.close();
    server.closeAllConnections();
    await library.close();
  }
});
