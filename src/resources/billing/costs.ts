import { wireTime } from "../../kernel/clock.js";
import type { Cloud } from "../cloud.js";
import { carriedThisMonth } from "../transfer/transfer.js";
import { sumOf } from "./bill.js";
import { hourMs, monthMs } from "./billed-time.js";
import { billingRow, itemView, uninvoiced, usdOf } from "./invoice.js";

/** The running billing month, for people: `/_backlot/costs`. USD; items as on an invoice. */
export const costsView = (cloud: Pick<Cloud, "store" | "catalogue" | "billed" | "clock">) => {
  const items = uninvoiced(cloud);
  const { billedMs } = cloud.billed.now();
  const month = billingRow(cloud.store)?.month;
  return {
    since: month ? wireTime(month.ms) : null,
    hours: (billedMs - (month?.billedMs ?? 0)) / hourMs,
    hoursInMonth: monthMs / hourMs,
    billedHoursInARealOne: cloud.billed.rate,
    total: usdOf(sumOf(items)),
    items: items.map(itemView),
    transfer: carriedThisMonth(cloud).map(({ kind, entityId, region, bytesIn, bytesOut }) => ({
      type: kind,
      id: entityId,
      region,
      bytesIn,
      bytesOut,
    })),
  };
};
