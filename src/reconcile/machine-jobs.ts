import { reasonOf } from "../kernel/fault.js";
import { type FreedAddressRow, freedOf, releaseAddresses } from "../resources/addresses/address.js";
import { standIns } from "../resources/addresses/carrier.js";
import { dropBackups } from "../resources/backups/backup.js";
import { type Cloud, observed, type Tx } from "../resources/cloud.js";
import { disksOf } from "../resources/disks/disk.js";
import { moveEvent } from "../resources/events/event.js";
import type { InstanceRow } from "../resources/instances/instance.js";
import type { Job } from "../resources/instances/job.js";
import { clearLayout } from "../resources/instances/layout.js";
import { startJob } from "../resources/instances/start-job.js";
import { profileEntity } from "../resources/profiles/profile.js";
import { freeVolumes } from "../resources/volumes/volume.js";
import type { Machine, RuntimeDriver } from "../runtime/driver.js";
import { bootRemarks } from "./boot-remarks.js";
import { awaitClone, changeRegion, changeType, dropDisks, failClone, fillClone } from "./change-jobs.js";
import { diskJob, fillCopies } from "./disk-jobs.js";
import { machineSpec } from "./machine-spec.js";
import { unmountVolumes } from "./volumes.js";

/** What the jobs need of the loop that runs them. */
export interface JobGround {
  cloud: Cloud;
  driver: RuntimeDriver;
  /** What exists of an instance, asked now. */
  look(id: number): Promise<Machine | undefined>;
  /** Tells what was seen of an instance. */
  see(row: InstanceRow, machine: Machine | undefined, problem?: string | null): void;
  /** The watchdog's own try failed: it waits again. */
  rewait(id: number): void;
  /** Reads what the machine used so far; with its stop that is forgotten. */
  measure(id: number): Promise<void>;
  /** What a machine surely has no more may be given to others. */
  letGo(freed: readonly FreedAddressRow[]): Promise<void>;
}

/** Writes the end of a job, unless the row has moved on meanwhile (deleted, say). */
const endJob = (cloud: Cloud, row: InstanceRow, job: Job, end: (tx: Tx, row: InstanceRow) => void): Promise<void> =>
  cloud.store.commit((tx) => {
    const now = tx.get("instance", row.id);
    if (now?.job?.eventId === job.eventId) end(tx, now);
  });

const removeInstance = async ({ cloud, driver, see, measure }: JobGround, row: InstanceRow, job: Job): Promise<void> => {
  await cloud.store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started"));
  await measure(row.id);
  // Told first, so that balancers stop sending to it before it is gone.
  see(row, undefined);
  try {
    await unmountVolumes(cloud, driver, row.id);
    await driver.remove(row.id);
    for (const disk of disksOf(cloud.store, row.id)) await driver.discard(disk.fingerprint);
  } catch (error) {
    // It is tried again; meanwhile its event says why the instance is still there.
    await cloud.store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started", reasonOf(error)));
    throw error;
  }
  await cloud.store.commit((tx) => {
    releaseAddresses(tx, row);
    freeVolumes(tx, cloud, row);
    clearLayout(tx, row.id);
    dropBackups(tx, row.id);
    tx.remove("instance", row.id);
    moveEvent(tx, cloud, job.eventId, "finished");
  });
};

/** What was deployed is booted as a job with an event of its own (contract 15.3), unless it shall stay off. */
const endDeployment = ({ cloud }: JobGround, row: InstanceRow, job: Job): Promise<void> =>
  endJob(cloud, row, job, (tx, now) => {
    moveEvent(tx, cloud, job.eventId, "finished");
    if (now.power === "off") return void tx.update("instance", row.id, { job: null });
    const profile = now.profileId === null ? undefined : tx.get("profile", now.profileId);
    startJob(tx, cloud, now, { verb: "boot" }, { username: undefined, secondary: profile && profileEntity(profile) });
  });

/** Does this verb bring the machine to what the row wants, addresses and all? */
export const fitsMachine = (verb: Job["verb"]): boolean => powerVerbs.includes(verb);

/** A change that fails before it touched the machine leaves it running. */
const changes: readonly Job["verb"][] = ["resize", "mutate", "migrate"];
const powerVerbs: readonly Job["verb"][] = ["boot", "reboot", "shutdown", "watchdog", "rescue", ...changes];

/**
 * A verb that failed is over: the reason is in its event, and a power verb leaves the instance offline; whoever asked decides what next
 * (contract 9.3). Nobody asked for the watchdog's, so the instance is still wanted on, and the watchdog waits again.
 */
const failJob = async ({ cloud, rewait }: JobGround, row: InstanceRow, job: Job, error: unknown, isRunning: boolean): Promise<void> => {
  if (job.verb === "watchdog") rewait(row.id);
  const staysOn = job.verb === "watchdog" || (isRunning && changes.includes(job.verb));
  await endJob(cloud, row, job, (tx) => {
    moveEvent(tx, cloud, job.eventId, "failed", reasonOf(error));
    tx.update("instance", row.id, { job: null, ...(staysOn ? {} : { power: "off" as const }) });
  });
};

/**
 * Before a machine comes up, those that have its addresses in its place let go: two that answer for one address would split its traffic. One
 * that cannot be brought to it keeps nobody from booting: it is said with the boot, and its own loop tries again.
 */
const claimAddresses = async ({ cloud, driver }: JobGround, row: InstanceRow, signal: AbortSignal): Promise<string[]> => {
  const remarks: string[] = [];
  for (const id of standIns(cloud.store, row.id)) {
    const other = cloud.store.get("instance", id);
    if (other?.power !== "on" || other.job || !observed(cloud.store, "instance", id)?.running) continue;
    try {
      await driver.fit(machineSpec(cloud, other), signal);
    } catch (error) {
      if (signal.aborted) throw error;
      remarks.push(`${other.label} may still answer at an address they share, and is asked again: ${reasonOf(error)}`);
    }
  }
  return remarks;
};

/** The machine as the row wants it. */
const runPower = async (ground: JobGround, row: InstanceRow, job: Job, signal: AbortSignal): Promise<void> => {
  const { cloud, driver, see, letGo } = ground;
  if (row.power === "on" || job.verb === "restore") await fillCopies(cloud, driver, row.id);
  const freed = freedOf(cloud.store, row.id);
  const spec = machineSpec(cloud, row);
  const remarks = spec.running ? await claimAddresses(ground, row, signal) : [];
  // What is off, and was never booted, is made when it is: an image may take a while to be had.
  const isNeeded = spec.running || (await driver.list(row.id)).length > 0;
  const machine: Machine = isNeeded
    ? await driver.ensure(spec, signal)
    : { instance: row.id, fingerprint: spec.fingerprint, running: false, boots: spec.boots };
  await letGo(freed);
  // Deleted meanwhile: what is being taken away must not look like something that runs.
  if (cloud.store.get("instance", row.id)?.job?.eventId === job.eventId) see(row, machine);
  await endJob(cloud, row, job, (tx, now) => {
    moveEvent(tx, cloud, job.eventId, "finished", [...bootRemarks(row.image, machine), ...remarks].join(" ") || undefined);
    if (machine.running && now.diskId !== null && tx.get("disk", now.diskId)?.isBlank) tx.update("disk", now.diskId, { isBlank: false });
    tx.update("instance", row.id, { job: null });
  });
};

/** The row after a change to it, for the machine that is to be made of it. */
const changed = ({ cloud }: JobGround, row: InstanceRow): InstanceRow => cloud.store.get("instance", row.id) ?? row;

const runWork = async (ground: JobGround, row: InstanceRow, job: Job, signal: AbortSignal): Promise<void> => {
  switch (job.verb) {
    case "disk_create":
    case "disk_delete":
    case "disk_resize":
    case "disk_duplicate":
    case "password_reset":
      return diskJob(ground, row, job);
    case "rebuild":
      // Told first, so that balancers stop sending to it before it is gone.
      ground.see(row, undefined);
      await dropDisks(ground, row, job);
      return endDeployment(ground, row, job);
    case "resize":
    case "mutate":
      await changeType(ground, row, job, signal);
      return runPower(ground, changed(ground, row), job, signal);
    case "migrate":
      await changeRegion(ground, row, job, signal);
      return runPower(ground, changed(ground, row), job, signal);
    case "clone":
      return fillClone(ground, row, job);
    default:
      return runPower(ground, row, job, signal);
  }
};

/** Does a row's job, and ends it with its event. Throws only when it is to be tried again. */
export const runJob = async (ground: JobGround, row: InstanceRow, job: Job, signal: AbortSignal): Promise<void> => {
  const { cloud } = ground;
  if (job.verb === "delete") return removeInstance(ground, row, job);
  if (job.verb === "create") return endDeployment(ground, row, job);
  if (job.verb === "clone_source") return awaitClone(cloud, row, job);
  await cloud.store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started"));
  if (fitsMachine(job.verb) || job.verb === "rebuild") await ground.measure(row.id);
  try {
    await runWork(ground, row, job, signal);
  } catch (error) {
    if (signal.aborted) throw error;
    const machine = await ground.look(row.id).catch(() => undefined);
    ground.see(row, machine, reasonOf(error));
    if (job.verb === "clone") return failClone(cloud, row, job, reasonOf(error));
    await failJob(ground, row, job, error, machine?.running === true);
  }
};
