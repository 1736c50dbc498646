import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { connect as connectTls } from "node:tls";
import { expect, test } from "vitest";
import { selfSignedCertificate } from "#backlot/kernel/certificate.js";
import { type Api, apiOf, type Json, testConfig } from "../support/cloud.js";
import { until } from "../support/until.js";
import { openLibrary } from "./library.js";
import { type BackEnd, type Door, openBackEnd, openEvents, openWebSocket, type Register, type Stream } from "./streams.js";

/** Real minutes that the streams are open; seven hold a pause that is longer than every bound. `SOAK_STREAM_MINUTES=45 npm run soak -- streams`. */
const minutes = Number(process.env.SOAK_STREAM_MINUTES ?? 7);
/** Between two messages, in real ms: beyond the bounds for heads, bodies and idle connections, and beyond those for answers and readers. */
const gapsMs = [1_000, 20_000, 90_000, 310_000, Number.POSITIVE_INFINITY];
const changeEveryMs = 4_000;
const pause = (ms: number): Promise<void> => new Promise((resolve) => setTimeout(resolve, ms));

const servedFingerprint = async ({ host, port }: Door): Promise<string> => {
  const socket = connectTls({ host, port, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { fingerprint256 } = socket.getPeerCertificate();
  const closed = once(socket, "close");
  socket.destroy();
  await closed;
  return fingerprint256;
};

interface Ground {
  api: Api;
  configs: string;
  /** Paths of the configs, by protocol. */
  paths: Readonly<Record<Door["protocol"], string>>;
  doors: readonly Door[];
  backEnds: readonly BackEnd[];
  addresses: readonly string[];
  pairs: ReadonlyArray<{ cert: string; key: string }>;
}

/** Everything a user may change without meaning to end anybody's connection. Each is done on every listener, and waits until it is true. */
const changesOf = ({ api, configs, paths, doors, backEnds, addresses, pairs }: Ground): ReadonlyArray<(turn: number) => Promise<void>> => {
  const all = Object.values(paths);
  const ok = ({ status, body }: { status: number; body: Json }): Json => {
    if (status !== 200) throw new Error(`answered ${status} ${JSON.stringify(body)}`);
    return body;
  };
  const each = (act: (path: string) => Promise<unknown>): Promise<unknown> => Promise.all(all.map(act));
  const nodesOf = async (path: string): Promise<Json[]> => ok(await api.get(`${path}/nodes`)).data;
  const nodeAt = async (path: string, index: number): Promise<Json> => {
    const node = (await nodesOf(path)).find(({ address }) => address.startsWith(`${addresses[index]}:`));
    if (!node) throw new Error(`no node ${index} in ${path}`);
    return node;
  };
  const put = async (path: string, index: number, change: object): Promise<void> =>
    void ok(await api.put(`${path}/nodes/${(await nodeAt(path, index)).id}`, change));
  const up = (path: string, count: number) =>
    until(async () => ok(await api.get(path)).nodes_status.up === count, { withinMs: 60_000, what: `${count} nodes up in ${path}` });
  const secure = doors.find(({ protocol }) => protocol === "https");
  return [
    () => each(async (path) => ok(await api.put(path, { algorithm: "leastconn" }))).then(() => {}),
    async (turn) => {
      const pair = pairs[turn % 2];
      ok(await api.put(paths.https, { ssl_cert: pair?.cert, ssl_key: pair?.key }));
      const wanted = new X509Certificate(pair?.cert ?? "").fingerprint256;
      if (secure) await until(async () => (await servedFingerprint(secure)) === wanted, { what: "the other certificate" });
    },
    async (turn) => void (await each((path) => put(path, 0, { mode: turn % 2 === 0 ? "drain" : "accept" }))),
    async (turn) => void (await each((path) => put(path, 1, { weight: 1 + (turn % 200), label: `node-1-${turn}` }))),
    async () =>
      void (await each(async (path) => {
        const { id, address, label } = await nodeAt(path, 2);
        ok(await api.del(`${path}/nodes/${id}`));
        ok(await api.post(`${path}/nodes`, { address, label }));
        await up(path, 3);
      })),
    async () => {
      const [backEnd] = backEnds;
      if (!backEnd) return;
      backEnd.healthy = false;
      await each((path) => up(path, 2));
      backEnd.healthy = true;
      await each((path) => up(path, 3));
    },
    async () =>
      void (await each(async (path) => {
        await put(path, 1, { mode: "reject" });
        await up(path, 2);
        await put(path, 1, { mode: "accept" });
        await up(path, 3);
      })),
    () => each(async (path) => ok(await api.put(path, { algorithm: "roundrobin", stickiness: "none", check_interval: 5 }))).then(() => {}),
    async () => {
      const { id } = ok(await api.post(configs, { port: 23_999, check: "connection" }));
      await until(async () => ok(await api.get(`${configs}/${id}`)).listener.status === "open", { what: "one listener more" });
      ok(await api.del(`${configs}/${id}`));
    },
  ];
};

const openStreams = (doors: readonly Door[], register: Register): Promise<Stream[]> => {
  let number = 0;
  const opened: Array<Promise<Stream>> = [];
  for (const door of doors) {
    for (const [index, gapMs] of gapsMs.entries()) {
      // One side speaks while the other is silent, and both are silent.
      for (const clientGapMs of new Set([gapsMs.at(-1 - index) ?? gapMs, gapMs]))
        opened.push(openWebSocket({ number: ++number, door, gapMs, clientGapMs }, register));
      for (const careful of door.protocol === "tcp" ? [false] : [false, true])
        opened.push(openEvents({ number: ++number, door, gapMs, careful }, register));
    }
  }
  return Promise.all(opened);
};

const sum = (values: readonly number[]): number => values.reduce((total, value) => total + value, 0);

test("WebSockets and server-sent events stay open while configs, nodes and certificates change, and every message comes in its turn", {
  timeout: (minutes + 5) * 60_000,
}, async () => {
  const config = await testConfig({ speed: 1, dnsPort: "off" });
  const library = await openLibrary(config);
  const api = apiOf(library.url, library.token);
  const register: Register = new Map();
  const [first, second, third = 0] = config.privatePool.split(".").map((part) => Number.parseInt(part, 10));
  const addresses = [200, 201, 202].map((last) => `${first}.${second}.${third + 3}.${last}`);
  const backEnds: BackEnd[] = [];
  try {
    const nodes: Json[] = [];
    for (const [index, address] of addresses.entries()) {
      const { host } = (await api.get(`/_backlot/dial?address=${address}&port=80`)).body;
      const backEnd = await openBackEnd(host, 0, register);
      backEnds.push(backEnd);
      nodes.push({ label: `node-${index}`, address: `${address}:${backEnd.port}` });
    }
    const pairs = await Promise.all(
      ["one.test", "two.test"].map((commonName) => selfSignedCertificate({ commonName, country: "DE", altNames: [commonName], days: 30 })),
    );
    const { body: balancer } = await api.post("/v4/balancers", { label: "streams", region: "us-east" });
    const configs = `/v4/balancers/${balancer.id}/configs`;
    const check = { check: "http", check_path: "/health", check_interval: 5, check_timeout: 3, check_attempts: 1 };
    const path = async (port: number, more: object): Promise<string> => {
      const { status, body } = await api.post(configs, { port, nodes, ...check, ...more });
      if (status !== 200) throw new Error(JSON.stringify(body));
      return `${configs}/${body.id}`;
    };
    const paths = {
      http: await path(23_080, { protocol: "http" }),
      https: await path(23_443, { protocol: "https", ssl_cert: pairs[0]?.cert, ssl_key: pairs[0]?.key }),
      tcp: await path(23_081, { protocol: "tcp" }),
    };
    const doors: Door[] = [];
    for (const protocol of ["http", "https", "tcp"] as const) {
      const { listener } = await until(
        async () => {
          const { body } = await api.get(paths[protocol]);
          return body.listener.status === "open" && body.nodes_status.up === 3 && body;
        },
        { what: `an open listener for ${protocol}` },
      );
      doors.push({ protocol, host: listener.address, port: listener.port });
    }
    const changes = changesOf({ api, configs, paths, doors, backEnds, addresses, pairs });
    const plain = doors[0];
    if (!plain) throw new Error("no listener");
    /** Who comes meanwhile is served. */
    const askAnew = async (): Promise<string> => (await fetch(`http://${plain.host}:${plain.port}/`)).text();

    const descriptors = (): number => readdirSync(`/proc/${library.pid}/fd`).length;
    const before = await library.measure();
    const descriptorsBefore = descriptors();
    const streams = await openStreams(doors, register);
    const began = performance.now();
    const endMs = began + minutes * 60_000;
    let changed = 0;
    const problems = () => streams.flatMap(({ name, problems }) => problems.map((problem) => `${name}: ${problem}`));
    while (performance.now() < endMs && problems().length === 0) {
      await changes[changed % changes.length]?.(Math.floor(changed / changes.length));
      changed += 1;
      expect(await askAnew()).toBe("here");
      await pause(Math.min(changeEveryMs, Math.max(0, endMs - performance.now())));
    }
    const { configs: counted } = (await api.get("/_backlot/stats")).body;
    for (const stream of streams) stream.finish();
    const flows = streams.flatMap(({ toClient, toNode }) => (toNode ? [toClient, toNode] : [toClient]));
    await until(() => flows.every(({ said, heard }) => said === heard) || problems().length > 0, {
      withinMs: 30_000,
      what: "the last messages",
    }).catch(() => {});
    expect(problems()).toEqual([]);
    expect(flows.map(({ heard }) => heard)).toEqual(flows.map(({ said }) => said));
    const held = await library.measure();
    const figures = {
      minutes: Math.round((performance.now() - began) / 6_000) / 10,
      streams: streams.length,
      changes: changed,
      messages: sum(flows.map(({ heard }) => heard)),
      longestGapS: Math.round(Math.max(...flows.map(({ longestGapMs }) => longestGapMs)) / 1_000),
      handedOver: counted.map(({ handed_over }: Json) => handed_over),
      rssMb: [before, held].map(({ rss }) => Math.round(rss / 2 ** 20)),
      sockets: [before, held].map(({ descriptors }) => descriptors.socket ?? 0),
    };
    console.log(JSON.stringify(figures));
    await Promise.all(streams.map((stream) => stream.close()));
    // A client that left while its stream was silent is found out when its kernel has forgotten it, after one to two minutes.
    await until(() => descriptors() <= descriptorsBefore, { withinMs: 180_000, what: "as few descriptors as before the streams" });
  } finally {
    await Promise.all(backEnds.map((backEnd) => backEnd.close()));
    await library.close();
  }
});
