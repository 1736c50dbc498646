import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { type DiskRow, disksOf, freshFingerprint, isBootable } from "../disks/disk.js";
import type { InstanceRow } from "../instances/instance.js";
import { profilesOf } from "../profiles/profile.js";

/** A disk as it was. `source` is what the runtime calls it, `copy` what it calls the copy; null for a disk that holds no system. */
export interface BackedUpDisk {
  label: string;
  /** MB */
  size: number;
  filesystem: DiskRow["filesystem"];
  image: string | null;
  source: string | null;
  copy: string | null;
}

/** A backup or snapshot of an instance's disks (contract 9.7). */
export interface BackupRow extends Row {
  instanceId: number;
  type: "auto" | "snapshot";
  /** Null for an automatic one. */
  label: string | null;
  status: "pending" | "running" | "successful" | "failed";
  region: string;
  createdMs: number;
  updatedMs: number;
  finishedMs: number | null;
  /** The instance's image. */
  image: string | null;
  /** Labels of its config profiles. */
  configs: string[];
  /** The one that boots first. */
  disks: BackedUpDisk[];
  /** The event of its making; an automatic one has none. */
  eventId: number | null;
}

const byInstance = (row: BackupRow): number => row.instanceId;

/** In order of age, the oldest first. */
export const backupsOf = (reader: Reader, instanceId: number): readonly BackupRow[] => reader.find("backup", byInstance, instanceId);

export const isUnderWay = (row: BackupRow): boolean => row.status === "pending" || row.status === "running";

export const requireBackup = (reader: Reader, instanceId: number | undefined, id: number | undefined): BackupRow => {
  const row = reader.get("backup", id ?? 0);
  if (!row || row.instanceId !== instanceId) throw notFound();
  return row;
};

/** What there is to back up, the disk that boots first; empty when the instance has no system on any disk. */
export const disksToBackUp = (reader: Reader, row: InstanceRow): BackedUpDisk[] => {
  const disks = disksOf(reader, row.id);
  if (!disks.some(isBootable)) return [];
  const first = (disk: DiskRow): number => (disk.id === row.diskId ? 0 : isBootable(disk) ? 1 : 2);
  return [...disks]
    .sort((a, b) => first(a) - first(b) || a.id - b.id)
    .map((disk) => ({
      label: disk.label,
      size: disk.size,
      filesystem: disk.filesystem,
      image: disk.image,
      source: isBootable(disk) ? disk.fingerprint : null,
      copy: isBootable(disk) ? freshFingerprint() : null,
    }));
};

/** Adds the row; the backups loop makes it true. */
export const insertBackup = (
  tx: Tx,
  cloud: Pick<Cloud, "clock">,
  instance: InstanceRow,
  what: Pick<BackupRow, "type" | "label" | "eventId" | "disks">,
): BackupRow => {
  const now = cloud.clock.now();
  return tx.insert("backup", {
    instanceId: instance.id,
    status: "pending",
    region: instance.region,
    createdMs: now,
    updatedMs: now,
    finishedMs: null,
    image: instance.image,
    configs: profilesOf(tx, instance.id).map((profile) => profile.label),
    ...what,
  });
};

export const dropBackups = (tx: Tx, instanceId: number): void => {
  for (const row of backupsOf(tx, instanceId)) tx.remove("backup", row.id);
};

/** Contract 9.7. */
export const backupView = (row: BackupRow) => ({
  id: row.id,
  region: row.region,
  type: row.type,
  status: row.status,
  label: row.label,
  created: wireTime(row.createdMs),
  updated: wireTime(row.updatedMs),
  finished: row.finishedMs === null ? null : wireTime(row.finishedMs),
  configs: row.configs,
  disks: row.disks.map(({ label, size, filesystem }) => ({ label, size, filesystem })),
  available: row.status === "successful",
});

/** Contract 9.7: the newest of each that succeeded, and what is under way. */
export const backupsView = (reader: Reader, instanceId: number) => {
  const rows = [...backupsOf(reader, instanceId)].reverse();
  const snapshots = rows.filter((row) => row.type === "snapshot");
  const shown = (row: BackupRow | undefined) => (row === undefined ? null : backupView(row));
  return {
    automatic: rows.filter((row) => row.type === "auto").map(backupView),
    snapshot: {
      current: shown(snapshots.find((row) => row.status === "successful")),
      inProgress: shown(snapshots.find(isUnderWay)),
    },
  };
};

/** The `backups` member of an instance (contract 9.1). */
export const backupsSummary = (reader: Reader, row: InstanceRow) => {
  const finished = backupsOf(reader, row.id).flatMap((backup) => (backup.status === "successful" ? (backup.finishedMs ?? []) : []));
  return {
    enabled: row.backupsEnabled,
    available: finished.length > 0,
    schedule: row.backupsSchedule,
    lastSuccessful: finished.length > 0 ? wireTime(Math.max(...finished)) : null,
  };
};
