import type { Clock } from "../kernel/clock.js";
import type { Row, Store, Transaction } from "../store/store.js";
import type { AddressRow, SliceRow } from "./addresses/address.js";
import type { BalancerRow } from "./balancers/balancer.js";
import type { Catalogue } from "./catalogue/catalogue.js";
import type { ConfigRow, ObservedListener } from "./configs/config.js";
import type { EventRow } from "./events/event.js";
import type { InstanceRow, ObservedInstance } from "./instances/instance.js";
import type { NodeRow, ObservedNode } from "./nodes/node.js";
import type { TokenRow } from "./tokens/token.js";
import type { ObservedVolume, VolumeRow } from "./volumes/volume.js";

/** Everything on disk, by kind. */
export interface Kinds {
  balancer: BalancerRow;
  config: ConfigRow;
  node: NodeRow;
  instance: InstanceRow;
  address: AddressRow;
  slice: SliceRow;
  event: EventRow;
  token: TokenRow;
  pool: PoolRow;
  volume: VolumeRow;
}

/** What a state was made for, chosen at its first start (one row). */
interface PoolRow extends Row {
  runtime: "docker" | "process";
  /** CIDR of the public addresses. */
  publicPool: string;
}

export const kinds: readonly (keyof Kinds)[] = ["balancer", "config", "node", "instance", "address", "slice", "event", "token", "pool", "volume"];

export type CloudStore = Store<Kinds>;
export type Tx = Transaction<Kinds>;

/** What the loops saw last; memory only, so everything may be absent. */
interface ObservedKinds {
  config: ObservedListener;
  node: ObservedNode;
  instance: ObservedInstance;
  volume: ObservedVolume;
}

export const observed = <N extends keyof ObservedKinds>(store: CloudStore, kind: N, id: number): ObservedKinds[N] | undefined =>
  store.observed(kind, id) as ObservedKinds[N] | undefined;

export const observe = <N extends keyof ObservedKinds>(store: CloudStore, kind: N, id: number, seen: ObservedKinds[N] | undefined): void =>
  store.observe(kind, id, seen);

/** What the functions of the resources work on. Hidden inputs come in here: time, settings, the catalogue. */
export interface Cloud {
  store: CloudStore;
  clock: Clock;
  catalogue: Catalogue;
  /** SHA-256 of this run's control token, which lives in memory and in the 0600 file that `backlot stop` reads. */
  controlHash: string;
  settings: {
    privatePool: string;
    publicPool: string;
    /** CIDRs that others use on this machine, as last looked at. */
    occupied(): readonly string[];
    balancerAddresses: string;
    certificates: "strict" | "lenient";
  };
}
