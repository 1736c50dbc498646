import { formatIpv4, parseCidr } from "../../kernel/addresses.js";
import { wireTime } from "../../kernel/clock.js";
import { Fault, notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import { defaultRdns } from "../addresses/address.js";
import type { Cloud, CloudStore, Reader, Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";
import { monthOf, transferOf } from "../transfer/transfer.js";

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
export const freeBalancerAddress = (tx: Reader, cidr: string): string => {
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

const bytesPerMb = 10 ** 6;

/** MB that its listeners carried this calendar month; null as long as there were none (contract 8.1). */
const transferView = ({ store, clock }: Pick<Cloud, "store" | "clock">, row: BalancerRow) => {
  const { bytesIn, bytesOut, bytesTotal } = transferOf(store, monthOf(clock.now()), { kind: "balancer", entityId: row.id });
  if (bytesTotal === 0) return { total: null, out: null, in: null };
  return { total: bytesTotal / bytesPerMb, out: bytesOut / bytesPerMb, in: bytesIn / bytesPerMb };
};

/** Contract 8.1. */
export const balancerView = (cloud: Pick<Cloud, "store" | "clock">, row: BalancerRow) => ({
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
  transfer: transferView(cloud, row),
  tags: row.tags,
  type: "common",
  lkeCluster: null,
  frontendAddressType: null,
  frontendVpcSubnetId: null,
  locks: [],
});
