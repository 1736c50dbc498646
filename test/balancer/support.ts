import { connect, createServer, type Server, type Socket } from "node:net";
import forge from "node-forge";
import { openPlane } from "#backlot/balancer/worker-host.js";
import type { BalancerPlane, ListenerSpec, NodeSpec } from "../../src/balancer/plane.js";

/** Everything a test opened, closed after it. */
const opened: Array<() => Promise<void> | void> = [];

export const closeOpened = async (): Promise<void> => {
  for (const close of opened.splice(0).reverse()) await close();
};

export const closeLater = (close: () => Promise<void> | void): void => {
  opened.push(close);
};

export const startPlane = (options: Parameters<typeof openPlane>[0] = {}): BalancerPlane => {
  const plane = openPlane(options);
  closeLater(() => plane.close());
  return plane;
};

export interface Backend {
  port: number;
  server: Server;
  /** Bytes received, one entry per connection, as latin1. */
  received: string[];
  open: Set<Socket>;
  /** Connections so far. */
  accepted(): number;
}

/** A back end made of a bare socket: `onData` sees everything a connection has said so far. */
export const rawBackend = async (onData: (socket: Socket, said: string, connection: number) => void): Promise<Backend> => {
  const received: string[] = [];
  const open = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    const connection = received.push("") - 1;
    open.add(socket);
    socket.on("error", () => undefined);
    socket.on("close", () => open.delete(socket));
    socket.on("end", () => socket.end());
    socket.on("data", (chunk) => {
      received[connection] += chunk.toString("latin1");
      onData(socket, received[connection] ?? "", connection);
    });
  });
  await listen(server);
  return { port: portOf(server), server, received, open, accepted: () => received.length };
};

export const listen = async (server: Server, port = 0, host = "127.0.0.1"): Promise<number> => {
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, host, resolve);
  });
  const sockets = new Set<Socket>();
  server.on("connection", (socket: Socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });
  closeLater(
    () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      }),
  );
  return portOf(server);
};

const portOf = (server: Server): number => (server.address() as { port: number }).port;

/** Answers every complete request head with `body`; a new request starts after each head. */
export const helloBackend = (body: string): Promise<Backend> =>
  rawBackend((socket, said) => {
    const heads = said.split("\r\n\r\n").length - 1;
    const answered = (socket as Socket & { answered?: number }).answered ?? 0;
    for (let index = answered; index < heads; index++) socket.write(ok(body));
    (socket as Socket & { answered?: number }).answered = heads;
  });

export const ok = (body: string): string => `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`;

export const node = (id: number, port: number, more: Partial<NodeSpec> = {}): NodeSpec => ({
  id,
  label: `node-${id}`,
  address: `192.168.128.${id}:80`,
  endpoint: { host: "127.0.0.1", port },
  weight: 50,
  mode: "accept",
  up: true,
  ...more,
});

export const spec = (nodes: NodeSpec[], more: Partial<ListenerSpec> = {}): ListenerSpec => ({
  address: "127.0.0.1",
  port: 0,
  protocol: "http",
  tls: null,
  algorithm: "roundrobin",
  stickiness: "none",
  checkPassive: true,
  balancer: 1,
  connThrottle: 0,
  udpSessThrottle: 0,
  proxyProtocol: "none",
  nodes,
  ...more,
});

/** Applies and insists on an open listener. Resolves with its port. */
export const applyOpen = async (plane: BalancerPlane, wanted: ListenerSpec, key = "config:1"): Promise<number> => {
  const state = await plane.apply(key, wanted);
  if (state.status !== "open") throw new Error(`not open: ${JSON.stringify(state)}`);
  return state.port;
};

/** A raw client. `say` sends; `until` waits until what was heard satisfies; `closed` resolves when the connection is gone. */
export const rawClient = async (port: number) => {
  const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
  closeLater(() => {
    socket.destroy();
  });
  const heard = { text: "", reset: false, ended: false };
  socket.on("error", () => {
    heard.reset = true;
  });
  socket.on("data", (chunk) => {
    heard.text += chunk.toString("latin1");
  });
  socket.on("end", () => {
    heard.ended = true;
  });
  await new Promise<void>((resolve) => socket.once("connect", resolve));
  return { socket, heard, say: (text: string) => socket.write(text, "latin1"), gone: () => heard.ended || heard.reset || socket.destroyed };
};

export const request = (line: string, headers: string[] = [], body = ""): string =>
  `${line} HTTP/1.1\r\nHost: test.example\r\n${headers.map((header) => `${header}\r\n`).join("")}\r\n${body}`;

/** A self-signed pair for `name`. RSA 2048. */
export const makePair = (name: string): { cert: string; key: string } => {
  const keys = forge.pki.rsa.generateKeyPair(2048);
  const certificate = forge.pki.createCertificate();
  certificate.publicKey = keys.publicKey;
  certificate.serialNumber = `0${Math.floor(Math.random() * 1e15).toString(16)}`;
  certificate.validity.notBefore = new Date(Date.now() - 86_400_000);
  certificate.validity.notAfter = new Date(Date.now() + 86_400_000);
  const subject = [
    { name: "countryName", value: "DE" },
    { name: "commonName", value: name },
  ];
  certificate.setSubject(subject);
  certificate.setIssuer(subject);
  certificate.setExtensions([{ name: "subjectAltName", altNames: [{ type: 2, value: name }] }]);
  certificate.sign(keys.privateKey, forge.md.sha256.create());
  return { cert: forge.pki.certificateToPem(certificate), key: forge.pki.privateKeyToPem(keys.privateKey) };
};
