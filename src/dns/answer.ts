import { isWithin } from "../kernel/names.js";
import { type Encoded, rcodes, type Sections, typeNumbers } from "./wire.js";
import { delegationOf, nodeOf, type ReadyZone, type ZoneNode, type Zones, zoneOf } from "./zone.js";

/** Longer chains are a loop, or as good as one. */
const longestChain = 10;

const named = (records: readonly Encoded[], owner: string): Encoded[] => records.map((record) => ({ ...record, owner }));

/** The addresses of the hosts that records point at, as far as they stand in our zones (RFC 1034 section 4.3.2 step 6). */
const addressesBeside = (zones: Zones, records: readonly Encoded[], glueIn: ReadyZone | undefined): Encoded[] => {
  const hosts = new Set(records.flatMap(({ target }) => (target === undefined || target === "" ? [] : [target])));
  return [...hosts].flatMap((host) => {
    const zone = glueIn && isWithin(host, glueIn.apex) ? glueIn : zoneOf(zones, host);
    if (!zone || (!glueIn && delegationOf(zone, host))) return [];
    const node = glueIn === zone ? zone.nodes.get(host) : nodeOf(zone, host);
    return node ? [...(node.get(typeNumbers.A) ?? []), ...(node.get(typeNumbers.AAAA) ?? [])].map((record) => ({ ...record, owner: host })) : [];
  });
};

const setFor = (node: ZoneNode, type: number): readonly Encoded[] | undefined => {
  if (type !== typeNumbers.ANY) return node.get(type);
  // RFC 8482: one set is enough of an answer to ANY.
  return node.values().next().value;
};

/**
 * What our zones say to a question (RFC 1034 section 4.3.2, 2308, 4592, 6604). Pure. Undefined when the name is in none of them.
 * Aliases are followed as long as they stay inside our zones.
 */
export const answerOf = (zones: Zones, name: string, type: number): Sections | undefined => {
  const first = zoneOf(zones, name);
  if (first === undefined) return undefined;
  if (first === null) return { rcode: rcodes.servFail, authoritative: false, answers: [], authorities: [], additionals: [] };
  const answers: Encoded[] = [];
  const done = (more: Partial<Sections>): Sections => ({
    rcode: rcodes.noError,
    authoritative: true,
    answers,
    authorities: [],
    additionals: [],
    ...more,
  });
  const seen = new Set<string>();
  let asked = name;
  let zone: ReadyZone | null | undefined = first;
  while (zone) {
    seen.add(asked);
    const delegation = delegationOf(zone, asked);
    if (delegation) {
      const additionals = addressesBeside(zones, delegation.servers, zone);
      return done({ authoritative: answers.length > 0, authorities: delegation.servers, additionals });
    }
    const node = nodeOf(zone, asked);
    if (!node) return done({ rcode: rcodes.nxDomain, authorities: [zone.negative] });
    const set = setFor(node, type);
    if (set) {
      answers.push(...named(set, asked));
      return done({ additionals: addressesBeside(zones, set, undefined) });
    }
    const [alias] = node.get(typeNumbers.CNAME) ?? [];
    if (!alias) return done({ authorities: [zone.negative] });
    answers.push({ ...alias, owner: asked });
    asked = alias.target ?? "";
    if (seen.has(asked) || seen.size >= longestChain) return done({});
    zone = zoneOf(zones, asked);
  }
  return done({});
};
