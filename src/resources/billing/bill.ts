import type { Catalogue, PricedEntry } from "../catalogue/catalogue.js";
import { hourMs, type Moment } from "./billed-time.js";
import type { UsageRow } from "./usage.js";

/** What one thing cost in a billing month. Money is in whole cents, so that a bill adds up. */
export interface Item {
  label: string;
  /** Billed hours, each begun one counted whole. */
  hours: number;
  /** USD an hour. */
  hourlyUsd: number;
  cents: number;
  region: string;
  fromMs: number;
  toMs: number;
}

/** Contract 8.7, 13.4: the region's own price where there is one. Undefined for what is not sold any more. */
const priceOf = (catalogue: Catalogue, { product, plan, region }: UsageRow): { name: string; hourly: number; monthly: number | null } | undefined => {
  const named = (rows: readonly PricedEntry[], id: string) => rows.find((entry) => entry.id === id);
  const type = catalogue.types.find((entry) => entry.id === plan);
  const entry = {
    instance: type,
    backups: type && { label: `Backups of a ${type.label}`, ...type.addons.backups },
    balancer: named(catalogue.balancerTypes, plan),
    volume: named(catalogue.volumeTypes, plan),
  }[product];
  if (!entry) return undefined;
  const { hourly, monthly } = entry.region_prices.find(({ id }) => id === region) ?? entry.price;
  return { name: entry.label, hourly: hourly ?? 0, monthly };
};

/** Whole hours begun in a month: those begun by its end without those begun, and billed, before it. */
const hoursIn = (row: UsageRow, from: Moment, to: Moment): number => {
  const begun = (untilBilledMs: number): number => Math.ceil(Math.max(0, untilBilledMs - row.fromBilledMs) / hourMs);
  const end = Math.min(row.toBilledMs ?? Number.POSITIVE_INFINITY, to.billedMs);
  // What is made and gone within a millisecond was there: an hour.
  const first = row.fromBilledMs >= from.billedMs && end <= row.fromBilledMs ? 1 : 0;
  return Math.max(0, begun(end) - begun(from.billedMs)) + first;
};

const isWithin = (row: UsageRow, from: Moment, to: Moment): boolean =>
  row.fromBilledMs < to.billedMs && (row.toBilledMs === null || row.toBilledMs > from.billedMs || row.fromBilledMs >= from.billedMs);

const sameLine = (row: UsageRow): string => [row.kind, row.entityId, row.product, row.plan, row.quantity, row.region].join(" ");

/** The lines of a bill for the time between two moments, in order of beginning. Each costs at most its monthly price. */
export const itemsBetween = (usage: readonly UsageRow[], from: Moment, to: Moment, catalogue: Catalogue): Item[] => {
  const lines = new Map<string, UsageRow[]>();
  for (const row of usage) {
    if (isWithin(row, from, to)) lines.set(sameLine(row), [...(lines.get(sameLine(row)) ?? []), row]);
  }
  return [...lines.values()].flatMap((rows): Item[] => {
    const [first] = rows;
    const last = rows.at(-1);
    const hours = rows.reduce((sum, row) => sum + hoursIn(row, from, to), 0);
    const price = first && priceOf(catalogue, first);
    if (!first || !last || !price || hours === 0) return [];
    const hourlyUsd = price.hourly * first.quantity;
    const usd = Math.min(hours * hourlyUsd, (price.monthly ?? Number.POSITIVE_INFINITY) * first.quantity);
    const size = first.product === "volume" ? `, ${first.quantity} GB` : "";
    return [
      {
        label: `${price.name} - ${last.label} (${first.entityId}${size})`,
        hours,
        hourlyUsd,
        cents: Math.round(usd * 100 + 1e-6),
        region: first.region,
        fromMs: Math.max(first.fromMs, from.ms),
        toMs: Math.min(last.toMs ?? to.ms, to.ms),
      },
    ];
  });
};

export const sumOf = (items: readonly Pick<Item, "cents">[]): number => items.reduce((sum, { cents }) => sum + cents, 0);
