import { answerOf } from "./answer.js";
import { bareAnswer, isInternet, type Query, rcodes, readQuery, type Sections, typeNumbers, udpRoom, writeAnswer, writeTransfer } from "./wire.js";
import { transferOf, type Zones } from "./zone.js";

/** Who asks, and how. */
export interface Asker {
  /** IPv4 as such, not mapped into IPv6. */
  address: string;
  transport: "udp" | "tcp";
  /** Names beyond our zones are looked up for it. */
  recursion: boolean;
}

/** Messages to send back, a query to pass on, or nothing. */
export type Reaction = { messages: readonly Buffer[] } | { forward: Query } | undefined;

const largestMessageBytes = 65_535;

const code = (rcode: number): Sections => ({ rcode, authoritative: false, answers: [], authorities: [], additionals: [] });

/** A message without records, for a query that was passed on in vain (SERVFAIL) or must not be (REFUSED). */
export const refusalOf = (query: Query, asker: Asker, rcode: number): Buffer => writeAnswer(query, code(rcode), largestMessageBytes, asker.recursion);

const isTransfer = (type: number): boolean => type === typeNumbers.AXFR || type === typeNumbers.IXFR;

/** RFC 5936; IXFR may be answered with the whole zone (RFC 1995 section 4). Only over TCP, only to whom the domain names. */
const transferMessages = (zones: Zones, query: Query, asker: Asker): Buffer[] => {
  const zone = zones.get(query.name);
  const isAllowed = asker.transport === "tcp" && zone?.transferTo.includes(asker.address);
  return zone && isAllowed ? writeTransfer(query, transferOf(zone)) : [refusalOf(query, asker, rcodes.refused)];
};

/** What one packet is answered. Pure; throws for nothing that may come over a network. */
export const reactionTo = (zones: Zones, packet: Buffer, asker: Asker): Reaction => {
  const received = readQuery(packet);
  if (received === undefined) return undefined;
  if (!("query" in received)) return { messages: [bareAnswer(received)] };
  const { query } = received;
  const room = asker.transport === "udp" ? udpRoom(query) : largestMessageBytes;
  const say = (sections: Sections): Reaction => {
    const message = writeAnswer(query, sections, room, asker.recursion);
    return { messages: [message] };
  };
  if (query.edns && query.edns.version > 0) return say(code(rcodes.badVers));
  if (!isInternet(query)) return say(code(rcodes.refused));
  if (isTransfer(query.type)) return { messages: transferMessages(zones, query, asker) };
  const sections = answerOf(zones, query.name, query.type);
  if (sections) return say(sections);
  return asker.recursion && query.recursionDesired ? { forward: query } : say(code(rcodes.refused));
};
