import { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { dialEndpoint } from "../kernel/relay.js";
import { connectReason } from "./attempt.js";
import type { PlaneEndpoint } from "./plane.js";

const cut = (stream: Duplex): void => {
  if (stream.destroyed) return;
  if (stream instanceof Socket && !("encrypted" in stream)) stream.resetAndDestroy();
  else stream.destroy();
};

/**
 * Joins two connections: bytes with back-pressure both ways, a half-close stays a half-close, a broken side breaks the other. `closed` is
 * called once, when both are gone. When one side has ended, the other may go on as long as it says something every `silentMs`: on the wire a
 * client that left for good looks like one that only finished talking.
 */
export const joinStreams = (client: Duplex, node: Duplex, silentMs: number, closed: () => void): void => {
  let open = 2;
  let watch: NodeJS.Timeout | undefined;
  const watchSilence = (speaker: Duplex) => {
    let before = -1;
    clearInterval(watch);
    watch = setInterval(() => {
      const { bytesRead } = speaker as Socket;
      if (bytesRead === before) {
        cut(client);
        cut(node);
      }
      before = bytesRead;
    }, silentMs);
  };
  const join = (from: Duplex, to: Duplex) => {
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
    from.pipe(to);
  };
  join(client, node);
  join(node, client);
};

/**
 * Connects to a node, within `connectMs`. Resolves with the paused connection, or with the reason in words.
 */
export const reach = (endpoint: PlaneEndpoint, connectMs: number): Promise<Socket | string> =>
  new Promise((resolve) => {
    const socket = dialEndpoint(endpoint, { allowHalfOpen: true, noDelay: true });
    const timer = setTimeout(() => {
      socket.destroy();
      resolve(`did not accept a connection within ${connectMs} ms`);
    }, connectMs);
    socket.once("connect", () => {
      clearTimeout(timer);
      resolve(socket);
    });
    socket.on("error", (error: NodeJS.ErrnoException) => {
      clearTimeout(timer);
      resolve(connectReason(error.code));
    });
  });
