import { createServer as createHttpServer, type RequestListener } from "node:http";
import { type AddressInfo, connect, createServer as createTcpServer, type Server, type Socket } from "node:net";
import type { Json, TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";

/** What a test asks the world, beside the API. */
export interface Place {
  host: string;
  port: number;
}

const opened: Array<() => Promise<void>> = [];

/** Closes every server a test opened with this file's functions. */
export const closeWorld = async (): Promise<void> => {
  for (const close of opened.splice(0).reverse()) await close();
};

export interface Opened {
  port: number;
  close(): Promise<void>;
}

const open = async (server: Server, { host, port }: Place): Promise<Opened> => {
  const sockets = new Set<Socket>();
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => sockets.delete(socket));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen({ host, port }, () => resolve());
  });
  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= new Promise((resolve) => {
      server.close(() => resolve());
      for (const socket of sockets) socket.destroy();
    });
    return closing;
  };
  opened.push(close);
  return { port: (server.address() as AddressInfo).port, close };
};

/** A real HTTP back end; answers `text` with 200 unless a listener is given. */
export const httpServer = (place: Place, answer: string | RequestListener): Promise<Opened> =>
  open(createHttpServer(typeof answer === "string" ? (_request, response) => void response.end(answer) : answer), place);

/** A socket that takes connections and says nothing. */
export const silentServer = (place: Place): Promise<Opened> => open(createTcpServer(), place);

/** True when something takes connections there, false when it is refused. */
export const isListening = ({ host, port }: Place): Promise<boolean> =>
  new Promise((resolve) => {
    const socket = connect({ host, port });
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => resolve(false));
  });

/** Writes bytes and reads until the other side ends; what came, as latin1. */
export const rawExchange = ({ host, port }: Place, bytes: string | Buffer): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({ host, port });
    const chunks: Buffer[] = [];
    socket.setTimeout(10_000, () => socket.destroy(new Error("no end within 10 s")));
    socket.on("connect", () => socket.write(bytes));
    socket.on("data", (chunk: Buffer) => chunks.push(chunk));
    socket.on("error", reject);
    socket.on("end", () => {
      socket.end();
      resolve(Buffer.concat(chunks).toString("latin1"));
    });
  });

/** Status, headers (lower case names) and JSON body of a raw answer. */
export const readRaw = (answer: string): { status: number; headers: Map<string, string>; body: Json } => {
  const [head = "", ...rest] = answer.split("\r\n\r\n");
  const [statusLine = "", ...lines] = head.split("\r\n");
  const headers = new Map(lines.map((line) => [line.slice(0, line.indexOf(":")).toLowerCase(), line.slice(line.indexOf(":") + 1).trim()]));
  const text = rest.join("\r\n\r\n");
  return { status: Number(statusLine.split(" ")[1]), headers, body: text === "" ? undefined : JSON.parse(text) };
};

export const placeOf = (url: string): Place => ({ host: new URL(url).hostname, port: Number(new URL(url).port) });

/** Where Backlot says that an address of an instance is reached. */
export const dial = async (cloud: TestCloud, address: string, port: number): Promise<Place> => {
  const { status, body } = await cloud.api.get(`/_backlot/dial?address=${address}&port=${port}`);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

let labels = 0;
/** A label nothing else in this file has. */
export const freshLabel = (word = "thing"): string => {
  labels += 1;
  return `${word}-${labels}`;
};

/** A private address of the ground's pool that no instance has. */
let lastOctet = 0;
export const unheldAddress = (cloud: TestCloud): string => {
  const [a, b, c] = cloud.config.privatePool.split(".");
  lastOctet += 1;
  return `${a}.${b}.${Number(c) + 3}.${lastOctet}`;
};

export const createBalancer = async (cloud: TestCloud, more: object = {}): Promise<Json> => {
  const { status, body } = await cloud.api.post("/v4/balancers", { label: freshLabel("balancer"), region: "us-east", ...more });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

export const createConfig = async (cloud: TestCloud, balancer: number, more: object = {}): Promise<Json> => {
  const { status, body } = await cloud.api.post(`/v4/balancers/${balancer}/configs`, { port: 20_080, ...more });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

export const createNode = async (cloud: TestCloud, config: Json, address: string, more: object = {}): Promise<Json> => {
  const path = `/v4/balancers/${config.balancer_id}/configs/${config.id}/nodes`;
  const { status, body } = await cloud.api.post(path, { label: freshLabel("node"), address, ...more });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

export const configPath = (config: Json): string => `/v4/balancers/${config.balancer_id}/configs/${config.id}`;
export const nodePath = (node: Json): string => `/v4/balancers/${node.balancer_id}/configs/${node.config_id}/nodes/${node.id}`;

/** Waits until a config's listener has this state, and gives the config. */
export const listening = (cloud: TestCloud, config: Json, status = "open"): Promise<Json> =>
  until(
    async () => {
      const { body } = await cloud.api.get(configPath(config));
      return body.listener.status === status && body;
    },
    { what: `a listener that is ${status}` },
  );

export const placeOfListener = ({ listener }: Json): Place => ({ host: listener.address, port: listener.port });

export const nodesStatus = (cloud: TestCloud, config: Json, up: number, down: number): Promise<Json> =>
  until(
    async () => {
      const { body } = await cloud.api.get(configPath(config));
      return body.nodes_status.up === up && body.nodes_status.down === down && body;
    },
    { what: `${up} up and ${down} down` },
  );

/** An instance of the cheapest kind; `more` adds to what is sent. */
export const createInstance = async (cloud: TestCloud, more: object = {}): Promise<Json> => {
  const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", label: freshLabel("web"), ...more };
  const { status, body } = await cloud.api.post("/v4/cloud/instances", wanted);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

export const instanceIn = (cloud: TestCloud, id: number, status: string): Promise<Json> =>
  until(
    async () => {
      const { body } = await cloud.api.get(`/v4/cloud/instances/${id}`);
      return body.status === status && body;
    },
    { what: `instance ${id} that is ${status}` },
  );

/** Ends an instance and waits until it is gone. */
export const removeInstance = async (cloud: TestCloud, id: number): Promise<void> => {
  await cloud.api.del(`/v4/cloud/instances/${id}`);
  await until(async () => (await cloud.api.get(`/v4/cloud/instances/${id}`)).status === 404, { what: `the end of instance ${id}` });
};

/** Newest first; `filter` as in `X-Filter`. */
export const events = async (cloud: TestCloud, filter: object = {}): Promise<Json[]> =>
  (await cloud.api.get("/v4/account/events", { "X-Filter": JSON.stringify(filter) })).body.data;

export const eventsOf = (cloud: TestCloud, type: string, id: number | string, filter: object = {}): Promise<Json[]> =>
  events(cloud, { "entity.type": type, "entity.id": id, ...filter });

/** The fields of an error answer, sorted. */
export const fieldsOf = (body: Json): string[] => body.errors.map((error: Json) => error.field).sort();

/** No reason repeats its field's name (description section 7). */
export const selfNaming = (body: Json): Json[] =>
  body.errors.filter(({ reason, field }: Json) => field !== undefined && new RegExp(`\\b${String(field).split(".").pop()}\\b`).test(reason));

/** Somebody else has a port of this balancer; a config is made on it, and comes back once its listener has failed. */
export const occupyPort = async (cloud: TestCloud, balancer: Json, port = 20_180): Promise<{ config: Json; holder: Opened }> => {
  const holder = await silentServer({ host: balancer.ipv4, port });
  const config = await createConfig(cloud, balancer.id, { port });
  return { config: await listening(cloud, config, "failed"), holder };
};
