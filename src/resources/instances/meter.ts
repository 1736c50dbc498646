import type { Row } from "../../store/store.js";
import type { CloudStore } from "../cloud.js";
import { observed } from "../cloud.js";
import { transferOf } from "../transfer/transfer.js";

/** Where an instance's counters stood when its bytes were last added to a month: a restart of ours neither loses nor doubles any. */
export interface MeterRow extends Row {
  instanceId: number;
  /** Changes when the runtime's counters begin anew, as with every start of a machine. */
  since: string;
  bytesIn: number;
  bytesOut: number;
}

/** One point of a graph: averages since the point before. */
export interface StatPoint {
  atMs: number;
  /** Percent of one CPU. */
  cpu: number;
  /** Blocks of 4 KiB a second. */
  io: number;
  /** Bits a second; null where the runtime does not count. */
  network: { in: number; out: number; privateIn: number; privateOut: number } | null;
}

/** A day of points of five simulated minutes. */
export const keptPoints = 288;

export interface ObservedStats {
  points: readonly StatPoint[];
}

/** Bytes that an instance carried on public networks in a month of the calendar (UTC); `month` from 1. */
export const instanceTransfer = (store: CloudStore, instanceId: number, year: number, month: number) =>
  transferOf(store, `${String(year).padStart(4, "0")}-${String(month).padStart(2, "0")}`, { kind: "instance", entityId: instanceId });

/** Points within `[fromMs, toMs)`, oldest first. */
export const statPoints = (store: CloudStore, instanceId: number, fromMs: number, toMs: number): readonly StatPoint[] =>
  (observed(store, "stats", instanceId)?.points ?? []).filter(({ atMs }) => atMs >= fromMs && atMs < toMs);
