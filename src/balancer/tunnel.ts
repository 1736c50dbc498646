import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { dialEndpoint } from "../kernel/relay.js";
import { connectReason } from "./attempt.js";
import { cut } from "./cut.js";
import { Intake } from "./intake.js";
import { HIGH_WATER_BYTES } from "./limits.js";
import type { PlaneEndpoint } from "./plane.js";

/** One side of a tunnel: a connection, and how what it brings reaches the other side, with back-pressure and its end. */
export interface Side<S extends Duplex = Duplex> {
  stream: S;
  pour(to: Duplex): void;
}

export const sideOf = (stream: Duplex): Side => ({ stream, pour: (to) => void stream.pipe(to) });

/**
 * Joins two connections: bytes with back-pressure both ways, a half-close stays a half-close, a broken side breaks the other. `closed` is
 * called once, when both are gone. When one side has ended, the other may go on as long as it says something every `silentMs`: on the wire a
 * client that left for good looks like one that only finished talking.
 */
export const joinStreams = (client: Side, node: Side, silentMs: number, closed: () => void): void => {
  let open = 2;
  let watch: NodeJS.Timeout | undefined;
  const watchSilence = (speaker: Duplex) => {
    let before = -1;
    clearInterval(watch);
    watch = setInterval(() => {
      const { bytesRead } = speaker as Socket;
      if (bytesRead === before) {
        cut(client.stream);
        cut(node.stream);
      }
      before = bytesRead;
    }, silentMs);
  };
  const join = ({ stream: from, pour }: Side, { stream: to }: Side) => {
    from.allowHalfOpen = true;
    from.on("error", () => cut(to));
    from.once("end", () => watchSilence(to));
    from.once("close", () => {
      // Ended on both sides is a clean close; anything else must not look like one.
      if (from.readableEnded && from.writableFinished) to.end();
      else cut(to);
      open--;
      if (open > 0) return;
      clearInterval(watch);
      closed();
    });
    pour(to);
  };
  join(client, node);
  join(node, client);
};

/**
 * Connects to a node, within `connectMs`. Resolves with the connection, which is not read before it is poured, or with the reason in words.
 */
export const reach = (endpoint: PlaneEndpoint, connectMs: number): Promise<Side<Socket> | string> =>
  new Promise((resolve) => {
    let taker: Duplex | undefined;
    const intake = new Intake((bytes, size) => {
      taker?.write(bytes.subarray(0, size), intake.hold());
      if (taker && taker.writableLength > HIGH_WATER_BYTES) socket.pause();
    });
    const socket = dialEndpoint(endpoint, { allowHalfOpen: true, noDelay: true, onread: intake.onread });
    socket.pause();
    const pour = (to: Duplex) => {
      taker = to;
      to.on("drain", () => socket.resume());
      socket.once("end", () => to.end());
      socket.resume();
    };
    const timer = setTimeout(() => {
      socket.destroy();
      resolve(`did not accept a connection within ${connectMs} ms`);
    }, connectMs);
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve({ stream: socket, pour });
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      resolve(connectReason(error.code));
    });
  });
