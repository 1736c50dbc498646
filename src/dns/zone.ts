import { bareName, isWithin, type Zone } from "../kernel/names.js";
import { type Encoded, encodeRecord, encodeSoa, typeNumbers } from "./wire.js";

/** Records of one name, by type number. A name that only has names below it has none (RFC 4592 section 2.2.2). */
export type ZoneNode = ReadonlyMap<number, readonly Encoded[]>;

/** A zone made ready for answering: every record is in its wire form already. */
export interface ReadyZone {
  apex: string;
  /** By bare name, the names in between included. */
  nodes: ReadonlyMap<string, ZoneNode>;
  soa: Encoded;
  /** The SOA of negative answers. */
  negative: Encoded;
  transferTo: readonly string[];
  /** Has name servers below its apex, so that answers may be referrals. */
  delegates: boolean;
}

/** The zones this server answers for, by bare apex; null: it is in charge of one that it has no content for. */
export interface Zones {
  get(apex: string): ReadyZone | null | undefined;
}

const parentOf = (name: string): string => name.slice(name.indexOf(".") + 1);

/** Names between a name and the apex exist too, even when nothing stands at them. */
const addNode = (nodes: Map<string, Map<number, Encoded[]>>, name: string, apex: string): Map<number, Encoded[]> => {
  const known = nodes.get(name);
  if (known) return known;
  const made = new Map<number, Encoded[]>();
  nodes.set(name, made);
  if (name !== apex) addNode(nodes, parentOf(name), apex);
  return made;
};

/** RFC 2181 section 5: a set has no record twice, and one TTL: the smallest. */
const cleanSet = (set: readonly Encoded[]): Encoded[] => {
  const different = new Map(set.map((record) => [record.tail.toString("latin1", 8), record]));
  const ttl = set.reduce((least, { tail }) => Math.min(least, tail.readUInt32BE(4)), 2 ** 32 - 1);
  for (const { tail } of different.values()) tail.writeUInt32BE(ttl, 4);
  return [...different.values()];
};

/** Records outside the zone, or that no message has room for, are left out. */
export const readyZone = (zone: Zone): ReadyZone => {
  const apex = bareName(zone.apex);
  const nodes = new Map<string, Map<number, Encoded[]>>();
  const soa = encodeSoa(apex, zone.ttl, zone.soa);
  addNode(nodes, apex, apex).set(typeNumbers.SOA, [soa]);
  let delegates = false;
  for (const { name, ttl, data } of zone.records) {
    const owner = bareName(name);
    const record = isWithin(owner, apex) ? encodeRecord(owner, ttl, data) : undefined;
    if (!record) continue;
    const node = addNode(nodes, owner, apex);
    const set = node.get(record.type);
    if (set) set.push(record);
    else node.set(record.type, [record]);
    delegates ||= record.type === typeNumbers.NS && owner !== apex;
  }
  for (const node of nodes.values()) for (const [type, set] of node) if (set.length > 1) node.set(type, cleanSet(set));
  return {
    apex,
    nodes,
    soa,
    negative: encodeSoa(apex, Math.min(zone.ttl, zone.soa.minimum), zone.soa),
    transferTo: zone.transferTo,
    delegates,
  };
};

/** The zone with the longest apex that a name is in. */
export const zoneOf = (zones: Zones, name: string): ReadyZone | null | undefined => {
  for (let suffix = name; ; suffix = parentOf(suffix)) {
    const zone = zones.get(suffix);
    if (zone !== undefined) return zone;
    if (!suffix.includes(".")) return zones.get("");
  }
};

/** The topmost name below the apex, on the way to `name`, whose name servers are others (RFC 1034 section 4.3.2 step 3b). */
export const delegationOf = (zone: ReadyZone, name: string): { name: string; servers: readonly Encoded[] } | undefined => {
  if (!zone.delegates) return undefined;
  let found: { name: string; servers: readonly Encoded[] } | undefined;
  for (let at = name; at !== zone.apex; at = parentOf(at)) {
    const servers = zone.nodes.get(at)?.get(typeNumbers.NS);
    if (servers) found = { name: at, servers };
  }
  return found;
};

/** What answers for a name: its own records, or those of the wildcard beside its closest existing ancestor (RFC 4592 section 3.3.1). */
export const nodeOf = (zone: ReadyZone, name: string): ZoneNode | undefined => {
  const own = zone.nodes.get(name);
  if (own) return own;
  for (let at = parentOf(name); ; at = parentOf(at)) if (zone.nodes.has(at)) return zone.nodes.get(at === "" ? "*" : `*.${at}`);
};

/** All records, as a transfer sends them: the SOA first and last (RFC 5936 section 2.2). */
export const transferOf = (zone: ReadyZone): Encoded[] => {
  const others = [...zone.nodes.values()].flatMap((node) => [...node].flatMap(([type, set]) => (type === typeNumbers.SOA ? [] : set)));
  return [zone.soa, ...others, zone.soa];
};
