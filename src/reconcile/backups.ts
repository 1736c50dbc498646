import type { Disposable } from "../kernel/closers.js";
import { Fault, reasonOf } from "../kernel/fault.js";
import { type BackupRow, backupsOf, disksToBackUp, insertBackup, isUnderWay } from "../resources/backups/backup.js";
import type { Cloud, Tx } from "../resources/cloud.js";
import { moveEvent } from "../resources/events/event.js";
import { isDeleting } from "../resources/instances/instance.js";
import type { RuntimeDriver } from "../runtime/driver.js";
import { dailySlots, slotHour } from "./backup-slots.js";
import { openLoop, type Turn } from "./loop.js";

interface BackupsOptions {
  cloud: Cloud;
  driver: Pick<RuntimeDriver, "copy" | "discard">;
  onFailure(backup: number, error: unknown): void;
}

/** Automatic backups that are kept of an instance. */
const keptAutomatic = 3;
/** A slot that comes sooner is waited for this long, in real ms: nothing spins, however fast time goes. */
const shortestWaitMs = 1_000;

/** What a new one takes the place of. */
const outlived = (tx: Tx, row: BackupRow): BackupRow[] => {
  const others = backupsOf(tx, row.instanceId).filter((other) => other.type === row.type && other.id < row.id && !isUnderWay(other));
  return row.type === "snapshot" ? others : others.slice(0, Math.max(0, others.length - keptAutomatic + 1));
};

/** Makes backups, removes the copies of those that are gone, and begins one a day where that was asked for. */
export const openBackups = ({ cloud, driver, onFailure }: BackupsOptions): Disposable => {
  const { store, clock } = cloud;
  /** What is to be dropped when a row goes; after a crash the machines loop drops what no row names. */
  const copies = new Map<number, string[]>();

  const make = async (row: BackupRow, signal: AbortSignal): Promise<void> => {
    await store.commit((tx) => {
      if (tx.get("backup", row.id)) tx.update("backup", row.id, { status: "running", updatedMs: clock.now() });
      if (row.eventId !== null) moveEvent(tx, cloud, row.eventId, "started");
    });
    const end = (status: "successful" | "failed", message?: string): Promise<void> =>
      store.commit((tx) => {
        if (row.eventId !== null) moveEvent(tx, cloud, row.eventId, status === "successful" ? "finished" : "failed", message);
        if (!tx.get("backup", row.id)) return;
        const now = clock.now();
        const made = tx.update("backup", row.id, { status, updatedMs: now, finishedMs: status === "successful" ? now : null });
        if (status === "successful") for (const old of outlived(tx, made)) tx.remove("backup", old.id);
      });
    try {
      for (const [index, disk] of row.disks.entries()) {
        if (disk.source === null || disk.copy === null || (await driver.copy(disk.source, disk.copy)) || index > 0) continue;
        const reason = "There is nothing on the disk yet: it is filled when the instance boots for the first time. Boot it once.";
        throw new Fault("unavailable", [{ reason }]);
      }
    } catch (error) {
      if (signal.aborted) throw error;
      return end("failed", reasonOf(error));
    }
    return end("successful");
  };

  const reconcile = async (id: number, { signal }: Turn): Promise<number | undefined> => {
    const row = store.get("backup", id);
    if (!row) {
      for (const copy of copies.get(id) ?? []) await driver.discard(copy);
      copies.delete(id);
      return undefined;
    }
    copies.set(
      id,
      row.disks.flatMap(({ copy }) => copy ?? []),
    );
    if (isUnderWay(row)) await make(row, signal);
    return undefined;
  };

  /** One a day and instance: the last slot that came without one. Keys are instances. */
  const schedule = async (id: number): Promise<number | undefined> => {
    const row = store.get("instance", id);
    if (!row?.backupsEnabled || isDeleting(row)) return undefined;
    const sinceMs = row.backupsSinceMs ?? row.createdMs;
    const { lastMs, nextMs } = dailySlots(sinceMs, clock.now(), slotHour(row.backupsSchedule.window), clock.simulated(1));
    const newestMs = Math.max(sinceMs, ...backupsOf(store, id).flatMap((backup) => (backup.type === "auto" ? backup.createdMs : [])));
    if (lastMs > newestMs && !row.job) {
      await store.commit((tx) => {
        const now = tx.get("instance", id);
        if (!now?.backupsEnabled || now.job || backupsOf(tx, id).some((backup) => backup.type === "auto" && isUnderWay(backup))) return;
        const disks = disksToBackUp(tx, now);
        // One that failed is shown until the next is tried.
        for (const old of backupsOf(tx, id)) if (old.type === "auto" && old.status === "failed") tx.remove("backup", old.id);
        if (disks.length > 0) insertBackup(tx, cloud, now, { type: "auto", label: null, eventId: null, disks });
      });
    }
    return Math.max(shortestWaitMs, nextMs - clock.now());
  };

  const making = openLoop({ reconcile, clock, onFailure, concurrency: 2 });
  const scheduling = openLoop({ reconcile: schedule, clock, onFailure, concurrency: 4 });
  const watching = store.watch((kind, id) => {
    if (kind === "backup") making.poke(id);
    if (kind === "instance" && store.get("instance", id)?.backupsEnabled) scheduling.poke(id);
  });
  for (const row of store.list("backup")) making.poke(row.id);
  for (const row of store.list("instance")) if (row.backupsEnabled) scheduling.poke(row.id);

  return {
    close: async () => {
      await watching.close();
      await scheduling.close();
      await making.close();
    },
  };
};
