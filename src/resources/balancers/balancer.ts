import { formatIpv4, parseCidr } from "../../kernel/addresses.js";
import { wireTime } from "../../kernel/clock.js";
import { Fault, notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import { defaultRdns } from "../addresses/address.js";
import type { CloudStore, Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";

export interface BalancerRow extends Row {
  label: string;
  region: string;
  clientConnThrottle: number;
  clientUdpSessThrottle: number;
  /** Where its configs listen; its own as long as the range has free ones. */
  ipv4: string;
  tags: string[];
  createdMs: number;
  updatedMs: number;
}

/** The lowest free address of the range; when the range is a single address all balancers share it (DESIGN section 3 "Addresses"). */
export const freeBalancerAddress = (tx: Pick<Tx, "list">, cidr: string): string => {
  const range = parseCidr(cidr);
  if (!range) throw new Error(`settings hold a malformed range: ${cidr}`);
  if (range.size === 1) return formatIpv4(range.base);
  const taken = new Set(tx.list("balancer").map((row) => row.ipv4));
  for (let value = range.base + 1; value < range.base + range.size - 1; value += 1) {
    const address = formatIpv4(value);
    if (!taken.has(address)) return address;
  }
  throw new Fault("unavailable", [{ reason: `No address is free in ${cidr}; delete a balancer or start with a larger --balancer-addresses.` }]);
};

export const requireBalancer = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined): BalancerRow => {
  const row = reader.get("balancer", id ?? 0);
  if (!row) throw notFound();
  return row;
};

export const balancerEntity = (row: { id: number; label: string }): Entity => ({ kind: "balancer", id: row.id, label: row.label });

/** Resolves to the balancer's address. */
export const balancerHostname = (row: Pick<BalancerRow, "ipv4">): string => defaultRdns(row.ipv4);

/** Contract 8.1. The transfer members are null: bytes are counted by listener, not yet by month. */
export const balancerView = (row: BalancerRow) => ({
  id: row.id,
  label: row.label,
  region: row.region,
  hostname: balancerHostname(row),
  ipv4: row.ipv4,
  ipv6: null,
  created: wireTime(row.createdMs),
  updated: wireTime(row.updatedMs),
  clientConnThrottle: row.clientConnThrottle,
  clientUdpSessThrottle: row.clientUdpSessThrottle,
  transfer: { total: null, out: null, in: null },
  tags: row.tags,
  type: "common",
  lkeCluster: null,
  frontendAddressType: null,
  frontendVpcSubnetId: null,
  locks: [],
});
