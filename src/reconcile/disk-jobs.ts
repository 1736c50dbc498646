import { Fault, reasonOf } from "../kernel/fault.js";
import type { Cloud, Tx } from "../resources/cloud.js";
import { type DiskRow, disksOf } from "../resources/disks/disk.js";
import { moveEvent } from "../resources/events/event.js";
import type { InstanceRow } from "../resources/instances/instance.js";
import type { Job } from "../resources/instances/job.js";
import { emptySlots } from "../resources/profiles/device-slots.js";
import type { RuntimeDriver } from "../runtime/driver.js";

export type DiskJob = Extract<Job, { diskId: number }>;

/**
 * Makes the file system that a disk's row calls a copy. A source that was never booted has none yet: then the new disk is deployed as the
 * source would be.
 */
const fillCopy = async (cloud: Cloud, driver: Pick<RuntimeDriver, "copy">, disk: DiskRow): Promise<void> => {
  const { copyOf } = disk;
  if (copyOf === null) return;
  const isCopied = await driver.copy(copyOf, disk.fingerprint);
  await cloud.store.commit((tx) => {
    const source = tx.list("disk").find((row) => row.fingerprint === copyOf);
    if (!isCopied && !source) throw new Fault("unavailable", [{ reason: `What the disk ${disk.label} is to be a copy of is not there any more.` }]);
    const deployment = isCopied || !source ? {} : { rootPassHash: source.rootPassHash, authorizedKeys: source.authorizedKeys, script: source.script };
    if (tx.get("disk", disk.id)) tx.update("disk", disk.id, { ...deployment, copyOf: null, isBlank: !isCopied, updatedMs: cloud.clock.now() });
  });
};

/** Every copy among an instance's disks. */
export const fillCopies = async (cloud: Cloud, driver: Pick<RuntimeDriver, "copy">, instance: number): Promise<void> => {
  for (const disk of disksOf(cloud.store, instance)) await fillCopy(cloud, driver, disk);
};

/** What has to be done in the world. */
const act = async (cloud: Cloud, driver: RuntimeDriver, job: DiskJob, disk: DiskRow): Promise<void> => {
  if (job.verb === "disk_delete") await driver.discard(disk.fingerprint);
  if (job.verb === "disk_duplicate") await fillCopy(cloud, driver, disk);
  if (job.verb === "password_reset" && disk.rootPassHash !== null) await driver.setRootPassword(disk.fingerprint, disk.rootPassHash);
};

/** What the rows say when it is done. */
const settle = (tx: Tx, cloud: Cloud, row: InstanceRow, job: DiskJob): void => {
  if (job.verb === "disk_delete") {
    tx.remove("disk", job.diskId);
    emptySlots(tx, row.id, { diskId: job.diskId });
    if (row.diskId === job.diskId) tx.update("instance", row.id, { diskId: null });
  }
  if (job.verb === "disk_resize") tx.update("disk", job.diskId, { size: job.size, updatedMs: cloud.clock.now() });
};

/** A job on one disk: it leaves the machine's power alone, and so does its failure. */
export const diskJob = async ({ cloud, driver }: { cloud: Cloud; driver: RuntimeDriver }, row: InstanceRow, job: DiskJob): Promise<void> => {
  const end = (status: "finished" | "failed", message: string | undefined, change: (tx: Tx, now: InstanceRow) => void): Promise<void> =>
    cloud.store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (now?.job?.eventId !== job.eventId) return;
      change(tx, now);
      moveEvent(tx, cloud, job.eventId, status, message);
      tx.update("instance", row.id, { job: null });
    });
  const disk = cloud.store.get("disk", job.diskId);
  try {
    if (disk) await act(cloud, driver, job, disk);
  } catch (error) {
    return end("failed", reasonOf(error), (tx) => {
      if (job.verb === "disk_duplicate") tx.remove("disk", job.diskId);
    });
  }
  return end("finished", undefined, (tx, now) => {
    if (disk) settle(tx, cloud, now, job);
  });
};
