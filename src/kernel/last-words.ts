import type { Duplex } from "node:stream";

/** How long the last words of a connection may take to be read, in ms. */
const lingerMs = 1_000;

/** Writes the last bytes of a connection (latin1) and reads on for a moment, so that a reset does not overtake them. Then it is over, whatever the other end does. */
export const sayLast = (socket: Duplex, text: string): void => {
  if (!socket.writable) {
    socket.destroy();
    return;
  }
  const timer = setTimeout(() => socket.destroy(), lingerMs);
  socket.once("close", () => clearTimeout(timer));
  socket.once("end", () => socket.destroy());
  socket.resume();
  socket.end(text, "latin1");
};
