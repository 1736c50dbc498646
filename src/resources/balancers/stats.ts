import { Fault } from "../../kernel/fault.js";
import { type Cloud, observed } from "../cloud.js";
import type { BalancerRow } from "./balancer.js";

/** How busy a balancer was around a moment: new connections and bits a second. */
export interface BalancerPoint {
  /** Milliseconds since the epoch. */
  atMs: number;
  connections: number;
  inBits: number;
  outBits: number;
}

/** What the loops saw of a balancer; the newest point last. */
export interface ObservedBalancer {
  points: readonly BalancerPoint[];
}

/** A day of points that stand for five minutes each. */
export const keptPoints = 288;

/** Contract 8.6. @throws Fault in a balancer's first minutes, before there is a point. */
export const balancerStats = ({ store }: Cloud, row: BalancerRow) => {
  const points = observed(store, "balancer", row.id)?.points ?? [];
  if (points.length === 0) throw new Fault("invalid", [{ reason: "Stats are unavailable at this time." }]);
  const series = (value: (point: BalancerPoint) => number) => points.map((point) => [point.atMs, value(point)]);
  return {
    title: `${row.label} (${row.ipv4})`,
    data: {
      connections: series((point) => point.connections),
      traffic: { in: series((point) => point.inBits), out: series((point) => point.outBits) },
    },
  };
};
