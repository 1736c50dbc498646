import { formatIpv4, parseCidr } from "../kernel/addresses.js";
import { bareName, isOwnerName, pointerName, type RecordData, reverseZone, type Soa, type Zone, type ZoneRecord } from "../kernel/names.js";
import { type AddressRow, addressesOf, defaultRdns, reverseName } from "../resources/addresses/address.js";
import { type BalancerRow, balancerHostname } from "../resources/balancers/balancer.js";
import type { CloudStore } from "../resources/cloud.js";
import { ownDomain } from "../resources/domains/rules.js";
import { negativeSeconds, ownServer } from "../resources/records/zone.js";

/** Names come and go with what they stand for, so nobody should remember them for long. Seconds. */
const ownTtl = 30;
/** Reverse zones are made for every /24 of a pool up to this size; of a larger one only for those that balancers use. */
const fewestPrefixBits = 16;

export interface OwnNames {
  store: CloudStore;
  /** CIDRs: of the regions in use, the public pool, and what balancers listen on. */
  pools: readonly string[];
  /** Where an address of a pool really is for a process on this machine. */
  real(address: string): string;
  /** Address of the name server itself. */
  server: string;
}

const soa = (serial: number): Soa => ({
  server: ownServer,
  email: `hostmaster@${ownDomain}`,
  serial,
  refresh: 14_400,
  retry: 14_400,
  expire: 1_209_600,
  minimum: negativeSeconds,
});

const zone = (apex: string, serial: number, records: readonly ZoneRecord[]): Zone => ({
  apex,
  ttl: ownTtl,
  soa: soa(serial),
  records: [{ name: apex, ttl: ownTtl, data: { type: "NS", host: ownServer } }, ...records],
  transferTo: [],
});

const record = (name: string, data: RecordData): ZoneRecord[] => (isOwnerName(name) ? [{ name, ttl: ownTtl, data }] : []);
const address = (name: string, value: string): ZoneRecord[] => record(name, { type: value.includes(":") ? "AAAA" : "A", address: value });

/**
 * `backlot.test`: balancers and instances by label, addresses by the names that the API shows (`hostname`, default `rdns`).
 * An instance is its public addresses, which every region reaches.
 */
export const ownZone = ({ store, real, server }: OwnNames, serial: number): Zone => {
  const balancers = store
    .list("balancer")
    .flatMap((row) => [...address(balancerHostname(row), row.ipv4), ...address(`${row.label}.balancers.${ownDomain}`, row.ipv4)]);
  const instances = store.list("instance").flatMap((row) => {
    const held = addressesOf(store, row.id);
    const shown = held.some((entry) => entry.public) ? held.filter((entry) => entry.public) : held;
    return shown.flatMap((entry) => address(`${row.label}.instances.${ownDomain}`, real(entry.address)));
  });
  const addresses = store.list("address").flatMap((row) => (row.public ? address(defaultRdns(row.address), real(row.address)) : []));
  return zone(ownDomain, serial, [...address(ownServer, server), ...balancers, ...instances, ...addresses]);
};

/** The addresses of every /24 of a range, by their first. */
const twentyFours = (cidr: string): string[] => {
  const range = parseCidr(cidr);
  if (!range || range.prefix < fewestPrefixBits) return [];
  const count = range.prefix >= 24 ? 1 : 2 ** (24 - range.prefix);
  return Array.from({ length: count }, (_, index) => formatIpv4(range.base + index * 256));
};

/** Apexes of the reverse zones: one a /24, since a name server must not claim the neighbours of its pools. */
export const reverseApexes = ({ store, pools, real }: OwnNames): ReadonlySet<string> => {
  const shown = [...pools.flatMap(twentyFours), ...store.list("balancer").map((row) => row.ipv4)];
  return new Set(shown.flatMap((each) => [reverseZone(each), reverseZone(real(each))]));
};

/** Rows by the reverse zone of their address, and by that of where the address really is. The two functions must not change. */
export interface ReverseKeys {
  shown(row: { address: string }): string;
  real(row: { address: string }): string;
}

const byBalancerZone = (row: BalancerRow) => reverseZone(row.ipv4);
const pointer = (at: string, host: string): ZoneRecord[] => record(pointerName(at) ?? "", { type: "PTR", host: bareName(host) });

/** What the addresses of one /24 are called the other way round: the chosen `rdns`, else the default name of a public address. */
export const reverseOf = ({ store, real }: OwnNames, keys: ReverseKeys, apex: string, serial: number): Zone => {
  const named = (row: AddressRow, at: string): ZoneRecord[] => {
    const name = reverseName(row);
    return name === null ? [] : pointer(at, name);
  };
  return zone(apex, serial, [
    ...store.find("address", keys.shown, apex).flatMap((row) => named(row, row.address)),
    ...store.find("address", keys.real, apex).flatMap((row) => named(row, real(row.address))),
    ...store.find("balancer", byBalancerZone, apex).flatMap((row) => pointer(row.ipv4, balancerHostname(row))),
  ]);
};
