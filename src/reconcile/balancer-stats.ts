import { LATENCY_BOUNDS_MS } from "../balancer/meter.js";
import type { BalancerPlane, ListenerCounters } from "../balancer/plane.js";
import type { Disposable } from "../kernel/closers.js";
import { type BalancerPoint, keptPoints, type ObservedBalancer } from "../resources/balancers/stats.js";
import { type Cloud, observe, observed } from "../resources/cloud.js";
import { configsOf } from "../resources/configs/config.js";
import { listenerKey } from "./listeners.js";
import { openLoop } from "./loop.js";

interface BalancerStatsOptions {
  cloud: Cloud;
  plane: Pick<BalancerPlane, "counters">;
  onFailure(key: number, error: unknown): void;
}

/** A point of the public API's statistics stands for five minutes; simulated ms, and at least so many real ones. */
const pointMs = 300_000;
const shortestPointMs = 1_000;

type Totals = Pick<ListenerCounters, "connections" | "bytesIn" | "bytesOut">;

/** Everything a balancer's listeners counted. Pure. */
const totalsOf = (counters: Record<string, ListenerCounters>, configs: readonly number[]): Totals => {
  const total = { connections: 0, bytesIn: 0, bytesOut: 0 };
  for (const id of configs) {
    const counted = counters[listenerKey(id)];
    total.connections += counted?.connections ?? 0;
    total.bytesIn += counted?.bytesIn ?? 0;
    total.bytesOut += counted?.bytesOut ?? 0;
  }
  return total;
};

/** Rates between two readings; undefined when the counters went back, as they do when a config goes. Pure. */
const pointOf = (before: Totals, now: Totals, atMs: number, tookMs: number): BalancerPoint | undefined => {
  if (now.connections < before.connections || now.bytesIn < before.bytesIn || now.bytesOut < before.bytesOut || tookMs <= 0) return undefined;
  const perSecond = (count: number) => Math.round((count * 100_000) / tookMs) / 100;
  return {
    atMs,
    connections: perSecond(now.connections - before.connections),
    inBits: perSecond((now.bytesIn - before.bytesIn) * 8),
    outBits: perSecond((now.bytesOut - before.bytesOut) * 8),
  };
};

/** Writes down now and then how busy each balancer was, in memory. */
export const openBalancerStats = ({ cloud, plane, onFailure }: BalancerStatsOptions): Disposable => {
  const { store, clock } = cloud;
  const readings = new Map<number, Totals>();
  let lastMs: number | undefined;
  const read = async (): Promise<void> => {
    const counters = await plane.counters();
    const realMs = performance.now();
    const balancers = store.list("balancer");
    for (const { id } of balancers) {
      const totals = totalsOf(
        counters,
        configsOf(store, id).map((config) => config.id),
      );
      // A balancer that is new since the last reading had carried nothing then.
      const before = readings.get(id) ?? { connections: 0, bytesIn: 0, bytesOut: 0 };
      readings.set(id, totals);
      const point = lastMs === undefined ? undefined : pointOf(before, totals, clock.now(), realMs - lastMs);
      if (!point) continue;
      const points = [...(observed(store, "balancer", id)?.points ?? []), point].slice(-keptPoints);
      observe(store, "balancer", id, { points } satisfies ObservedBalancer);
    }
    lastMs = realMs;
    const there = new Set(balancers.map(({ id }) => id));
    for (const id of readings.keys()) {
      if (there.has(id)) continue;
      readings.delete(id);
      observe(store, "balancer", id, undefined);
    }
  };
  const loop = openLoop({
    clock,
    concurrency: 1,
    onFailure,
    reconcile: async () => {
      await read();
      return Math.max(shortestPointMs, clock.simulated(pointMs));
    },
  });
  loop.poke(1);
  return loop;
};

/** What `/_backlot/stats` shows: every listener and node, counted since Backlot started. */
export const balancerCounters = async ({ store }: Cloud, plane: Pick<BalancerPlane, "counters">): Promise<object> => {
  const counters = await plane.counters();
  const configs = store.list("config").flatMap((row) => {
    const counted = counters[listenerKey(row.id)];
    if (!counted) return [];
    const { nodes, ...listener } = counted;
    return [
      {
        configId: row.id,
        balancerId: row.balancerId,
        ...listener,
        nodes: Object.entries(nodes).map(([id, { latency, ...node }]) => ({
          nodeId: Number(id),
          ...node,
          latency: latency.map((count, index) => ({ upToMs: LATENCY_BOUNDS_MS[index] ?? null, count })),
        })),
      },
    ];
  });
  return { configs };
};
