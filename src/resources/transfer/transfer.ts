import { indexBy } from "../../kernel/index-by.js";
import type { Row } from "../../store/store.js";
import type { UsageRow } from "../billing/usage.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";

/** Bytes that one thing carried in one calendar month (UTC) in one region. Kept after the thing is gone: the account carried them. */
export interface TransferMonthRow extends Row {
  /** `YYYY-MM` */
  month: string;
  kind: "instance" | "balancer";
  entityId: number;
  region: string;
  bytesIn: number;
  bytesOut: number;
}

type Reader = Pick<CloudStore | Tx, "list">;
type Carrier = Pick<TransferMonthRow, "kind" | "entityId" | "region">;

/** `YYYY-MM` in UTC. */
export const monthOf = (ms: number): string => new Date(ms).toISOString().slice(0, 7);

const byCarrier = (row: TransferMonthRow) => `${row.month} ${row.kind} ${row.entityId}`;

/** One for each region it was in: a move does not take along what was carried elsewhere, which may be in another pool. */
const transferRows = (reader: Reader, month: string, { kind, entityId }: Omit<Carrier, "region">): readonly TransferMonthRow[] =>
  indexBy(reader.list("transferMonth"), byCarrier).get(`${month} ${kind} ${entityId}`) ?? [];

/**
 * Adds bytes to the month in which they were counted: the one place where bytes of balancers and of instances come together. For the
 * loops that read counters, in the commit that notes how far they read; nothing is written when there are none.
 */
export const addTransfer = (tx: Tx, atMs: number, carrier: Carrier, bytes: { bytesIn: number; bytesOut: number }): void => {
  if (bytes.bytesIn + bytes.bytesOut === 0) return;
  const month = monthOf(atMs);
  const row = transferRows(tx, month, carrier).find(({ region }) => region === carrier.region);
  if (row) tx.update("transferMonth", row.id, { bytesIn: row.bytesIn + bytes.bytesIn, bytesOut: row.bytesOut + bytes.bytesOut });
  else tx.insert("transferMonth", { month, ...carrier, ...bytes });
};

/** What one thing carried in a month. */
export const transferOf = (
  reader: Reader,
  month: string,
  carrier: Omit<Carrier, "region">,
): { bytesIn: number; bytesOut: number; bytesTotal: number } => {
  const rows = transferRows(reader, month, carrier);
  const bytesIn = rows.reduce((sum, row) => sum + row.bytesIn, 0);
  const bytesOut = rows.reduce((sum, row) => sum + row.bytesOut, 0);
  return { bytesIn, bytesOut, bytesTotal: bytesIn + bytesOut };
};

const bytesPerGb = 10 ** 9;

/** First and last millisecond of the calendar month that `ms` is in, the last one excluded. */
const monthBounds = (ms: number): { fromMs: number; toMs: number } => {
  const date = new Date(ms);
  return { fromMs: Date.UTC(date.getUTCFullYear(), date.getUTCMonth()), toMs: Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + 1) };
};

/** Contract 14.3: a plan's GB, by the part of this month the instance is there; one that is there now is taken to stay. */
const quotaGb = (row: UsageRow, planGb: number, bounds: { fromMs: number; toMs: number }): number => {
  const there = Math.min(row.toMs ?? bounds.toMs, bounds.toMs) - Math.max(row.fromMs, bounds.fromMs);
  return (planGb * Math.max(0, there)) / (bounds.toMs - bounds.fromMs);
};

/** GB, whole ones: used (what went out, as the public API counts), quota, and what is beyond it. */
const pool = (usedBytes: number, quota: number) => {
  const used = Math.floor(usedBytes / bytesPerGb);
  return { used, quota: Math.round(quota), billable: Math.max(0, used - Math.round(quota)) };
};

/**
 * This calendar month's transfer of the whole account (contract 14.3). Regions with a transfer price of their own have a pool of their
 * own, the others share one.
 */
export const accountTransfer = (cloud: Pick<Cloud, "store" | "catalogue" | "clock">) => {
  const now = cloud.clock.now();
  const month = monthOf(now);
  const bounds = monthBounds(now);
  const carried = cloud.store.list("transferMonth").filter((row) => row.month === month);
  const plans = cloud.store.list("usage").filter((row) => row.product === "instance");
  const planGb = (plan: string): number => cloud.catalogue.types.find((entry) => entry.id === plan)?.transfer ?? 0;
  const poolOf = (isIn: (region: string) => boolean) =>
    pool(
      carried.reduce((sum, row) => sum + (isIn(row.region) ? row.bytesOut : 0), 0),
      plans.reduce((sum, row) => sum + (isIn(row.region) ? quotaGb(row, planGb(row.plan), bounds) : 0), 0),
    );
  const own = [...new Set(cloud.catalogue.transferPrices.flatMap((entry) => entry.region_prices.map(({ id }) => id)))].sort();
  return {
    ...poolOf((region) => !own.includes(region)),
    regionTransfers: own.map((id) => ({ id, ...poolOf((region) => region === id) })),
  };
};

/** The bytes behind `accountTransfer`, thing by thing. */
export const carriedThisMonth = (cloud: Pick<Cloud, "store" | "clock">): readonly TransferMonthRow[] =>
  cloud.store.list("transferMonth").filter((row) => row.month === monthOf(cloud.clock.now()));
