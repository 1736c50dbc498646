import { contains, formatCidr, formatIpv4, gatewayOf, netmask, overlaps, parseCidr, type Range, slice } from "../../kernel/addresses.js";
import { Fault } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { Cloud, Reader, Tx } from "../cloud.js";

/** An IPv4 address that an instance holds (contract 10.1). */
export interface AddressRow extends Row {
  address: string;
  public: boolean;
  region: string;
  instanceId: number;
  /** Null: the default name of a public address, none for a private one. */
  rdns: string | null;
  /** Instances that take this address over, in this order, while its holder does not run (carrier.ts, contract 10.3). */
  sharedWith: number[];
}

/** An address that was taken from an instance whose machine may still have it: given to nobody until the machine is looked after. */
export interface FreedAddressRow extends Row {
  address: string;
  public: boolean;
  region: string;
  /** Who had it. */
  instanceId: number;
}

/** Which piece of the private pool a region has; given when the region is first used, and kept. */
export interface SliceRow extends Row {
  region: string;
  /** 0..63 */
  index: number;
}

/** The pool is cut into 64 slices; there are fewer regions than that. */
const slicePrefixBits = 6;
/** Balancers reach nodes from here in the public API, so it is never handed out (contract 10.2). */
const balancerSide: Range = { base: 0xc0a8ff00, prefix: 24, size: 256 };

const rangeOf = (cidr: string): Range => {
  const range = parseCidr(cidr);
  if (!range) throw new Error(`settings hold a malformed range: ${cidr}`);
  return range;
};

const pieceOf = (pool: string, index: number): Range => slice(rangeOf(pool), rangeOf(pool).prefix + slicePrefixBits, index);

const sliceOf = (pool: string, row: SliceRow): Range => pieceOf(pool, row.index);

/** The private range of a region, or undefined when the region was never used. */
export const regionRange = (cloud: Pick<Cloud, "store" | "settings">, region: string): string | undefined => {
  const row = cloud.store.list("slice").find((entry) => entry.region === region);
  return row && formatCidr(sliceOf(cloud.settings.privatePool, row));
};

/** The region whose piece of the pool an address lies in, and whether it is that piece's gateway: this machine itself, on Docker. */
export const poolPlace = (store: Reader, settings: Pick<Cloud["settings"], "privatePool">, address: string) => {
  const row = store.list("slice").find((entry) => contains(sliceOf(settings.privatePool, entry), address));
  return row && { region: row.region, isGateway: address === gatewayOf(sliceOf(settings.privatePool, row)) };
};

const byAddress = (row: { address: string }) => row.address;
const byInstance = (row: { instanceId: number }) => row.instanceId;
const byPrivateRegion = (row: { public: boolean; region: string }) => (row.public ? null : row.region);
export const isShared = (row: AddressRow) => row.sharedWith.length > 0;

/** The first three numbers of an address, or of an address and port. */
const byTwentyFour = (row: { address: string }) => row.address.slice(0, row.address.lastIndexOf("."));
const hostOf = (row: { address: string }) => row.address.split(":")[0] ?? "";

/**
 * The lowest free address. Left out: the network's first two (its name, and the gateway), its last eighth (where an engine makes picks of
 * its own), the balancer side and what a machine may still have. An address that a balancer's node names is taken last: whoever gets it,
 * gets that balancer's traffic.
 */
const freeAddress = (tx: Tx, range: Range): string => {
  let last: string | undefined;
  const end = range.base + range.size - Math.max(2, range.size / 8);
  // By 256, which is what rows are found by: thousands of addresses that are taken are passed at once.
  for (let from = range.base + 2; from < end; from += 256 - (from % 256)) {
    const block = byTwentyFour({ address: formatIpv4(from) });
    const held = tx.find("address", byTwentyFour, block);
    if (held.length >= 256) continue;
    const taken = new Set([...held, ...tx.find("freedAddress", byTwentyFour, block)].map(byAddress));
    const named = new Set(tx.find("node", byTwentyFour, block).map(hostOf));
    for (let value = from; value < Math.min(end, from + 256 - (from % 256)); value += 1) {
      const address = formatIpv4(value);
      if (taken.has(address) || contains(balancerSide, address)) continue;
      if (!named.has(address)) return address;
      last ??= address;
    }
  }
  if (last !== undefined) return last;
  throw new Fault("unavailable", [{ reason: `No address is free in ${formatCidr(range)}; delete an instance or give a larger pool.` }]);
};

/** The region's piece of the pool; a new region gets the first piece that nobody uses, neither our regions nor others on this machine. */
const regionSlice = (tx: Tx, { settings }: Pick<Cloud, "settings">, region: string): Range => {
  const rows = tx.list("slice");
  const own = rows.find((row) => row.region === region);
  if (own) return sliceOf(settings.privatePool, own);
  const others = settings.occupied().flatMap((cidr) => parseCidr(cidr) ?? []);
  for (let index = 0; index < 2 ** slicePrefixBits; index += 1) {
    const piece = pieceOf(settings.privatePool, index);
    if (rows.some((row) => row.index === index) || others.some((range) => overlaps(range, piece))) continue;
    return sliceOf(settings.privatePool, tx.insert("slice", { region, index }));
  }
  throw new Fault("unavailable", [
    {
      reason: `Other networks of this machine use all of ${settings.privatePool}; start with another --private-pool, or remove one (backlot clean removes what nobody owns).`,
    },
  ]);
};

/** Gives a region's piece back when no private address of it is left, so that a clash with a later network can be got rid of. */
const releaseSlice = (tx: Tx, region: string): void => {
  if (tx.find("address", byPrivateRegion, region).length > 0 || tx.find("freedAddress", byPrivateRegion, region).length > 0) return;
  const row = tx.list("slice").find((entry) => entry.region === region);
  if (row) tx.remove("slice", row.id);
};

/** Gives an instance one more address. The caller checks the rules first. */
export const allocateAddress = (tx: Tx, cloud: Cloud, instance: { id: number; region: string }, isPublic: boolean): AddressRow => {
  const range = isPublic ? rangeOf(cloud.settings.publicPool) : regionSlice(tx, cloud, instance.region);
  return tx.insert("address", {
    address: freeAddress(tx, range),
    public: isPublic,
    region: instance.region,
    instanceId: instance.id,
    rdns: null,
    sharedWith: [],
  });
};

/** Takes an address away. It is given to nobody else before `forgetFreed`, since the machine still has it. */
export const freeFrom = (tx: Tx, row: AddressRow): void => {
  tx.remove("address", row.id);
  for (const instanceId of [row.instanceId, ...row.sharedWith])
    tx.insert("freedAddress", { address: row.address, public: row.public, region: row.region, instanceId });
};

/** Addresses taken from this instance that nobody may have yet. */
export const freedOf = (reader: Reader, instanceId: number): readonly FreedAddressRow[] => reader.find("freedAddress", byInstance, instanceId);

/** The machine is known to hold these no more. */
export const forgetFreed = (tx: Tx, rows: readonly FreedAddressRow[]): void => {
  for (const row of rows) tx.remove("freedAddress", row.id);
  for (const region of new Set(rows.map((row) => row.region))) releaseSlice(tx, region);
};

/** An instance shares nobody's address any more. */
const endShares = (tx: Tx, instanceId: number): void => {
  for (const row of tx.find("address", isShared, true)) {
    if (row.sharedWith.includes(instanceId)) tx.update("address", row.id, { sharedWith: row.sharedWith.filter((id) => id !== instanceId) });
  }
};

/** For an instance that moved: as many addresses of its new region, for those it had. Its machine is off meanwhile. */
export const exchangeAddresses = (tx: Tx, cloud: Cloud, instance: { id: number; region: string }): void => {
  endShares(tx, instance.id);
  for (const row of addressesOf(tx, instance.id)) {
    allocateAddress(tx, cloud, instance, row.public);
    freeFrom(tx, row);
  }
};

/** Everything of an instance whose machine is gone: its addresses are free as soon as no machine that shared them has them; it shares no more. */
export const releaseAddresses = (tx: Tx, instance: { id: number; region: string }): void => {
  for (const row of addressesOf(tx, instance.id)) freeFrom(tx, row);
  endShares(tx, instance.id);
  forgetFreed(tx, freedOf(tx, instance.id));
  releaseSlice(tx, instance.region);
};

/** Public first, then private (contract 9.1). */
export const addressesOf = (reader: Reader, instanceId: number): readonly AddressRow[] =>
  reader.find("address", byInstance, instanceId).toSorted((a, b) => Number(b.public) - Number(a.public) || a.id - b.id);

export const addressRow = (reader: Reader, address: string): AddressRow | undefined => reader.find("address", byAddress, address)[0];

/** Other instances' addresses that this one shares. */
export const sharedBy = (reader: Reader, instanceId: number): readonly AddressRow[] =>
  reader.find("address", isShared, true).filter((row) => row.sharedWith.includes(instanceId));

export const defaultRdns = (address: string): string => `${address.replaceAll(".", "-")}.ip.backlot.test`;

/** What an address resolves back to; the default of a public one when none was set. */
export const reverseName = (row: Pick<AddressRow, "address" | "public" | "rdns">): string | null =>
  row.rdns ?? (row.public ? defaultRdns(row.address) : null);

/** Contract 10.1. Prefix and mask are the pool's for a private address, as in the public API. */
export const addressView = (cloud: Pick<Cloud, "settings">, row: AddressRow) => {
  const range = rangeOf(row.public ? cloud.settings.publicPool : cloud.settings.privatePool);
  return {
    address: row.address,
    gateway: row.public ? formatIpv4(range.base + 1) : null,
    subnetMask: netmask(range),
    prefix: range.prefix,
    type: "ipv4" as const,
    public: row.public,
    rdns: reverseName(row),
    cloudId: row.instanceId,
    region: row.region,
    interfaceId: null,
    reserved: false,
    vpcNat_1_1: null,
    assignedEntity: null,
    tags: [],
  };
};
