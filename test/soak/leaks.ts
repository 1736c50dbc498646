import { once } from "node:events";
import { type ClientRequest, createServer, get, type IncomingMessage, request, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import { selfSignedCertificate } from "#backlot/kernel/certificate.js";
import { type Api, apiOf, type Json, testConfig } from "../support/cloud.js";
import { until } from "../support/until.js";
import { type Library, type Measure, openLibrary } from "./library.js";

export interface Sample extends Measure {
  /** Simulated minutes since the first sample. */
  minute: number;
}

/** Simulated seconds a real one. */
const speed = 50;

/** A back end that answers, answers slowly, answers much, and takes upgrades; it can be gone for a while. */
const openBackEnd = async (host: string) => {
  const sockets = new Set<Socket>();
  const much = Buffer.alloc(4 * 2 ** 20, "x");
  const make = (): Server => {
    const server = createServer((incoming, answer) => {
      if (incoming.url === "/never") return void answer.flushHeaders();
      answer.end(incoming.url === "/much" ? much : "here");
    });
    server.on("upgrade", (_incoming, socket) => {
      socket.write("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n");
      socket.on("error", () => socket.destroy());
      socket.pipe(socket);
    });
    server.on("connection", (socket) => {
      sockets.add(socket);
      socket.on("error", () => {});
      socket.on("close", () => sockets.delete(socket));
    });
    return server;
  };
  let port = 0;
  let server: Server;
  const open = async (): Promise<void> => {
    server = make().listen(port, host);
    await once(server, "listening");
    port = (server.address() as AddressInfo).port;
  };
  const close = async (): Promise<void> => {
    const closed = once(server, "close");
    server.close();
    for (const socket of sockets) socket.destroy();
    await closed;
  };
  await open();
  return { port: () => port, open, close };
};

interface Ground {
  api: Api;
  pairs: ReadonlyArray<{ cert: string; key: string }>;
  /** Where the balancers' nodes are, as the API knows it, and the same where it really is. */
  address: string;
  backEnd: Awaited<ReturnType<typeof openBackEnd>>;
}

const ended = (asked: ClientRequest): Promise<void> => new Promise((resolve) => asked.once("close", () => resolve()));
const times = (count: number, act: (index: number) => Promise<unknown>): Promise<unknown> =>
  Promise.all(Array.from({ length: count }, (_, index) => act(index)));

/** Clients that read it all, that leave in the middle of an answer or before it, and that read slowly for a while. */
const visit = async (host: string, port: number): Promise<void> => {
  const asked = (path: string, onAnswer: (incoming: IncomingMessage, outgoing: ClientRequest) => void): Promise<void> => {
    const outgoing = get({ host, port, path, agent: false }, (incoming) => onAnswer(incoming, outgoing));
    outgoing.on("error", () => {});
    return ended(outgoing);
  };
  await times(20, () => asked("/", (incoming) => incoming.resume()));
  await times(5, () => asked("/much", (incoming, outgoing) => incoming.once("data", () => outgoing.destroy())));
  await times(5, () => asked("/never", (_incoming, outgoing) => outgoing.destroy()));
  await times(5, () =>
    asked("/much", (incoming, outgoing) => {
      let pieces = 0;
      incoming.on("data", () => {
        incoming.pause();
        pieces += 1;
        if (pieces > 10) outgoing.destroy();
        else setTimeout(() => incoming.resume(), 10);
      });
    }),
  );
};

/** Tunnels that both sides end, that the client cuts. */
const upgrade = (host: string, port: number): Promise<unknown> =>
  times(6, async (index) => {
    const outgoing = request({ host, port, path: "/", agent: false, headers: { Connection: "Upgrade", Upgrade: "echo" } });
    outgoing.on("error", () => {});
    outgoing.end();
    const [, socket] = (await once(outgoing, "upgrade")) as [unknown, Socket];
    socket.on("error", () => {});
    socket.write("again");
    await once(socket, "data");
    const closed = once(socket, "close");
    if (index % 2 === 0) socket.end();
    else socket.destroy();
    socket.resume();
    await closed;
  });

const handshake = async (host: string, port: number): Promise<void> => {
  const socket = connectTls({ host, port, rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const closed = once(socket, "close");
  socket.destroy();
  await closed;
};

const listening = (api: Api, path: string): Promise<Json> =>
  until(
    async () => {
      const { body } = await api.get(path);
      return body.listener.status === "open" && body;
    },
    { what: `an open listener of ${path}` },
  );

/** One round: a balancer is made, visited, has its nodes flap and its certificate swapped, and is deleted; so is an instance. */
const round = async ({ api, pairs, address, backEnd }: Ground, index: number): Promise<void> => {
  const { body: balancer } = await api.post("/v4/balancers", { label: `soak-${index}`, region: "us-east" });
  const { body: instance } = await api.post("/v4/cloud/instances", {
    label: `soak-${index}`,
    region: "us-east",
    type: "g6-nanode-1",
    image: "cloud/debian12",
    root_pass: "Curtain-7-Call",
    script_id: 1,
  });
  const nodes = [{ label: "one", address: `${address}:${backEnd.port()}` }];
  const check = { check: "connection", check_interval: 5, check_timeout: 3, check_attempts: 1 };
  const configs = `/v4/balancers/${balancer.id}/configs`;
  const [plain, secure] = await Promise.all([
    api.post(configs, { port: 22_080, nodes, ...check }),
    api.post(configs, { port: 22_443, protocol: "https", ssl_cert: pairs[0]?.cert, ssl_key: pairs[0]?.key, nodes, ...check }),
  ]);
  const [plainPath, securePath] = [`${configs}/${plain.body.id}`, `${configs}/${secure.body.id}`];
  await Promise.all([listening(api, plainPath), listening(api, securePath)]);
  const up = (count: number) => until(async () => (await api.get(plainPath)).body.nodes_status.up === count, { what: `${count} nodes up` });
  await up(1);
  await visit(balancer.ipv4, 22_080);
  await upgrade(balancer.ipv4, 22_080);
  for (const swap of [1, 2, 3]) {
    const pair = pairs[swap % 2];
    await api.put(securePath, { protocol: "https", ssl_cert: pair?.cert, ssl_key: pair?.key });
    await handshake(balancer.ipv4, 22_443);
  }
  await backEnd.close();
  await up(0);
  await times(5, () => visitOnce(balancer.ipv4, 22_080));
  await backEnd.open();
  await up(1);
  await api.del(`/v4/cloud/instances/${instance.id}`);
  await api.del(`/v4/balancers/${balancer.id}`);
  await until(async () => (await api.get("/v4/cloud/instances")).body.results === 0, { withinMs: 20_000, what: "no instance" });
};

const visitOnce = async (host: string, port: number): Promise<void> => {
  const outgoing = get({ host, port, agent: false }, (incoming) => incoming.resume());
  outgoing.on("error", () => {});
  await ended(outgoing);
};

/**
 * Rounds of everything that comes and goes, on the process runtime, measured after each.
 * @param warmUp rounds before the first sample: code is compiled, the heap has its size
 */
export const leakSoak = async (warmUp: number, rounds: number): Promise<Sample[]> => {
  const config = await testConfig({ speed, dnsPort: "off" });
  const library: Library = await openLibrary(config);
  const api = apiOf(library.url, library.token);
  // An address of the pool that no instance is given, and where it really is.
  const address = `${config.privatePool.split(".").slice(0, 2).join(".")}.${Number(config.privatePool.split(".")[2]) + 3}.200`;
  const { host } = (await api.get(`/_backlot/dial?address=${address}&port=80`)).body;
  const backEnd = await openBackEnd(host);
  const pairs = await Promise.all(
    ["one.test", "two.test"].map((commonName) => selfSignedCertificate({ commonName, country: "DE", altNames: [commonName], days: 30 })),
  );
  try {
    const ground = { api, pairs, address, backEnd };
    for (let index = 0; index < warmUp; index += 1) await round(ground, index);
    const began = performance.now();
    const samples: Sample[] = [];
    for (let index = 0; index <= rounds; index += 1) {
      samples.push({ minute: ((performance.now() - began) * speed) / 60_000, ...(await settledMeasure(library)) });
      if (index < rounds) await round(ground, warmUp + index);
    }
    return samples;
  } finally {
    await backEnd.close();
    await library.close();
  }
};

/** What it holds once what was just let go is gone: looked at until two looks in a row agree. */
export const settledMeasure = async (library: Library): Promise<Measure> => {
  let last = await library.measure();
  return until(
    async () => {
      const now = await library.measure();
      const isSame = JSON.stringify(now.descriptors) === JSON.stringify(last.descriptors);
      last = now;
      return isSame && now;
    },
    { what: "descriptors that do not change" },
  );
};

const sum = (counts: Readonly<Record<string, number>>): number => Object.values(counts).reduce((total, count) => total + count, 0);

/** What is compared at the end with the beginning. */
export const figuresOf = ({ rss, heapUsed, descriptors, resources }: Measure) => ({
  rss,
  heapUsed,
  descriptors: sum(descriptors),
  sockets: descriptors.socket ?? 0,
  timers: resources.Timeout ?? 0,
});
