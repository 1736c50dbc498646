import type { Disposable } from "../kernel/closers.js";
import { type Cloud, observe, observed } from "../resources/cloud.js";
import type { InstanceRow } from "../resources/instances/instance.js";
import { keptPoints, type MeterRow, type StatPoint } from "../resources/instances/meter.js";
import { addTransfer } from "../resources/transfer/transfer.js";
import type { MachineCounters, RuntimeDriver } from "../runtime/driver.js";
import { openLoop } from "./loop.js";

export interface InstanceMeter extends Disposable {
  /** Reads one machine's counters now: they begin anew with its next start. */
  measure(instance: number): Promise<void>;
}

interface MeterOptions {
  cloud: Cloud;
  driver: Pick<RuntimeDriver, "counters">;
  onFailure(instance: number, error: unknown): void;
}

/** One point of a graph, in simulated ms (contract 9.8). */
const pointMs = 300_000;
/** How often counters are read, in real ms; what a crash of a machine may leave uncounted. */
const readAtLeastEveryMs = 15_000;
const readAtMostEveryMs = 500;
const blockBytes = 4096;
const readAtOnce = 4;

interface Reading {
  atMs: number;
  counters: MachineCounters;
}

/**
 * Bytes since the counters stood as the row says. Counters begin anew with a start of the machine, and one that went back began anew
 * with its network device, which an address that is moved takes along. Pure.
 */
export const carriedSince = (
  meter: Pick<MeterRow, "since" | "bytesIn" | "bytesOut"> | undefined,
  { since, network }: MachineCounters,
): { bytesIn: number; bytesOut: number } => {
  if (network === null) return { bytesIn: 0, bytesOut: 0 };
  const { in: bytesIn, out: bytesOut } = network.public;
  const goesOn = meter !== undefined && meter.since === since && bytesIn >= meter.bytesIn && bytesOut >= meter.bytesOut;
  return goesOn ? { bytesIn: bytesIn - meter.bytesIn, bytesOut: bytesOut - meter.bytesOut } : { bytesIn, bytesOut };
};

/** The averages between two readings of the same run of a machine; undefined when it was started anew in between. Pure. */
export const pointBetween = (before: Reading, now: Reading): StatPoint | undefined => {
  const seconds = (now.atMs - before.atMs) / 1000;
  if (before.counters.since !== now.counters.since || seconds <= 0) return undefined;
  // A process that ends takes its figures along when nobody waited for it: a counter may go back, a rate may not.
  const rate = (of: (counters: MachineCounters) => number): number => Math.max(0, of(now.counters) - of(before.counters)) / seconds;
  const isCounted = before.counters.network !== null && now.counters.network !== null;
  return {
    atMs: now.atMs,
    cpu: rate(({ cpuMs }) => cpuMs) / 10,
    io: rate(({ ioBytes }) => ioBytes) / blockBytes,
    network: isCounted
      ? {
          in: rate(({ network }) => network?.public.in ?? 0) * 8,
          out: rate(({ network }) => network?.public.out ?? 0) * 8,
          privateIn: rate(({ network }) => network?.private.in ?? 0) * 8,
          privateOut: rate(({ network }) => network?.private.out ?? 0) * 8,
        }
      : null,
  };
};

/** Reads what the runtime counts: public bytes go to the month they were read in, the rest is remembered as graphs, in memory. */
export const openInstanceMeter = ({ cloud, driver, onFailure }: MeterOptions): InstanceMeter => {
  const { store, clock } = cloud;
  const everyMs = Math.max(readAtMostEveryMs, clock.simulated(pointMs));
  /** The reading that the next point begins at. */
  const begun = new Map<number, Reading>();

  const draw = (id: number, now: Reading): void => {
    const before = begun.get(id);
    if (before && before.counters.since === now.counters.since && now.atMs - before.atMs < everyMs) return;
    const point = before && pointBetween(before, now);
    begun.set(id, now);
    if (point) observe(store, "stats", id, { points: [...(observed(store, "stats", id)?.points ?? []), point].slice(-keptPoints) });
  };

  const count = async (row: InstanceRow, counters: MachineCounters): Promise<void> => {
    if (counters.network === null) return;
    const before = store.list("meter").find((meter) => meter.instanceId === row.id);
    const { in: publicIn, out: publicOut } = counters.network.public;
    const stand = { since: counters.since, bytesIn: publicIn, bytesOut: publicOut };
    if (before?.since === stand.since && before.bytesIn === publicIn && before.bytesOut === publicOut) return;
    await store.commit((tx) => {
      const meter = tx.list("meter").find((entry) => entry.instanceId === row.id);
      const bytes = carriedSince(meter, counters);
      if (meter) tx.update("meter", meter.id, stand);
      else tx.insert("meter", { instanceId: row.id, ...stand });
      addTransfer(tx, clock.now(), { kind: "instance", entityId: row.id, region: row.region }, bytes);
    });
  };

  const measure = async (id: number): Promise<void> => {
    const row = store.get("instance", id);
    if (!row || observed(store, "instance", id)?.running !== true) return;
    const counters = await driver.counters(id);
    if (!counters) return;
    draw(id, { atMs: clock.now(), counters });
    await count(row, counters);
  };

  /** One reading of a machine after the other: an older one written after a newer one would look like counters that began anew. */
  const turns = new Map<number, Promise<void>>();
  const measureOrTell = (id: number): Promise<void> => {
    const turn = (turns.get(id) ?? Promise.resolve())
      .then(() => measure(id))
      .catch((error) => onFailure(id, error))
      .finally(() => turns.get(id) === turn && turns.delete(id));
    turns.set(id, turn);
    return turn;
  };

  const forgetGone = async (): Promise<void> => {
    for (const id of [...begun.keys()]) {
      if (store.get("instance", id)) continue;
      begun.delete(id);
      observe(store, "stats", id, undefined);
    }
    const gone = store.list("meter").filter((meter) => !store.get("instance", meter.instanceId));
    if (gone.length > 0) await store.commit((tx) => gone.forEach((meter) => void tx.remove("meter", meter.id)));
  };

  const measureAll = async (): Promise<void> => {
    const ids = store.list("instance").map((row) => row.id);
    for (let at = 0; at < ids.length; at += readAtOnce) await Promise.all(ids.slice(at, at + readAtOnce).map(measureOrTell));
    await forgetGone();
  };

  const loop = openLoop({
    clock,
    concurrency: 1,
    onFailure,
    reconcile: async () => {
      await measureAll();
      return Math.min(readAtLeastEveryMs, everyMs);
    },
  });
  loop.poke(0);

  return { measure: measureOrTell, close: () => loop.close().then(measureAll) };
};
