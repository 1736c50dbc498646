import { once } from "node:events";
import { createServer, type IncomingMessage, request, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { WebSocket, WebSocketServer } from "ws";

/** Where clients go, and how. */
export interface Door {
  /** `http`, `https` or `tcp`; a tcp listener is spoken to in plain HTTP. */
  protocol: "http" | "https" | "tcp";
  host: string;
  port: number;
}

/** One direction of a stream: what was said and what was heard of it. */
interface Flow {
  said: number;
  heard: number;
  /** Between two messages that were heard one after the other, in real ms. */
  longestGapMs: number;
  lastMs: number;
}

/** A connection through the balancer that stays open, with numbered messages in one or both directions. */
export interface Stream {
  name: string;
  toClient: Flow;
  /** Absent for server-sent events: their clients are silent. */
  toNode?: Flow;
  /** What may not be: a message lost, twice or out of order, an end or an error. */
  problems: string[];
  /** Ends the pauses: each side says one thing more, and then no more. */
  finish(): void;
  /** Resolves when its client is gone. */
  close(): Promise<void>;
}

/** Bytes of the messages of a burst. */
const sizes = [16, 300, 40_000];
/** Longest time a timer can have. */
const endless = 2 ** 31 - 1;

const flow = (): Flow => ({ said: 0, heard: 0, longestGapMs: 0, lastMs: performance.now() });

const message = (each: Flow, size: number): string => `${++each.said} ${"x".repeat(size)}`;

/** Notes a message that came. */
const hear = (stream: Stream, each: Flow, text: string): void => {
  const number = Number.parseInt(text, 10);
  if (number !== each.heard + 1) stream.problems.push(`message ${number} came after ${each.heard}`);
  if (text.length !== `${number} `.length + (sizes[(number - 1) % sizes.length] ?? 0)) stream.problems.push(`message ${number} is not whole`);
  const nowMs = performance.now();
  each.longestGapMs = Math.max(each.longestGapMs, nowMs - each.lastMs);
  each.lastMs = nowMs;
  each.heard = number;
};

/** Says a burst after every pause; the answer says a last one now. `gapMs` may be infinite: then there is that one alone. */
const talk = (each: Flow, gapMs: number, say: (text: string) => void): (() => void) => {
  const burst = (): void => {
    for (const size of sizes) say(message(each, size));
  };
  const timer = setInterval(burst, Math.min(gapMs, endless));
  return () => {
    clearInterval(timer);
    burst();
  };
};

/** The end of a stream's server side that a node holds; found by the stream's number in the target. */
export interface BackEnd {
  /** Answers `/health` with this. */
  healthy: boolean;
  port: number;
  close(): Promise<void>;
}

/** What the servers need to know of the streams, by number. */
export type Register = Map<number, { stream: Stream; gapMs: number; stops: Array<() => void> }>;

const numberOf = (incoming: IncomingMessage): number => Number(new URL(incoming.url ?? "/", "http://node.test").searchParams.get("stream"));

/** A node: ordinary answers, server-sent events and WebSockets. */
export const openBackEnd = async (host: string, port: number, register: Register): Promise<BackEnd> => {
  const sockets = new WebSocketServer({ noServer: true });
  const events = (incoming: IncomingMessage, answer: ServerResponse): void => {
    const entry = register.get(numberOf(incoming));
    if (!entry) return void answer.writeHead(404).end();
    answer.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    answer.flushHeaders();
    answer.on("error", (error) => entry.stream.problems.push(`its node's answer: ${error.message}`));
    entry.stops.push(talk(entry.stream.toClient, entry.gapMs, (text) => answer.write(`data: ${text}\n\n`)));
  };
  const server: Server = createServer((incoming, answer) => {
    const { pathname } = new URL(incoming.url ?? "/", "http://node.test");
    if (pathname === "/events") events(incoming, answer);
    else answer.writeHead(pathname === "/health" && !backEnd.healthy ? 500 : 200).end("here");
  });
  server.on("upgrade", (incoming, socket, head) =>
    sockets.handleUpgrade(incoming, socket, head, (peer) => {
      const entry = register.get(numberOf(incoming));
      if (!entry) return peer.close();
      const { stream, gapMs, stops } = entry;
      peer.on("error", (error) => stream.problems.push(`its node's side: ${error.message}`));
      peer.on("message", (data) => stream.toNode && hear(stream, stream.toNode, data.toString()));
      stops.push(talk(stream.toClient, gapMs, (text) => peer.send(text)));
    }),
  );
  const closed = once(server.listen(port, host), "listening");
  await closed;
  const backEnd: BackEnd = {
    healthy: true,
    port: (server.address() as AddressInfo).port,
    close: async () => {
      for (const peer of sockets.clients) peer.terminate();
      const gone = once(server, "close");
      server.close();
      server.closeAllConnections();
      await gone;
    },
  };
  return backEnd;
};

interface Wanted {
  number: number;
  door: Door;
  /** Pauses of the node, and of the client where it speaks; real ms. */
  gapMs: number;
}

const open = (name: string, { number, gapMs }: Wanted, register: Register, isTwoWay: boolean): { stream: Stream; stops: Array<() => void> } => {
  const stops: Array<() => void> = [];
  const stream: Stream = {
    name,
    toClient: flow(),
    ...(isTwoWay ? { toNode: flow() } : {}),
    problems: [],
    finish: () => {
      for (const stop of stops) stop();
    },
    close: async () => {},
  };
  register.set(number, { stream, gapMs, stops });
  return { stream, stops };
};

/** Resolves when the upgrade is done. */
export const openWebSocket = async (wanted: Wanted & { clientGapMs: number }, register: Register): Promise<Stream> => {
  const { number, door, gapMs, clientGapMs } = wanted;
  const { stream, stops } = open(`WebSocket, ${door.protocol}, ${gapMs / 1000} s / ${clientGapMs / 1000} s`, wanted, register, true);
  const scheme = door.protocol === "https" ? "wss" : "ws";
  const socket = new WebSocket(`${scheme}://${door.host}:${door.port}/socket?stream=${number}`, { rejectUnauthorized: false });
  socket.on("message", (data) => hear(stream, stream.toClient, data.toString()));
  await once(socket, "open");
  const lost = (why: string) => () => stream.problems.push(`${why} after ${stream.toClient.heard} messages`);
  const cut = lost("closed");
  socket.on("close", cut);
  socket.on("error", (error) => stream.problems.push(error.message));
  const { toNode } = stream;
  if (toNode) stops.push(talk(toNode, clientGapMs, (text) => socket.send(text)));
  stream.close = async () => {
    socket.off("close", cut);
    const gone = once(socket, "close");
    socket.close();
    await gone;
  };
  return stream;
};

/** Resolves when the answer's head is there. `careful`: asked in absolute form, which the fast lane hands over. */
export const openEvents = async (wanted: Wanted & { careful: boolean }, register: Register): Promise<Stream> => {
  const { number, door, gapMs, careful } = wanted;
  const lane = door.protocol === "tcp" ? "" : careful ? ", careful lane" : ", fast lane";
  const { stream } = open(`SSE, ${door.protocol}${lane}, ${gapMs / 1000} s`, wanted, register, false);
  const { request: requestTls } = await import("node:https");
  const { host, port } = door;
  const target = `/events?stream=${number}`;
  const path = careful ? `http://${host}:${port}${target}` : target;
  const outgoing = (door.protocol === "https" ? requestTls : request)({ host, port, path, agent: false, rejectUnauthorized: false });
  outgoing.end();
  const [incoming] = (await once(outgoing, "response")) as [IncomingMessage];
  if (incoming.statusCode !== 200) throw new Error(`${stream.name} was answered ${incoming.statusCode}`);
  let held = "";
  incoming.setEncoding("latin1").on("data", (text: string) => {
    const parts = (held + text).split("\n\n");
    held = parts.pop() ?? "";
    for (const part of parts) hear(stream, stream.toClient, part.slice("data: ".length));
  });
  const cut = () => stream.problems.push(`ended after ${stream.toClient.heard} messages`);
  const failed = (error: Error) => stream.problems.push(error.message);
  incoming.on("error", failed).on("close", cut);
  outgoing.on("error", failed);
  stream.close = async () => {
    incoming.off("close", cut).off("error", failed);
    outgoing.off("error", failed).on("error", () => {});
    const gone = new Promise((resolve) => incoming.on("error", () => {}).once("close", resolve));
    outgoing.destroy();
    await gone;
  };
  return stream;
};
