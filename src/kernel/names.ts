import { isIP } from "node:net";
import { parseIpv4 } from "./addresses.js";

/**
 * What stands behind a name (RFC 1035 and, by type, 2782, 3596, 8659). Host names are absolute and without the last dot; "" is the root.
 * One TXT is one text, however many strings of 255 bytes it takes on the wire.
 */
export type RecordData =
  | { type: "A" | "AAAA"; address: string }
  | { type: "NS" | "CNAME" | "PTR"; host: string }
  | { type: "MX"; preference: number; host: string }
  | { type: "TXT"; text: string }
  | { type: "SRV"; priority: number; weight: number; port: number; host: string }
  | { type: "CAA"; critical: boolean; tag: string; value: string };

/** `name` is absolute, without the last dot, in the spelling it was given; `ttl` in seconds. */
export interface ZoneRecord {
  name: string;
  ttl: number;
  data: RecordData;
}

/** RFC 1035 section 3.3.13. Times in seconds. */
export interface Soa {
  /** The zone's first name server. */
  server: string;
  /** Mail address of who is responsible, with its `@`. */
  email: string;
  /** Unsigned, 32 bits. */
  serial: number;
  refresh: number;
  retry: number;
  expire: number;
  /** How long "there is no such name" may be remembered (RFC 2308). */
  minimum: number;
}

/** A zone as the name server is handed it. */
export interface Zone {
  apex: string;
  /** Of the SOA record itself. */
  ttl: number;
  soa: Soa;
  records: readonly ZoneRecord[];
  /** Addresses that may fetch the whole zone (AXFR). */
  transferTo: readonly string[];
}

/** How names are compared: case does not matter (RFC 4343), nor does a last dot. */
export const bareName = (name: string): string => (name.endsWith(".") ? name.slice(0, -1) : name).toLowerCase();

/** Is `name` the apex or below it? Both bare. */
export const isWithin = (name: string, apex: string): boolean => apex === "" || name === apex || name.endsWith(`.${apex}`);

const hostLabel = /^(?!-)[a-z0-9_-]{1,63}(?<!-)$/i;

/** A name made of letters, digits, dashes and underscores (service labels begin with one), with or without a last dot. */
export const isHostName = (name: string): boolean => {
  const bare = name.endsWith(".") ? name.slice(0, -1) : name;
  return bare.length > 0 && bare.length <= 253 && bare.split(".").every((label) => hostLabel.test(label));
};

/** As `isHostName`, and the first label may be `*` (RFC 4592). */
export const isOwnerName = (name: string): boolean => isHostName(name.startsWith("*.") ? name.slice(2) : name) || name === "*";

/** `198.18.0.2` -> `2.0.18.198.in-addr.arpa`; undefined for what is no IPv4 address. */
export const pointerName = (address: string): string | undefined =>
  parseIpv4(address) === undefined ? undefined : `${address.split(".").reverse().join(".")}.in-addr.arpa`;

/** The reverse zone of the /24 that an address lies in. */
export const reverseZone = (address: string): string => `${address.split(".").slice(0, 3).reverse().join(".")}.in-addr.arpa`;

/** Serials are seconds since the epoch, and grow by one when there are several changes a second; so they also grow over a lost state. */
export const nextSerial = (last: number, nowMs: number): number => Math.max(last + 1, Math.floor(nowMs / 1000)) % 2 ** 32;

/**
 * Where a name server is: `192.0.2.1`, `192.0.2.1:5353`, `ns.example.com:5353`, `2001:db8::1` or `[2001:db8::1]:5353`; port 53 unless said.
 * Undefined for anything else.
 */
export const serverPlace = (text: string): { host: string; port: number } | undefined => {
  if (isIP(text) !== 0) return { host: text, port: 53 };
  const match = /^(?:\[([0-9a-f:.]+)\]|([^[\]:]+))(?::(\d{1,5}))?$/i.exec(text);
  const host = match?.[1] ?? match?.[2] ?? "";
  const port = match?.[3] === undefined ? 53 : Number(match[3]);
  const isHost = match?.[1] === undefined ? isIP(host) === 4 || (isHostName(host) && !/^[\d.]+$/.test(host)) : isIP(host) === 6;
  return isHost && port >= 1 && port <= 65_535 ? { host, port } : undefined;
};
