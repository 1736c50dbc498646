import { createRequire } from "node:module";
import type { RecordData, Soa } from "../kernel/names.js";

/** Codecs of dns-packet that its types leave out (`index.js`, `exports.name`, `exports.record`). */
interface Codec<T> {
  encode: { (value: T): Buffer; bytes: number };
}
const codecs = createRequire(import.meta.url)("dns-packet") as { name: Codec<string>; record(type: string): Codec<unknown> };

/** The room it makes is an upper bound where something is escaped. */
const encoded = <T>(codec: Codec<T>, value: T): Buffer => {
  const bytes = codec.encode(value);
  return bytes.subarray(0, codec.encode.bytes);
};

/** The root is "" to us and "." to the codec. */
const dotted = (name: string): string => (name === "" ? "." : name);

/** RFC 1035 3.2.2 and 3.2.3, RFC 3596, 2782, 8659, 6891, 1995. */
export const typeNumbers = {
  A: 1,
  NS: 2,
  CNAME: 5,
  SOA: 6,
  PTR: 12,
  MX: 15,
  TXT: 16,
  AAAA: 28,
  SRV: 33,
  OPT: 41,
  IXFR: 251,
  AXFR: 252,
  ANY: 255,
  CAA: 257,
};
const classIn = 1;
const classAny = 255;

export const rcodes = { noError: 0, formErr: 1, servFail: 2, nxDomain: 3, notImp: 4, refused: 5, badVers: 16 };

/** One record without its owner: what follows the name on the wire (type, class, TTL, data), ready to be sent. */
export interface Encoded {
  /** Bare name of the owner; its case is the zone's. */
  owner: string;
  type: number;
  tail: Buffer;
  /** Bare name of the host it points at, whose addresses a client asks for next. */
  target: string | undefined;
}

const longestString = 255;

/** A text as the strings of at most 255 bytes that a TXT record is made of (RFC 1035 3.3.14). */
const strings = (text: string): Buffer[] => {
  const bytes = Buffer.from(text, "latin1");
  const pieces = Array.from({ length: Math.max(1, Math.ceil(bytes.length / longestString)) }, (_, at) =>
    bytes.subarray(at * longestString, (at + 1) * longestString),
  );
  return pieces;
};

/** dns-packet splits a mail name at every dot it is not told of. RFC 1035 section 8: the first label is all before the `@`. */
const mailName = (email: string): string => {
  const at = email.lastIndexOf("@");
  return at < 0 ? email : `${email.slice(0, at).replaceAll(".", "\\.")}.${email.slice(at + 1)}`;
};

const rdata = (data: RecordData): Buffer => {
  const encode = (value: unknown): Buffer => encoded(codecs.record(data.type), value);
  switch (data.type) {
    case "A":
    case "AAAA":
      return encode(data.address);
    case "NS":
    case "CNAME":
    case "PTR":
      return encode(dotted(data.host));
    case "MX":
      return encode({ preference: data.preference, exchange: dotted(data.host) });
    case "TXT":
      return encode(strings(data.text));
    case "SRV":
      return encode({ priority: data.priority, weight: data.weight, port: data.port, target: dotted(data.host) });
    case "CAA":
      return encode({ flags: data.critical ? 128 : 0, tag: data.tag, value: data.value });
  }
};

const tailOf = (type: number, ttl: number, data: Buffer): Buffer => {
  const head = Buffer.alloc(8);
  head.writeUInt16BE(type, 0);
  head.writeUInt16BE(classIn, 2);
  head.writeUInt32BE(ttl, 4);
  return Buffer.concat([head, data]);
};

/** The largest record data there is room for, in bytes, in a message of 65,535 with a question and an owner of the greatest length. */
const largestData = 65_535 - 12 - 2 * 255 - 4 - 8 - 11;

/** Undefined where the codec finds no room: text that another server sent may have grown in reading. */
const fittingData = (data: RecordData): Buffer | undefined => {
  try {
    const bytes = rdata(data);
    return bytes.length > largestData ? undefined : bytes;
  } catch (error) {
    if (error instanceof RangeError) return undefined;
    throw error;
  }
};

/** Undefined when it does not fit into any message. */
export const encodeRecord = (owner: string, ttl: number, data: RecordData): Encoded | undefined => {
  const type = typeNumbers[data.type];
  const bytes = fittingData(data);
  if (bytes === undefined) return undefined;
  const target = data.type === "MX" || data.type === "NS" || data.type === "SRV" || data.type === "CNAME" ? data.host : undefined;
  return { owner, type, tail: tailOf(type, ttl, bytes), target: target?.replace(/\.$/, "").toLowerCase() };
};

/** @param ttl seconds; for a negative answer the smaller of the record's own and `minimum` (RFC 2308 section 5) */
export const encodeSoa = (apex: string, ttl: number, soa: Soa): Encoded => {
  const { server, email, serial, refresh, retry, expire, minimum } = soa;
  const data = encoded(codecs.record("SOA"), { mname: server, rname: mailName(email), serial, refresh, retry, expire, minimum });
  return { owner: apex, type: typeNumbers.SOA, tail: tailOf(typeNumbers.SOA, ttl, data), target: undefined };
};

export interface Query {
  id: number;
  /** The bytes of the question, sent back as they came: clients check the case of every letter. */
  question: Buffer;
  /** Bare. */
  name: string;
  /** Length of the name on the wire, in bytes. */
  nameBytes: number;
  type: number;
  class: number;
  recursionDesired: boolean;
  checkingDisabled: boolean;
  /** Undefined without EDNS (RFC 6891). */
  edns: { payloadBytes: number; version: number; dnssecOk: boolean } | undefined;
}

/** What a packet is: a query, one that is answered with a code alone, or nothing that may be answered at all. */
export type Received = { query: Query } | { id: number; opcode: number; recursionDesired: boolean; rcode: number } | undefined;

const headerBytes = 12;

const labelText = (bytes: Buffer): string =>
  bytes.toString("latin1").replace(/[^!-~]|[.\\]/g, (character) => `\\${String(character.charCodeAt(0)).padStart(3, "0")}`);

/**
 * A name written out, as a question's always is; a label's odd bytes are escaped (RFC 4343 section 2.1), so that they match no name of a zone.
 * @throws RangeError for a pointer, a label or a name that is too long, or an end that comes too early
 */
const readName = (packet: Buffer, start: number): { name: string; bytes: number } => {
  const labels: string[] = [];
  let offset = start;
  for (;;) {
    const length = packet.readUInt8(offset);
    offset += 1;
    if (length === 0) break;
    if (length > 63 || offset + length > packet.length || offset + length - start > 254) throw new RangeError("malformed name");
    labels.push(labelText(packet.subarray(offset, offset + length)));
    offset += length;
  }
  return { name: labels.join(".").toLowerCase(), bytes: offset - start };
};

/** Passes over a name that may end in a pointer; the offset behind it. */
const skipName = (packet: Buffer, start: number): number => {
  let offset = start;
  for (;;) {
    const length = packet.readUInt8(offset);
    if (length === 0) return offset + 1;
    if (length >= 0xc0) return offset + 2;
    if (length > 63) throw new RangeError("malformed name");
    offset += length + 1;
  }
};

/** @throws RangeError when the bytes end too early or a name is malformed */
const readEdns = (packet: Buffer, start: number, counts: number[]): { edns: Query["edns"]; count: number } => {
  let offset = start;
  let edns: Query["edns"];
  let count = 0;
  const records = counts.reduce((sum, each) => sum + each, 0);
  for (let at = 0; at < records; at += 1) {
    offset = skipName(packet, offset);
    const type = packet.readUInt16BE(offset);
    if (type === typeNumbers.OPT) {
      count += 1;
      edns = { payloadBytes: packet.readUInt16BE(offset + 2), version: packet.readUInt8(offset + 5), dnssecOk: packet.readUInt8(offset + 6) >= 0x80 };
    }
    offset += 10 + packet.readUInt16BE(offset + 8);
    if (offset > packet.length) throw new RangeError("a record ends beyond the packet");
  }
  return { edns, count };
};

/** Never throws. Answers to us, and what is too short to have an id, are nothing to answer: two servers must not keep each other busy. */
export const readQuery = (packet: Buffer): Received => {
  if (packet.length < headerBytes) return undefined;
  const id = packet.readUInt16BE(0);
  const flags = packet.readUInt16BE(2);
  if (flags & 0x8000) return undefined;
  const opcode = (flags >> 11) & 0xf;
  const recursionDesired = (flags & 0x0100) !== 0;
  const only = (rcode: number): Received => ({ id, opcode, recursionDesired, rcode });
  if (opcode !== 0) return only(rcodes.notImp);
  if (packet.readUInt16BE(4) !== 1) return only(rcodes.formErr);
  try {
    const { name, bytes: nameBytes } = readName(packet, headerBytes);
    const end = headerBytes + nameBytes + 4;
    const type = packet.readUInt16BE(end - 4);
    const counts = [packet.readUInt16BE(6), packet.readUInt16BE(8), packet.readUInt16BE(10)];
    const { edns, count } = readEdns(packet, end, counts);
    if (count > 1) return only(rcodes.formErr);
    return {
      query: {
        id,
        question: packet.subarray(headerBytes, end),
        name,
        nameBytes,
        type,
        class: packet.readUInt16BE(end - 2),
        recursionDesired,
        checkingDisabled: (flags & 0x0010) !== 0,
        edns,
      },
    };
  } catch {
    return only(rcodes.formErr);
  }
};

export const isInternet = (query: Query): boolean => query.class === classIn || query.class === classAny;

/** A header alone, for what could not be read as a question. */
export const bareAnswer = (received: { id: number; opcode: number; recursionDesired: boolean; rcode: number }): Buffer => {
  const bytes = Buffer.alloc(headerBytes);
  bytes.writeUInt16BE(received.id, 0);
  bytes.writeUInt16BE(0x8000 | (received.opcode << 11) | (received.recursionDesired ? 0x0100 : 0) | (received.rcode & 0xf), 2);
  return bytes;
};

export interface Sections {
  rcode: number;
  authoritative: boolean;
  answers: readonly Encoded[];
  authorities: readonly Encoded[];
  additionals: readonly Encoded[];
}

/** What we say we take over UDP ourselves, and never exceed (DNS flag day 2020). */
const largestUdpBytes = 1232;
const plainUdpBytes = 512;

/** How much a client takes over UDP. */
export const udpRoom = (query: Query): number =>
  query.edns ? Math.min(largestUdpBytes, Math.max(plainUdpBytes, query.edns.payloadBytes)) : plainUdpBytes;

const optRecord = (rcode: number, dnssecOk: boolean): Buffer => {
  const bytes = Buffer.alloc(11);
  bytes.writeUInt16BE(typeNumbers.OPT, 1);
  bytes.writeUInt16BE(largestUdpBytes, 3);
  bytes.writeUInt8(rcode >> 4, 5);
  if (dnssecOk) bytes.writeUInt8(0x80, 7);
  return bytes;
};

/** The owner as a pointer into the question where the question ends with it, else written out. */
const ownerBytes = (owner: string, { name, nameBytes }: Query): Buffer => {
  const isEnd = owner !== "" && nameBytes === name.length + 2 && name.endsWith(`.${owner}`);
  if (owner !== name && !isEnd) return encoded(codecs.name, dotted(owner));
  const pointer = Buffer.alloc(2);
  pointer.writeUInt16BE(0xc000 | (headerBytes + (owner === name ? 0 : name.length - owner.length)), 0);
  return pointer;
};

/** A whole message for one client. `room` in bytes: what does not fit is left out and the client told to come back over TCP (RFC 2181 section 9). */
export const writeAnswer = (query: Query, sections: Sections, room: number, recursionAvailable: boolean): Buffer => {
  const opt = query.edns ? [optRecord(sections.rcode, query.edns.dnssecOk)] : [];
  const compose = (lists: ReadonlyArray<readonly Encoded[]>, truncated: boolean): Buffer => {
    const head = Buffer.alloc(headerBytes);
    const flags =
      0x8000 |
      (sections.authoritative ? 0x0400 : 0) |
      (truncated ? 0x0200 : 0) |
      (query.recursionDesired ? 0x0100 : 0) |
      (recursionAvailable ? 0x0080 : 0) |
      (query.checkingDisabled ? 0x0010 : 0) |
      (sections.rcode & 0xf);
    head.writeUInt16BE(query.id, 0);
    head.writeUInt16BE(flags, 2);
    head.writeUInt16BE(1, 4);
    lists.forEach((list, at) => {
      head.writeUInt16BE(list.length + (at === 2 ? opt.length : 0), 6 + 2 * at);
    });
    const records = lists.flatMap((list) => list.flatMap(({ owner, tail }) => [ownerBytes(owner, query), tail]));
    return Buffer.concat([head, query.question, ...records, ...opt]);
  };
  const whole = compose([sections.answers, sections.authorities, sections.additionals], false);
  if (whole.length <= room) return whole;
  // Addresses beside an answer are a courtesy; those of a referral are needed to follow it.
  if (sections.answers.length > 0) {
    const withoutExtras = compose([sections.answers, sections.authorities, []], false);
    if (withoutExtras.length <= room) return withoutExtras;
  }
  return compose([[], [], []], true);
};

/** Messages of a zone transfer (RFC 5936): every record with its owner written out, as many a message as fit into 16 KiB. */
export const writeTransfer = (query: Query, records: readonly Encoded[]): Buffer[] => {
  const messages: Buffer[] = [];
  let pieces: Buffer[] = [];
  let bytes = 0;
  let count = 0;
  const flush = (): void => {
    const head = Buffer.alloc(headerBytes);
    head.writeUInt16BE(query.id, 0);
    head.writeUInt16BE(0x8400, 2);
    head.writeUInt16BE(messages.length === 0 ? 1 : 0, 4);
    head.writeUInt16BE(count, 6);
    messages.push(Buffer.concat([head, ...(messages.length === 0 ? [query.question] : []), ...pieces]));
    pieces = [];
    bytes = 0;
    count = 0;
  };
  for (const { owner, tail } of records) {
    const name = encoded(codecs.name, dotted(owner));
    if (count > 0 && bytes + name.length + tail.length > 16_384) flush();
    pieces.push(name, tail);
    bytes += name.length + tail.length;
    count += 1;
  }
  if (count > 0) flush();
  return messages;
};
