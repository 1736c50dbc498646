import { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** How long the bytes before a cut may take to be read. */
const LAST_MS = 10_000;

/** Node never closes a handle that is reset while its shutdown is under way (`EINVAL`, and the descriptor stays). */
export const reset = (socket: Socket): void => {
  if (socket.writableEnded && !socket.writableFinished) socket.destroy();
  else socket.resetAndDestroy();
};

const isPlain = (stream: Duplex): stream is Socket => stream instanceof Socket && !("encrypted" in stream);

/** For a client that takes nothing: what the system still has for it is dropped, megabytes it may be, and it cannot take what it was sent for a whole answer. */
export const giveUp = (stream: Duplex): void => {
  if (isPlain(stream)) reset(stream);
  else stream.destroy();
};

/** What was written is sent; then the other end sees a broken connection, not the end of one. */
export const cut = (stream: Duplex): void => {
  if (stream.destroyed) return;
  if (!isPlain(stream)) {
    stream.destroy();
    return;
  }
  if (stream.writableFinished || (stream.writableLength === 0 && !stream.writableEnded)) {
    reset(stream);
    return;
  }
  const timer = setTimeout(() => reset(stream), LAST_MS);
  const written = () => {
    clearTimeout(timer);
    if (!stream.destroyed) reset(stream);
  };
  if (stream.writableEnded) stream.once("finish", written).once("close", written);
  else stream.write("", written);
};
