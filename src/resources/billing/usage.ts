import type { Row } from "../../store/store.js";
import type { BalancerRow } from "../balancers/balancer.js";
import type { Kinds } from "../cloud.js";
import type { InstanceRow } from "../instances/instance.js";
import type { VolumeRow } from "../volumes/volume.js";

/** Something that costs by the hour. */
interface Charge {
  product: "instance" | "backups" | "balancer" | "volume";
  /** Id in the price list of the product. */
  plan: string;
  /** How many of it: GB of a volume, else 1. */
  quantity: number;
}

/**
 * That something was there from one moment to another: written in the commits that make, change and remove rows (`metered`), so it
 * survives a crash and the pruning of events. What a bill is made of.
 */
export interface UsageRow extends Row, Charge {
  kind: BillableKind;
  entityId: number;
  label: string;
  region: string;
  fromMs: number;
  fromBilledMs: number;
  /** Null while it is there. */
  toMs: number | null;
  toBilledMs: number | null;
}

/** What the meter reads of a row. */
export interface Billed {
  label: string;
  region: string;
  charges: readonly Charge[];
}

/** What costs money, and how much of it: one line a kind. */
const billables = {
  instance: ({ label, region, type, backupsEnabled }: InstanceRow): Billed => ({
    label,
    region,
    charges: [
      { product: "instance", plan: type, quantity: 1 },
      ...(backupsEnabled ? [{ product: "backups" as const, plan: type, quantity: 1 }] : []),
    ],
  }),
  balancer: ({ label, region }: BalancerRow): Billed => ({ label, region, charges: [{ product: "balancer", plan: "balancer", quantity: 1 }] }),
  // One that could not be made is not there.
  volume: ({ label, region, sizeGb, made }: VolumeRow): Billed => ({
    label,
    region,
    charges: made ? [{ product: "volume", plan: "volume", quantity: sizeGb }] : [],
  }),
};

export type BillableKind = keyof typeof billables;

export const billableKinds = Object.keys(billables) as BillableKind[];

export const isBillable = (kind: string): kind is BillableKind => Object.hasOwn(billables, kind);

export const billedOf = (kind: BillableKind, row: Kinds[BillableKind]): Billed => billables[kind](row as never);
