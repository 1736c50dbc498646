import type { Disposable } from "../kernel/closers.js";
import { Fault, reasonOf } from "../kernel/fault.js";
import { type Cloud, observe, observed, type Tx } from "../resources/cloud.js";
import { moveEvent, recordEvent } from "../resources/events/event.js";
import { type InstanceRow, instanceEntity, isDeleting } from "../resources/instances/instance.js";
import { emptySlots } from "../resources/profiles/device-slots.js";
import { type ObservedVolume, type VolumeJob, type VolumeRow, volumeEntity, volumeJob, volumesOf } from "../resources/volumes/volume.js";
import type { RuntimeDriver, VolumeSpec, VolumeState } from "../runtime/driver.js";
import { isSame } from "./known-rows.js";
import { openLoop } from "./loop.js";
import { repeat } from "./repeat.js";

type Volumes = Pick<RuntimeDriver, "volumes">;

const tooLate = () =>
  new Fault("unavailable", [
    {
      reason:
        "It was to be there for this boot only, and this runtime mounts it at a boot. Attach it while the instance is off, or for all boots (`persist_across_boots`).",
    },
  ]);

interface VolumesOptions {
  cloud: Cloud;
  driver: Volumes;
  onFailure(volume: number, error: unknown): void;
}

const gibibyte = 2 ** 30;
/** Verbs of an instance that end what it has mounted. */
const endings: ReadonlySet<string> = new Set([
  "boot",
  "reboot",
  "shutdown",
  "watchdog",
  "rebuild",
  "rescue",
  "resize",
  "restore",
  "mutate",
  "migrate",
]);
const startsAnew = (instance: InstanceRow | undefined): boolean => endings.has(instance?.job?.verb ?? "");
/** Mounts that somebody ended behind our back are seen at the latest after this, in real ms. */
const resyncMs = 15_000;

/** What the runtime is to make of a row; pure. A machine that is being deleted, or a volume that is being detached, is mounted nowhere. */
const volumeSpec = (cloud: Pick<Cloud, "store">, row: VolumeRow): VolumeSpec => {
  const instance = row.instanceId === null ? undefined : cloud.store.get("instance", row.instanceId);
  const verb = row.jobs[0]?.verb;
  const isOut = !instance || isDeleting(instance) || verb === "detach" || verb === "create";
  return { volume: row.id, label: row.label, bytes: row.sizeGb * gibibyte, copyOf: row.copyOf, instance: isOut ? null : instance.id };
};

/** Before a machine goes: what is written to its volumes is on them, and they are out of it. */
export const unmountVolumes = async ({ store }: Pick<Cloud, "store">, { volumes }: Volumes, instance: number): Promise<void> => {
  await Promise.all(volumesOf(store, instance).map((row) => row.made && volumes.ensure({ ...volumeSpec({ store }, row), instance: null })));
};

/** Makes volumes what their rows say: there, of their size, mounted in the machine they are attached to whenever that runs. */
export const openVolumes = ({ cloud, driver, onFailure }: VolumesOptions): Disposable => {
  const { store } = cloud;
  const { volumes } = driver;

  const see = (id: number, seen: ObservedVolume | undefined): void => observe(store, "volume", id, seen);

  /** Ends the job under way, unless the row has moved on meanwhile. */
  const endJob = (
    row: VolumeRow,
    job: VolumeJob,
    status: "finished" | "failed",
    message: string | null,
    patch: (now: VolumeRow) => Partial<VolumeRow>,
  ) =>
    store.commit((tx) => {
      const now = tx.get("volume", row.id);
      if (now?.jobs[0]?.eventId !== job.eventId) return;
      moveEvent(tx, cloud, job.eventId, status, message ?? undefined);
      settle(tx, now, patch(now));
    });

  /** The job is over; what is attached to nothing any more is named by no config profile. */
  const settle = (tx: Tx, now: VolumeRow, patch: Partial<VolumeRow>): void => {
    const { instanceId } = tx.update("volume", now.id, { jobs: now.jobs.slice(1), ...patch });
    if (now.instanceId !== null && instanceId === null) emptySlots(tx, now.instanceId, { volumeId: now.id });
  };

  const detached = { instanceId: null, configId: null, forBoot: null };

  const finished = (verb: VolumeJob["verb"]): Partial<VolumeRow> =>
    verb === "create" ? { made: true, copyOf: null } : verb === "detach" ? detached : {};

  /** What a verb that failed leaves. Nothing is tried again that nobody waits for; the reason is in the event. */
  const failed = (tx: Tx, now: VolumeRow, job: VolumeJob, reason: string): Partial<VolumeRow> => {
    if (job.verb === "attach") return detached;
    if (job.verb === "resize") return { sizeGb: job.fromGb ?? now.sizeGb };
    if (job.verb !== "create") return {};
    for (const next of now.jobs.slice(1)) moveEvent(tx, cloud, next.eventId, "failed", reason);
    return { ...detached, jobs: [] };
  };

  const failJob = (row: VolumeRow, job: VolumeJob, error: unknown) =>
    store.commit((tx) => {
      const now = tx.get("volume", row.id);
      if (now?.jobs[0]?.eventId !== job.eventId) return;
      moveEvent(tx, cloud, job.eventId, "failed", reasonOf(error));
      settle(tx, now, failed(tx, now, job, reasonOf(error)));
    });

  const removeVolume = async (row: VolumeRow, job: VolumeJob): Promise<void> => {
    try {
      await volumes.remove(row.id);
    } catch (error) {
      // It is tried again; meanwhile its event says why the volume is still there.
      await store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started", reasonOf(error)));
      throw error;
    }
    await store.commit((tx) => {
      tx.remove("volume", row.id);
      moveEvent(tx, cloud, job.eventId, "finished");
    });
  };

  const runJob = async (row: VolumeRow, job: VolumeJob): Promise<void> => {
    await store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started"));
    if (job.verb === "delete") return removeVolume(row, job);
    let state: VolumeState;
    try {
      const spec = volumeSpec(cloud, row);
      if (job.verb === "attach" && spec.instance === null) throw new Fault("unavailable", [{ reason: "The instance is being deleted." }]);
      state = await volumes.ensure(spec);
      if (job.verb === "attach" && state.atNextBoot && row.forBoot !== null) throw tooLate();
    } catch (error) {
      if (job.verb === "attach") await volumes.ensure({ ...volumeSpec(cloud, row), instance: null }).catch(() => {}); // the event tells the first reason
      see(row.id, { path: null, problem: reasonOf(error) });
      return void (await failJob(row, job, error));
    }
    see(row.id, { path: state.path, problem: null });
    await endJob(row, job, "finished", state.note, () => finished(job.verb));
  };

  /** Attached for one boot only (contract 11 "persist_across_boots"), and that boot is over. */
  const isOver = (row: VolumeRow): boolean => {
    const instance = row.instanceId === null ? undefined : store.get("instance", row.instanceId);
    if (!instance || row.forBoot === null) return false;
    return instance.boots > row.forBoot || (instance.boots === row.forBoot && instance.power === "off");
  };

  const startDetach = (row: VolumeRow) =>
    store.commit((tx) => {
      const now = tx.get("volume", row.id);
      const instance = now?.instanceId == null ? undefined : tx.get("instance", now.instanceId);
      if (!now || !instance || now.jobs.length > 0) return;
      tx.update("volume", row.id, { jobs: [volumeJob(tx, cloud, now, "detach", { username: undefined, instance })] });
    });

  /** A mount that was there and cannot be had again: told once, and tried again. */
  const tellProblem = async (row: VolumeRow, error: unknown): Promise<void> => {
    const problem = reasonOf(error);
    const isKnown = observed(store, "volume", row.id)?.problem === problem;
    see(row.id, { path: null, problem });
    if (isKnown) return;
    await store.commit((tx) => {
      const instance = row.instanceId === null ? undefined : tx.get("instance", row.instanceId);
      const secondary = instance ? instanceEntity(instance) : null;
      recordEvent(tx, cloud, { action: "volume_attach", entity: volumeEntity(row), secondary, status: "failed", message: problem });
    });
  };

  const keep = async (row: VolumeRow): Promise<void> => {
    if (row.instanceId === null || !row.made) return see(row.id, undefined);
    if (isOver(row)) return startDetach(row);
    // Nothing is mounted in what does not run or is about to start anew; its start is news.
    const isUp = observed(store, "instance", row.instanceId)?.running === true && !startsAnew(store.get("instance", row.instanceId));
    if (!isUp) return see(row.id, { path: null, problem: null });
    try {
      const { path } = await volumes.ensure(volumeSpec(cloud, row));
      if (store.get("volume", row.id) === row) see(row.id, { path, problem: null });
    } catch (error) {
      await tellProblem(row, error);
      throw error;
    }
  };

  const reconcile = async (id: number): Promise<undefined> => {
    const row = store.get("volume", id);
    if (!row) {
      await volumes.remove(id);
      see(id, undefined);
    } else if (row.jobs[0]) await runJob(row, row.jobs[0]);
    else await keep(row);
    return undefined;
  };

  const loop = openLoop({ reconcile, clock: cloud.clock, onFailure, concurrency: 8 });
  const known = new Map<number, VolumeRow>();
  const watching = store.watch((kind, id) => {
    if (kind === "volume" && !isSame(known, id, store.get("volume", id))) loop.poke(id);
    if (kind === "instance") for (const row of volumesOf(store, id)) loop.poke(row.id);
  });

  /** Rows and what exists: boot, crash recovery, and the removal of what no row explains. */
  const resync = async (): Promise<void> => {
    for (const row of store.list("volume")) if (row.jobs.length > 0 || row.instanceId !== null) loop.poke(row.id);
    for (const id of await volumes.list()) if (!store.get("volume", id)) loop.poke(id);
  };
  const first = resync().catch((error) => onFailure(0, error));
  const resyncing = repeat(
    resyncMs,
    () => first.then(resync),
    (error) => onFailure(0, error),
  );

  return {
    close: async () => {
      await resyncing.close();
      await first;
      await watching.close();
      await loop.close();
    },
  };
};
