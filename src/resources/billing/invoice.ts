import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { Cloud, CloudStore, Reader, Tx } from "../cloud.js";
import { monthOf } from "../transfer/transfer.js";
import { type Item, itemsBetween, sumOf } from "./bill.js";
import { type Moment, monthMs } from "./billed-time.js";
import { catchUp } from "./metering.js";

/** A billing month that has ended (contract 14.4). */
export interface InvoiceRow extends Row {
  issuedMs: number;
  items: Item[];
  totalCents: number;
}

/** Where the bill stands (one row). */
export interface BillingRow extends Row {
  /** When the account began, real ms. */
  sinceMs: number;
  /** Billed time as last written; a crash loses what came after it, and bills that to nobody. */
  billedMs: number;
  /** The running month's beginning. */
  month: Moment;
}

export const billingRow = (reader: Reader): BillingRow | undefined => reader.list("billing")[0];

/** Billed time to go on from: never before what some usage was written with. */
export const billedSoFar = (reader: Reader): number =>
  reader.list("usage").reduce((latest, row) => Math.max(latest, row.toBilledMs ?? row.fromBilledMs), billingRow(reader)?.billedMs ?? 0);

/** At a start: the account's first month begins at its first. */
export const openBilling = (cloud: Pick<Cloud, "store" | "billed">): Promise<void> =>
  cloud.store.commit((tx) => {
    const now = cloud.billed.now();
    if (!billingRow(tx)) tx.insert("billing", { sinceMs: now.ms, billedMs: now.billedMs, month: now });
    catchUp(tx, now);
  });

/** Usage that is on an invoice, and not needed for this calendar month's transfer quota any more, goes. */
const prune = (tx: Tx, month: Moment, now: Moment): void => {
  const calendarMonth = monthOf(now.ms);
  for (const row of tx.list("usage")) {
    if (row.toMs !== null && row.toBilledMs !== null && row.toBilledMs < month.billedMs && monthOf(row.toMs) < calendarMonth)
      tx.remove("usage", row.id);
  }
};

/** Issues an invoice for every billing month that has ended, and writes how far billed time is. Months in which nothing was there have none. */
export const closeMonths = (tx: Tx, cloud: Pick<Cloud, "catalogue" | "billed">): void => {
  const row = billingRow(tx);
  if (!row) return;
  const now = cloud.billed.now();
  let month = row.month;
  while (month.billedMs + monthMs <= now.billedMs) {
    const billedMs = month.billedMs + monthMs;
    const end = { billedMs, ms: Math.max(month.ms, Math.round(now.ms - (now.billedMs - billedMs) / cloud.billed.rate)) };
    const items = itemsBetween(tx.list("usage"), month, end, cloud.catalogue);
    if (items.length > 0) tx.insert("invoice", { issuedMs: end.ms, items, totalCents: sumOf(items) });
    month = end;
  }
  if (month !== row.month) prune(tx, month, now);
  tx.update("billing", row.id, { month, billedMs: Math.max(row.billedMs, now.billedMs) });
};

/** The running month's items so far. */
export const uninvoiced = (cloud: Pick<Cloud, "store" | "catalogue" | "billed">): Item[] => {
  const month = billingRow(cloud.store)?.month;
  return month ? itemsBetween(cloud.store.list("usage"), month, cloud.billed.now(), cloud.catalogue) : [];
};

/** What is owed: invoices less payments, in cents. Below nothing is credit. */
export const balanceCents = (reader: Reader): number =>
  reader.list("invoice").reduce((sum, row) => sum + row.totalCents, 0) - reader.list("payment").reduce((sum, row) => sum + row.cents, 0);

export const requireInvoice = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined): InvoiceRow => {
  const row = reader.get("invoice", id ?? 0);
  if (!row) throw notFound();
  return row;
};

export const usdOf = (cents: number): number => cents / 100;

export const invoiceView = (row: InvoiceRow) => ({
  id: row.id,
  date: wireTime(row.issuedMs),
  label: `Invoice #${row.id}`,
  subtotal: usdOf(row.totalCents),
  tax: 0,
  taxSummary: [],
  total: usdOf(row.totalCents),
  billingSource: "cloud",
});

export const itemView = (item: Item) => ({
  label: item.label,
  type: "hourly",
  from: wireTime(item.fromMs),
  to: wireTime(item.toMs),
  quantity: item.hours,
  // A price such as 0.00015 as text, without 1.5e-4.
  unitPrice: String(Number(item.hourlyUsd.toFixed(6))).includes("e") ? item.hourlyUsd.toFixed(6) : String(Number(item.hourlyUsd.toFixed(6))),
  amount: usdOf(item.cents),
  tax: 0,
  total: usdOf(item.cents),
  region: item.region,
});
