import type { Disposable } from "../kernel/closers.js";
import { monthMs } from "../resources/billing/billed-time.js";
import { billingRow, closeMonths } from "../resources/billing/invoice.js";
import type { Cloud } from "../resources/cloud.js";
import { openLoop } from "./loop.js";

interface BillingMonthsOptions {
  cloud: Cloud;
  onFailure(key: number, error: unknown): void;
}

/** How often billed time is written down, in real ms: what a crash may leave unbilled. */
const writtenEveryMs = 60_000;

/** Issues invoices when billing months end, and keeps billed time on disk. */
export const openBillingMonths = ({ cloud, onFailure }: BillingMonthsOptions): Disposable => {
  const write = () => cloud.store.commit((tx) => closeMonths(tx, cloud));
  const loop = openLoop({
    clock: cloud.clock,
    concurrency: 1,
    onFailure,
    reconcile: async () => {
      await write();
      const { month } = billingRow(cloud.store) ?? { month: cloud.billed.now() };
      const leftMs = (month.billedMs + monthMs - cloud.billed.now().billedMs) / cloud.billed.rate;
      return Math.max(1, Math.min(writtenEveryMs, leftMs));
    },
  });
  loop.poke(1);
  return {
    close: async () => {
      await loop.close();
      await write().catch((error) => onFailure(1, error));
    },
  };
};
