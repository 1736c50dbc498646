import { randomInt } from "node:crypto";
import { createSocket } from "node:dgram";
import { connect, isIPv6 } from "node:net";
import type { Disposable } from "../kernel/closers.js";

export interface Upstream {
  /** IP address. */
  host: string;
  port: number;
}

export interface Forwarder extends Disposable {
  /** The first upstream's answer with the asker's id; undefined when none gave one. */
  ask(packet: Buffer, question: Buffer, transport: "udp" | "tcp"): Promise<Buffer | undefined>;
}

/** How long one upstream may take. */
const patienceMs = 2_000;
/** More at once are not asked; a guest that floods must not take our descriptors. */
const mostAtOnce = 256;

/** RFC 5452 section 9.1: the answer belongs to the question that was asked, bit by bit but for its case. */
const answers = (packet: Buffer, id: number, question: Buffer): boolean =>
  packet.length >= 12 + question.length &&
  packet.readUInt16BE(0) === id &&
  (packet.readUInt8(2) & 0x80) !== 0 &&
  packet.toString("latin1", 12, 12 + question.length).toLowerCase() === question.toString("latin1").toLowerCase();

/** A socket of its own for each question: a random port is half of what keeps strangers from answering it. */
const askUdp = (upstream: Upstream, packet: Buffer, id: number, question: Buffer, signal: AbortSignal): Promise<Buffer | undefined> =>
  new Promise((resolve) => {
    const socket = createSocket(isIPv6(upstream.host) ? "udp6" : "udp4");
    let isOver = false;
    const end = (answer?: Buffer): void => {
      if (isOver) return;
      isOver = true;
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      socket.removeAllListeners().on("error", () => {});
      socket.close();
      resolve(answer);
    };
    const onAbort = (): void => end();
    const timer = setTimeout(end, patienceMs);
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on("error", () => end());
    socket.on("message", (answer) => {
      if (answers(answer, id, question)) end(answer);
    });
    // Connected: only this upstream is heard, and "nobody listens there" comes back at once. With a callback it would be that which is told of
    // a failure (no way there: this machine is offline); without one it is an error like any other.
    socket.once("connect", () => socket.send(packet, (error) => error && end()));
    socket.connect(upstream.port, upstream.host);
  });

const askTcp = (upstream: Upstream, packet: Buffer, id: number, question: Buffer, signal: AbortSignal): Promise<Buffer | undefined> =>
  new Promise((resolve) => {
    const socket = connect(upstream.port, upstream.host);
    let bytes = Buffer.alloc(0);
    const end = (answer?: Buffer): void => {
      clearTimeout(timer);
      signal.removeEventListener("abort", onAbort);
      socket.destroy();
      resolve(answer);
    };
    const onAbort = (): void => end();
    const timer = setTimeout(end, patienceMs);
    signal.addEventListener("abort", onAbort, { once: true });
    socket.on("error", () => end());
    socket.on("close", () => end());
    socket.on("connect", () => {
      const head = Buffer.alloc(2);
      head.writeUInt16BE(packet.length, 0);
      socket.write(Buffer.concat([head, packet]));
    });
    socket.on("data", (chunk) => {
      bytes = Buffer.concat([bytes, chunk]);
      const length = bytes.length >= 2 ? bytes.readUInt16BE(0) : Number.POSITIVE_INFINITY;
      if (bytes.length < length + 2) return;
      const answer = bytes.subarray(2, length + 2);
      end(answers(answer, id, question) ? answer : undefined);
    });
  });

/** Passes queries on to other resolvers, one after the other. @param upstreams asked for each query anew: a laptop changes its network */
export const openForwarder = (upstreams: () => readonly Upstream[]): Forwarder => {
  const asking = new Set<AbortController>();
  return {
    ask: async (packet, question, transport) => {
      if (asking.size >= mostAtOnce) return undefined;
      const stop = new AbortController();
      asking.add(stop);
      try {
        for (const upstream of upstreams()) {
          if (stop.signal.aborted) return undefined;
          const id = randomInt(65_536);
          const mine = Buffer.from(packet);
          mine.writeUInt16BE(id, 0);
          const answer = await (transport === "udp" ? askUdp : askTcp)(upstream, mine, id, question, stop.signal);
          if (!answer) continue;
          const theirs = Buffer.from(answer);
          theirs.writeUInt16BE(packet.readUInt16BE(0), 0);
          return theirs;
        }
        return undefined;
      } finally {
        asking.delete(stop);
      }
    },
    close: async () => {
      for (const stop of asking) stop.abort();
    },
  };
};
