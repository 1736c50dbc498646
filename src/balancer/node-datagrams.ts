import { createSocket, type SocketType } from "node:dgram";
import { isIPv6 } from "node:net";
import { RelayedSocket, type Via } from "../kernel/relay.js";
import type { PlaneEndpoint } from "./plane.js";

/** Datagrams to one node, from a port of their own, and the node's answers. */
export interface NodeDatagrams {
  /** `failed` is called when it certainly did not leave. */
  send(bytes: Buffer, failed: () => void): void;
  close(): void;
}

export const familyOf = (address: string): SocketType => (isIPv6(address) ? "udp6" : "udp4");

const dialled = ({ host, port }: PlaneEndpoint, heard: (bytes: Buffer) => void): NodeDatagrams => {
  const socket = createSocket(familyOf(host));
  socket.on("error", () => undefined);
  socket.on("message", (bytes, from) => {
    // Anybody may send to that port; only the node is passed on.
    if (from.port === port && from.address === host) heard(bytes);
  });
  return { send: (bytes, failed) => socket.send(bytes, port, host, (error) => error && failed()), close: () => socket.close() };
};

/** More waits for no relay: datagrams may be lost, memory may not grow. */
const mostUnsent = 262_144;

/** Behind the relay's answer each datagram travels as two bytes of length and itself (docker/relay/backlot-relay.py). */
const relayed = (endpoint: PlaneEndpoint, via: Via, heard: (bytes: Buffer) => void, gone: () => void): NodeDatagrams => {
  const socket = new RelayedSocket("udp", endpoint, via, { noDelay: true });
  let rest: Buffer = Buffer.alloc(0);
  socket.on("error", () => undefined);
  socket.once("close", gone);
  socket.on("data", (chunk: Buffer) => {
    rest = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
    while (rest.length >= 2) {
      const end = 2 + rest.readUInt16BE(0);
      if (rest.length < end) break;
      heard(rest.subarray(2, end));
      rest = rest.subarray(end);
    }
  });
  return {
    send: (bytes, failed) => {
      if (socket.destroyed || socket.writableLength > mostUnsent) return failed();
      const head = Buffer.alloc(2);
      head.writeUInt16BE(bytes.length);
      socket.write(Buffer.concat([head, bytes]));
    },
    close: () => socket.destroy(),
  };
};

/** @param gone called when no datagram leaves here any more, for want of a relay: another try needs another one */
export const openDatagrams = (endpoint: PlaneEndpoint, heard: (bytes: Buffer) => void, gone: () => void): NodeDatagrams =>
  endpoint.via === undefined ? dialled(endpoint, heard) : relayed(endpoint, endpoint.via, heard, gone);
