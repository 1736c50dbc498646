import { isIPv4, isIPv6 } from "node:net";

/** A client's connection as it arrived here. */
export interface Route {
  sourceAddress: string;
  sourcePort: number;
  destinationAddress: string;
  destinationPort: number;
}

const SIGNATURE = Buffer.from("0d0a0d0a000d0a515549540a", "hex");
const PROXY_COMMAND = 0x21;
const STREAM_OVER_IPV4 = 0x11;
const STREAM_OVER_IPV6 = 0x21;

const ipv4Bytes = (address: string): number[] => address.split(".").map(Number);

/** The 16 bytes of an IPv6 address, zone left out. */
const ipv6Bytes = (address: string): number[] => {
  const [bare = ""] = address.split("%");
  const [head = "", tail] = bare.split("::");
  const words = (text: string): number[] =>
    text === ""
      ? []
      : text.split(":").flatMap((word) => {
          if (!word.includes(".")) return [Number.parseInt(word, 16)];
          const [a = 0, b = 0, c = 0, d = 0] = ipv4Bytes(word);
          return [a * 256 + b, c * 256 + d];
        });
  const before = words(head);
  const after = tail === undefined ? [] : words(tail);
  const gap = new Array<number>(8 - before.length - after.length).fill(0);
  return [...before, ...gap, ...after].flatMap((word) => [word >> 8, word & 255]);
};

const isOver = (test: (address: string) => boolean, route: Route): boolean => test(route.sourceAddress) && test(route.destinationAddress);

const version1 = (route: Route): Buffer => {
  const family = isOver(isIPv4, route) ? "TCP4" : isOver(isIPv6, route) ? "TCP6" : undefined;
  if (!family) return Buffer.from("PROXY UNKNOWN\r\n");
  const { sourceAddress, destinationAddress, sourcePort, destinationPort } = route;
  return Buffer.from(`PROXY ${family} ${sourceAddress} ${destinationAddress} ${sourcePort} ${destinationPort}\r\n`);
};

const version2 = (route: Route): Buffer => {
  const bytes = isOver(isIPv4, route) ? ipv4Bytes : isOver(isIPv6, route) ? ipv6Bytes : undefined;
  // LOCAL, unspecified: the node is to take the connection for what it is.
  if (!bytes) return Buffer.concat([SIGNATURE, Buffer.from([0x20, 0, 0, 0])]);
  const addresses = Buffer.from([...bytes(route.sourceAddress), ...bytes(route.destinationAddress), 0, 0, 0, 0]);
  addresses.writeUInt16BE(route.sourcePort, addresses.length - 4);
  addresses.writeUInt16BE(route.destinationPort, addresses.length - 2);
  const family = bytes === ipv4Bytes ? STREAM_OVER_IPV4 : STREAM_OVER_IPV6;
  return Buffer.concat([SIGNATURE, Buffer.from([PROXY_COMMAND, family, 0, addresses.length]), addresses]);
};

/** What a node is sent before the client's first byte: the PROXY protocol's header, versions 1 (text) and 2 (binary), sections 2.1 and 2.2 of its specification. */
export const proxyHeader = (version: "v1" | "v2", route: Route): Buffer => (version === "v1" ? version1(route) : version2(route));
