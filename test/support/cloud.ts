import { existsSync, readdirSync, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { type IncomingHttpHeaders, request } from "node:http";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll } from "vitest";
import type { Backlot, Config } from "#backlot/index.js";
import { openCloud } from "#backlot/main.js";
import { kinds } from "#backlot/resources/cloud.js";
import { migrations, schemaVersion } from "#backlot/resources/migrations.js";
import { openStore } from "#backlot/store/open-store.js";

// biome-ignore lint/suspicious/noExplicitAny: a test reads whatever the wire says and asserts it.
export type Json = any;

export interface Answer {
  status: number;
  headers: IncomingHttpHeaders;
  body: Json;
}

/** What goes out beside method, path and body; header names as they are to stand on the wire. */
export type Headers = Record<string, string>;

/** Requests with the cloud's token; a header of the same name replaces ours. */
export interface Api {
  get(path: string, headers?: Headers): Promise<Answer>;
  post(path: string, body?: unknown, headers?: Headers): Promise<Answer>;
  put(path: string, body?: unknown, headers?: Headers): Promise<Answer>;
  del(path: string, headers?: Headers): Promise<Answer>;
}

export interface TestCloud {
  url: string;
  token: string;
  api: Api;
  /** Folder of the state. */
  state: string;
  config: Config;
  running: Backlot;
  /** Stops it, with its machines unless `keep` is asked for, and removes the state unless it is to be used again. */
  close(options?: { machines?: "keep" | "stop"; keepState?: boolean }): Promise<void>;
}

/** Addresses that no other test on this machine uses at the same time. */
interface Ground {
  privatePool: string;
  publicPool: string;
  balancerAddresses: string;
}

const grounds = 12;
const leasePort = 20_047;
let leased: Promise<{ lease: Server; ground: Ground }> | undefined;

/** Third number of a ground's first address: 64 to 95 and 112 to 127; what lies between is the demo's own test's. */
const firstOf = (index: number): number => (index < 8 ? 64 + index * 4 : 80 + index * 4);

/** Does a machine of some other Backlot, on the process runtime, have an address whose third number is `first` or one of the next? Asked of the process table. */
const isInhabited = (first: number, count: number): boolean => {
  const isThere = (address: string): boolean => {
    const [, b, c] = address.split(".").map(Number);
    return (b === 192 || b === 18) && c !== undefined && c >= first && c < first + count;
  };
  return readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .some((pid) => {
      try {
        const environ = readFileSync(`/proc/${pid}/environ`, "latin1").split("\0");
        return environ.some((entry) => entry.startsWith("BACKLOT_BIND_ADDRESSES=") && entry.slice(23).split(" ").some(isThere));
      } catch {
        return false; // it ended, or is not ours to read
      }
    });
};

const hold = (index: number): Promise<Server | undefined> =>
  new Promise((resolve) => {
    const lease = createServer();
    lease.once("error", () => resolve(undefined));
    lease.listen({ host: `127.255.${index}.1`, port: leasePort }, () => resolve(lease.unref()));
  });

/**
 * One ground a test file, leased by a socket: whoever runs tests beside us, in whatever process, has another, and the kernel takes the
 * lease back when we end. Above what test/support/process-ground.ts uses, below 192.168.128.0/17, where Backlots that people run have theirs.
 */
const ground = async (): Promise<{ lease: Server; ground: Ground }> => {
  for (let step = 0; step < grounds; step += 1) {
    const index = (process.pid + step) % grounds;
    if (isInhabited(firstOf(index), 4)) continue;
    const lease = await hold(index);
    if (!lease) continue;
    return {
      lease,
      ground: {
        privatePool: `192.168.${firstOf(index)}.0/22`,
        publicPool: `198.18.${firstOf(index)}.0/22`,
        balancerAddresses: `127.0.${64 + index}.0/24`,
      },
    };
  }
  throw new Error(`all ${grounds} grounds for tests are in use`);
};

/** Third numbers of the /20s that a command line may be given in a test: it takes no smaller pool. */
const wholePools = [240, 224, 128];

/** A pool and balancers' addresses for a Backlot in a process of its own, leased as a ground is. */
export const commandLineGround = async (): Promise<{ privatePool: string; balancerAddresses: string }> => {
  for (const first of wholePools) {
    if (isInhabited(first, 16) || !(await hold(first))) continue;
    return { privatePool: `192.168.${first}.0/20`, balancerAddresses: `127.0.${first}.0/24` };
  }
  throw new Error("all pools for a command line are in use");
};

export const send = (url: string, method: string, path: string, headers: Headers, body?: unknown): Promise<Answer> =>
  new Promise((resolve, reject) => {
    const raw = body === undefined || Buffer.isBuffer(body) || typeof body === "string" ? body : JSON.stringify(body);
    const outgoing = request(
      url,
      {
        path,
        method,
        agent: false,
        headers: {
          ...(raw === undefined ? {} : { "Content-Type": "application/json", "Content-Length": String(Buffer.byteLength(raw)) }),
          ...headers,
        },
      },
      (incoming) => {
        const chunks: Buffer[] = [];
        incoming.on("error", reject);
        incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
        incoming.on("end", () => {
          const text = Buffer.concat(chunks).toString();
          resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, body: text === "" ? undefined : JSON.parse(text) });
        });
      },
    );
    outgoing.on("error", reject);
    outgoing.end(raw);
  });

export const apiOf = (url: string, token: string): Api => {
  const withToken = (headers: Headers = {}): Headers => ({ Authorization: `Bearer ${token}`, ...headers });
  return {
    get: (path, headers) => send(url, "GET", path, withToken(headers)),
    post: (path, body, headers) => send(url, "POST", path, withToken(headers), body),
    put: (path, body, headers) => send(url, "PUT", path, withToken(headers), body),
    del: (path, headers) => send(url, "DELETE", path, withToken(headers)),
  };
};

/** The public pool is chosen at a state's first start, by the state's random name; a test's is its ground's. */
const settlePublicPool = async (state: string, publicPool: string): Promise<void> => {
  const store = await openStore({ folder: state, kinds, schemaVersion, migrations, onProblem: () => undefined });
  await store.commit((tx: Json) => tx.list("pool").length === 0 && tx.insert("pool", { runtime: "process", publicPool }));
  await store.close();
};

/** Every setting of a test's cloud, on this file's ground. `state` is a folder to start in; one is made without it. */
export const testConfig = async (overrides: Partial<Config> = {}): Promise<Config> => {
  leased ??= ground();
  const { privatePool, publicPool, balancerAddresses } = (await leased).ground;
  const state = overrides.state ?? (await mkdtemp(join(tmpdir(), "backlot-api-")));
  await settlePublicPool(state, publicPool);
  return {
    port: 0,
    linodePort: undefined,
    rateLimit: false,
    host: "127.0.0.1",
    runtime: "process",
    token: undefined,
    speed: 50,
    balancerAddresses,
    privatePool,
    dial: "auto",
    fastLane: "on",
    clientKeepAlive: "on",
    balancerConnections: 10_000,
    certificates: "strict",
    cors: "off",
    imageFallback: undefined,
    images: {},
    onExit: "stop",
    allowHostScripts: false,
    dnsPort: 0,
    dnsHost: "127.0.0.1",
    dnsUpstream: undefined,
    dnsForward: false,
    logLevel: "silent",
    json: false,
    ...overrides,
    state,
  };
};

/** By state folder: what was started in this file and not closed for good. */
const standing = new Map<string, { config: Config; running: Backlot | undefined }>();

// After the file's own hooks. A test that failed before its last line must not leave machines behind that later files would meet.
afterAll(async () => {
  for (const [state, { config, running }] of standing) {
    if (existsSync(state)) await (running ?? (await openCloud(config))).close({ machines: "stop" });
    await rm(state, { recursive: true, force: true });
  }
});

/** A whole Backlot in this process, on the process runtime: real sockets, real processes, a state folder of its own. */
export const startCloud = async (overrides: Partial<Config> = {}): Promise<TestCloud> => {
  const config = await testConfig(overrides);
  const running = await openCloud(config);
  standing.set(config.state, { config, running });
  return {
    url: running.url,
    token: running.token,
    api: apiOf(running.url, running.token),
    state: config.state,
    config,
    running,
    close: async ({ machines = "stop", keepState = false } = {}) => {
      await running.close({ machines });
      if (keepState) return void standing.set(config.state, { config, running: undefined });
      standing.delete(config.state);
      await rm(config.state, { recursive: true, force: true });
    },
  };
};
