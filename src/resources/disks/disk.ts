import { randomBytes } from "node:crypto";
import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { Cloud, CloudStore, Reader, Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";
import type { Deployment } from "../instances/deployment.js";
import type { InstanceRow } from "../instances/instance.js";

export const filesystems = ["raw", "swap", "ext3", "ext4", "initrd"] as const;

/** A disk of an instance (contract 9.6). The one that the booted config's root device names is the machine's file system. */
export interface DiskRow extends Row, Deployment {
  instanceId: number;
  label: string;
  /** MB */
  size: number;
  filesystem: (typeof filesystems)[number];
  /**
   * What the runtime calls this file system. A machine with another name has another file system, so nothing else decides whether a
   * machine is made anew; random, so that a name is never met again.
   */
  fingerprint: string;
  /** The file system it is to be a copy of; null when it has been made, or is made from `image`. */
  copyOf: string | null;
  /** Nothing was ever started from it, and it is no copy: it holds nothing yet. Absent in rows of before this was noted. */
  isBlank?: boolean;
  /** True once the deploy script's end was told by an event. */
  scriptReported: boolean;
  createdMs: number;
  updatedMs: number;
}

const byInstance = (row: DiskRow) => row.instanceId;

export const disksOf = (reader: Reader, instanceId: number): readonly DiskRow[] => reader.find("disk", byInstance, instanceId);

/** Is there a system on it: was it made from an image, or copied from a disk that was? */
export const isBootable = (row: DiskRow): boolean => row.image !== null;

/** MB that an instance's disks take, `except` one. */
export const allocatedMb = (reader: Reader, instanceId: number, except?: number): number =>
  disksOf(reader, instanceId).reduce((sum, row) => (row.id === except ? sum : sum + row.size), 0);

export const freshFingerprint = (): string => randomBytes(16).toString("hex");

export const noDeployment: Deployment = { image: null, rootPassHash: null, authorizedKeys: [], script: null };

export const requireDisk = (reader: Pick<CloudStore | Tx, "get">, instanceId: number | undefined, id: number | undefined): DiskRow => {
  const row = reader.get("disk", id ?? 0);
  if (!row || row.instanceId !== instanceId) throw notFound();
  return row;
};

export const insertDisk = (
  tx: Tx,
  cloud: Pick<Cloud, "clock">,
  disk: Pick<DiskRow, "instanceId" | "label" | "size" | "filesystem"> & Partial<DiskRow>,
): DiskRow => {
  const now = cloud.clock.now();
  return tx.insert("disk", {
    fingerprint: freshFingerprint(),
    copyOf: null,
    scriptReported: false,
    isBlank: disk.copyOf === undefined || disk.copyOf === null,
    createdMs: now,
    updatedMs: now,
    ...noDeployment,
    ...disk,
  });
};

/** `Debian 12 Disk` (contract 9.1). */
export const imageDiskLabel = (imageLabel: string): string => `${imageLabel} Disk`.slice(0, 48);
export const swapDiskLabel = (sizeMb: number): string => `${sizeMb} MB Swap Image`;

export const diskEntity = (row: DiskRow): Entity => ({ kind: "disk", id: row.id, label: row.label, parentId: row.instanceId });

/** Contract 9.6, from the job of its instance. */
const diskStatus = (instance: InstanceRow | undefined, row: DiskRow): string => {
  const job = instance?.job;
  if (job?.verb === "delete" || (job?.verb === "disk_delete" && job.diskId === row.id)) return "deleting";
  const isMaking =
    job?.verb === "create" || job?.verb === "rebuild" || (job !== null && job !== undefined && "diskId" in job && job.diskId === row.id);
  return isMaking || row.copyOf !== null ? "not ready" : "ready";
};

/** Contract 9.6. */
export const diskView = (reader: Pick<CloudStore | Tx, "get">, row: DiskRow) => ({
  id: row.id,
  label: row.label,
  status: diskStatus(reader.get("instance", row.instanceId), row),
  size: row.size,
  filesystem: row.filesystem,
  created: wireTime(row.createdMs),
  updated: wireTime(row.updatedMs),
  diskEncryption: "disabled",
});
