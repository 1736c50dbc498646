import { exchangeAddresses } from "../resources/addresses/address.js";
import type { Cloud, Tx } from "../resources/cloud.js";
import { allocatedMb } from "../resources/disks/disk.js";
import { moveEvent } from "../resources/events/event.js";
import type { InstanceRow } from "../resources/instances/instance.js";
import type { Job } from "../resources/instances/job.js";
import { typeEntry } from "../resources/instances/rules.js";
import type { RuntimeDriver } from "../runtime/driver.js";
import { fillCopies } from "./disk-jobs.js";
import { machineSpec } from "./machine-spec.js";
import { unmountVolumes } from "./volumes.js";

type Of<V extends Job["verb"]> = Extract<Job, { verb: V }>;

interface Ground {
  cloud: Cloud;
  driver: RuntimeDriver;
}

/** The row as it is now, if this job is still its job. */
const current = (tx: Tx, row: InstanceRow, job: Job): InstanceRow | undefined => {
  const now = tx.get("instance", row.id);
  return now?.job?.eventId === job.eventId ? now : undefined;
};

/** Takes the machine of a row off; where there is none yet, none is made. */
const powerOff = async ({ cloud, driver }: Ground, row: InstanceRow, signal: AbortSignal): Promise<void> => {
  const [machine] = await driver.list(row.id);
  if (machine?.running) await driver.ensure({ ...machineSpec(cloud, row), running: false }, signal);
};

/** Another start is due once the change is in the row. */
const nextBoots = (row: InstanceRow): number => (row.power === "on" ? row.boots + 1 : row.boots);

const growDisk = (tx: Tx, cloud: Cloud, row: InstanceRow, diskId: number | null, type: string): void => {
  const disk = diskId === null ? undefined : tx.get("disk", diskId);
  const size = (typeEntry(cloud, type)?.disk ?? 0) - allocatedMb(tx, row.id, disk?.id);
  if (disk && size > disk.size) tx.update("disk", disk.id, { size, updatedMs: cloud.clock.now() });
};

/** Makes the limits those of the new plan, then says so in the row: with the machine off in between, or under it. */
export const changeType = async (ground: Ground, row: InstanceRow, job: Of<"resize" | "mutate">, signal: AbortSignal): Promise<void> => {
  const { cloud, driver } = ground;
  if (row.type === job.type) return; // a crash came between this and the start of the machine
  const [machine] = await driver.list(row.id);
  if (job.warm && machine?.running) await driver.ensure(machineSpec(cloud, { ...row, type: job.type }), signal);
  else await powerOff(ground, row, signal);
  await cloud.store.commit((tx) => {
    const now = current(tx, row, job);
    if (!now) return;
    growDisk(tx, cloud, now, job.growDiskId, job.type);
    tx.update("instance", now.id, { type: job.type, boots: job.warm ? now.boots : nextBoots(now) });
  });
};

/** The machine is off while its addresses change for those of the other region. */
export const changeRegion = async (ground: Ground, row: InstanceRow, job: Of<"migrate">, signal: AbortSignal): Promise<void> => {
  const { cloud } = ground;
  if (row.region === job.region) return; // a crash came between this and the start of the machine
  await powerOff(ground, row, signal);
  await cloud.store.commit((tx) => {
    const now = current(tx, row, job);
    if (!now) return;
    const moved = tx.update("instance", now.id, { region: job.region, boots: nextBoots(now) });
    exchangeAddresses(tx, cloud, moved);
  });
};

/** Old disks go; what is new is made when it is booted. */
export const dropDisks = async ({ cloud, driver }: Ground, row: InstanceRow, job: Of<"rebuild">): Promise<void> => {
  await unmountVolumes(cloud, driver, row.id);
  for (const name of job.dropped) await driver.discard(name);
};

/** Fills the copies; source and target are free again together. */
export const fillClone = async ({ cloud, driver }: Ground, row: InstanceRow, job: Of<"clone">): Promise<void> => {
  await fillCopies(cloud, driver, row.id);
  await endClone(cloud, row, job, "finished");
};

const endClone = (cloud: Cloud, row: InstanceRow, job: Of<"clone">, status: "finished" | "failed", message?: string): Promise<void> =>
  cloud.store.commit((tx) => {
    if (!current(tx, row, job)) return;
    moveEvent(tx, cloud, job.eventId, status, message);
    tx.update("instance", row.id, { job: null });
    const source = tx.get("instance", job.source);
    if (source?.job?.eventId === job.eventId) tx.update("instance", source.id, { job: null });
  });

/** What could not be copied is no disk. */
export const failClone = async (cloud: Cloud, row: InstanceRow, job: Of<"clone">, reason: string): Promise<void> => {
  await cloud.store.commit((tx) => {
    for (const disk of tx.list("disk")) if (disk.instanceId === row.id && disk.copyOf !== null) tx.remove("disk", disk.id);
  });
  await endClone(cloud, row, job, "failed", reason);
};

/** The source of a clone waits for its target; it is free when that is gone, or has another job. */
export const awaitClone = (cloud: Cloud, row: InstanceRow, job: Of<"clone_source">): Promise<void> =>
  cloud.store.commit((tx) => {
    const now = current(tx, row, job);
    if (now && tx.get("instance", job.target)?.job?.eventId !== job.eventId) tx.update("instance", now.id, { job: null });
  });
