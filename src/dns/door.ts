import { createSocket, type Socket as UdpSocket } from "node:dgram";
import { type AddressInfo, createServer, isIPv6, type Server, type Socket } from "node:net";
import { plainAddress } from "../kernel/addresses.js";
import type { Disposable } from "../kernel/closers.js";

/** One address and port, UDP and TCP. */
export interface Door extends Disposable {
  address: string;
  port: number;
}

/** Called for each packet; `send` may be called any number of times, also later. */
export type OnPacket = (packet: Buffer, from: { address: string; transport: "udp" | "tcp" }, send: (message: Buffer) => void) => void;

/** RFC 7766 section 6.2.3: a client may be quiet this long between two questions. */
const idleMs = 10_000;
const mostConnections = 200;
/** What a connection may have unread by its client before it is cut. */
const mostUnreadBytes = 1_000_000;

const openUdp = (address: string, port: number, onPacket: OnPacket): Promise<UdpSocket> =>
  new Promise((resolve, reject) => {
    const socket = createSocket({ type: isIPv6(address) ? "udp6" : "udp4", recvBufferSize: 1 << 20 });
    socket.on("message", (packet, from) => {
      // A sender may leave its port out (RFC 768), and then nothing can be sent back.
      if (from.port === 0) return;
      onPacket(packet, { address: plainAddress(from.address), transport: "udp" }, (message) => {
        // Who went away meanwhile is no error of ours, and neither is this door when it was closed.
        try {
          socket.send(message, from.port, from.address, () => {});
        } catch (error) {
          if ((error as NodeJS.ErrnoException).code !== "ERR_SOCKET_DGRAM_NOT_RUNNING") throw error;
        }
      });
    });
    socket.once("error", reject);
    socket.bind(port, address, () => {
      socket.removeListener("error", reject);
      socket.on("error", () => {});
      resolve(socket);
    });
  });

/** Frames of two bytes of length and a message (RFC 1035 section 4.2.2); answers leave in the order they are ready (RFC 7766 section 7). */
const serveConnection = (socket: Socket, onPacket: OnPacket): void => {
  const address = plainAddress(socket.remoteAddress);
  let waiting = Buffer.alloc(0);
  socket.setTimeout(idleMs, () => socket.destroy());
  socket.on("error", () => socket.destroy());
  const send = (message: Buffer): void => {
    if (socket.destroyed || !socket.writable) return;
    const head = Buffer.alloc(2);
    head.writeUInt16BE(message.length, 0);
    socket.write(Buffer.concat([head, message]));
    if (socket.writableLength > mostUnreadBytes) socket.destroy();
  };
  socket.on("data", (chunk) => {
    waiting = waiting.length === 0 ? chunk : Buffer.concat([waiting, chunk]);
    while (waiting.length >= 2 && !socket.destroyed) {
      const end = 2 + waiting.readUInt16BE(0);
      if (waiting.length < end) return;
      onPacket(waiting.subarray(2, end), { address, transport: "tcp" }, send);
      waiting = waiting.subarray(end);
    }
  });
};

const openTcp = (address: string, port: number, onPacket: OnPacket): Promise<{ server: Server; sockets: Set<Socket> }> =>
  new Promise((resolve, reject) => {
    const sockets = new Set<Socket>();
    const server = createServer((socket) => {
      sockets.add(socket);
      socket.once("close", () => sockets.delete(socket));
      serveConnection(socket, onPacket);
    });
    server.maxConnections = mostConnections;
    server.once("error", reject);
    server.listen({ host: address, port }, () => {
      server.removeListener("error", reject);
      server.on("error", () => {});
      resolve({ server, sockets });
    });
  });

/** Tries for a port that is free for both. */
const portTries = 10;

/**
 * Opens a door. With port 0 a port is picked that is free for UDP and TCP alike.
 * @throws the system's error (EADDRINUSE, EACCES, EADDRNOTAVAIL)
 */
export const openDoor = async (address: string, port: number, onPacket: OnPacket): Promise<Door> => {
  for (let left = portTries; ; left -= 1) {
    const { server, sockets } = await openTcp(address, port, onPacket);
    const place = server.address() as AddressInfo;
    const closeTcp = (): Promise<void> =>
      new Promise((resolve) => {
        server.close(() => resolve());
        for (const socket of sockets) socket.destroy();
      });
    try {
      const udp = await openUdp(address, place.port, onPacket);
      return {
        address: place.address,
        port: place.port,
        close: async () => {
          await Promise.all([closeTcp(), new Promise<void>((resolve) => udp.close(() => resolve()))]);
        },
      };
    } catch (error) {
      await closeTcp();
      if (port !== 0 || left === 0 || (error as NodeJS.ErrnoException).code !== "EADDRINUSE") throw error;
    }
  }
};
