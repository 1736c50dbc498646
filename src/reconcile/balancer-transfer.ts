import type { BalancerPlane, ListenerCounters } from "../balancer/plane.js";
import type { Disposable } from "../kernel/closers.js";
import type { Cloud } from "../resources/cloud.js";
import { addTransfer } from "../resources/transfer/transfer.js";
import { listenerKey } from "./listeners.js";
import { openLoop } from "./loop.js";

interface BalancerTransferOptions {
  cloud: Cloud;
  plane: Pick<BalancerPlane, "counters" | "forget">;
  onFailure(key: number, error: unknown): void;
}

/** How often the plane's counters are read: simulated ms, and the real bounds. What a crash may leave uncounted. */
const readEveryMs = 50_000;
const readAtMostEveryMs = 1_000;
const readAtLeastEveryMs = 5_000;

type Bytes = Pick<ListenerCounters, "bytesIn" | "bytesOut">;

/** What was carried since the last reading. A counter that went back began anew, at a plane that was restarted. Pure. */
export const carriedSince = (before: Bytes | undefined, now: Bytes): { bytesIn: number; bytesOut: number } => {
  const began = before === undefined || now.bytesIn < before.bytesIn || now.bytesOut < before.bytesOut;
  return { bytesIn: now.bytesIn - (began ? 0 : before.bytesIn), bytesOut: now.bytesOut - (began ? 0 : before.bytesOut) };
};

/** Adds the bytes that the balancers' listeners carried to this month's transfer. */
export const openBalancerTransfer = ({ cloud, plane, onFailure }: BalancerTransferOptions): Disposable => {
  const { store, clock } = cloud;
  /** By config. */
  const read = new Map<number, Bytes>();
  /** The balancer of a config; remembered, since the last bytes of a removed config are read after its row is gone. */
  const carriers = new Map<number, { kind: "balancer"; entityId: number; region: string }>();
  const watching = store.watch((kind, id) => {
    if (kind === "config") remember(id);
  });
  const remember = (id: number): void => {
    const balancer = store.get("balancer", store.get("config", id)?.balancerId ?? 0);
    if (balancer) carriers.set(id, { kind: "balancer", entityId: balancer.id, region: balancer.region });
  };
  for (const { id } of store.list("config")) remember(id);

  const count = async (): Promise<void> => {
    const gone = [...carriers.keys()].filter((id) => !store.get("config", id));
    const counters = await plane.counters();
    const readings = [...carriers].map(([id, carrier]) => ({ id, carrier, now: counters[listenerKey(id)] }));
    const carried = readings.flatMap(({ id, carrier, now }) => {
      if (!now) return [];
      const bytes = carriedSince(read.get(id), now);
      return bytes.bytesIn + bytes.bytesOut > 0 ? [{ carrier, bytes }] : [];
    });
    if (carried.length > 0) {
      await store.commit((tx) => {
        for (const { carrier, bytes } of carried) addTransfer(tx, clock.now(), carrier, bytes);
      });
    }
    // Only now: what could not be written is read again.
    plane.forget(counters);
    for (const { id, now } of readings) if (now) read.set(id, now);
    for (const id of gone) {
      if (listenerKey(id) in counters) continue;
      carriers.delete(id);
      read.delete(id);
    }
  };
  const loop = openLoop({
    clock,
    concurrency: 1,
    onFailure,
    reconcile: async () => {
      await count();
      return Math.min(readAtLeastEveryMs, Math.max(readAtMostEveryMs, clock.simulated(readEveryMs)));
    },
  });
  loop.poke(1);
  return {
    close: async () => {
      await loop.close();
      await watching.close();
      await count().catch((error) => onFailure(1, error));
    },
  };
};
