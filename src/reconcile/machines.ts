import type { Disposable } from "../kernel/closers.js";
import { reasonOf } from "../kernel/fault.js";
import { type FreedAddressRow, forgetFreed, freedOf, releaseAddresses } from "../resources/addresses/address.js";
import { type Cloud, observe, observed, type Tx } from "../resources/cloud.js";
import { moveEvent, recordEvent } from "../resources/events/event.js";
import { type InstanceRow, instanceEntity, type Job } from "../resources/instances/instance.js";
import type { Machine, MachineSpec, RuntimeDriver } from "../runtime/driver.js";
import { bootRemarks } from "./boot-remarks.js";
import { type Loop, openLoop } from "./loop.js";
import { machineSpec } from "./machine-spec.js";
import { sharedListing } from "./shared-listing.js";

export interface Machines extends Disposable {
  /** Asks the runtime what exists and looks at all of it and at every row: boot, crash recovery and orphan removal are this one call. */
  resync(): Promise<void>;
}

interface MachinesOptions {
  cloud: Cloud;
  driver: RuntimeDriver;
  onFailure(instance: number, error: unknown): void;
}

/** How long the watchdog waits before it restarts what died by itself, in simulated ms: a crash stays visible for a while, as in production. */
const watchdogMs = 120_000;
const resyncMs = 15_000;
/** Last lines of the boot log that a script's event shows. */
const shownLines = 8;

export const openMachines = ({ cloud, driver, onFailure }: MachinesOptions): Machines => {
  const { store, clock } = cloud;
  const listing = sharedListing(driver);
  /** Since when a machine that should run is known dead, real ms. Forgotten with a restart, after which nothing waits. */
  const diedAt = new Map<number, number>();
  /** Instances not looked at since this start: what should run is brought up at once. */
  const startup = new Set<number>();
  /** Instances whose addresses changed since they were last ensured. */
  const moved = new Set<number>();

  /** Who had each address when it was last told of: an assignment concerns the former holder too. */
  const holders = new Map(store.list("address").map((row) => [row.id, row.instanceId]));

  /** Writes the end of a job, unless the row has moved on meanwhile (deleted, say). */
  const endJob = (row: InstanceRow, job: Job, end: (tx: Tx, row: InstanceRow) => void): Promise<void> =>
    store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (now?.job?.eventId === job.eventId) end(tx, now);
    });

  const finishJob = (row: InstanceRow, job: Job, message?: string) =>
    endJob(row, job, (tx) => {
      moveEvent(tx, cloud, job.eventId, "finished", message);
      tx.update("instance", row.id, { job: null });
    });

  /**
   * A verb that failed is over: the reason is in its event and the instance goes offline; whoever asked decides what next (contract 9.3).
   * Nobody asked for the watchdog's, so the instance is still wanted on, and the watchdog waits again.
   */
  const failJob = async (row: InstanceRow, job: Job, error: unknown): Promise<void> => {
    if (job.verb === "watchdog") diedAt.set(row.id, clock.now());
    await endJob(row, job, (tx) => {
      moveEvent(tx, cloud, job.eventId, "failed", reasonOf(error));
      tx.update("instance", row.id, { job: null, ...(job.verb === "watchdog" ? {} : { power: "off" as const }) });
    });
  };

  const see = (row: InstanceRow, machine: Machine | undefined, problem: string | null = null): void =>
    observe(store, "instance", row.id, {
      running: machine?.running ?? false,
      boots: machine?.boots ?? 0,
      problem,
      ...(machine?.substitutedImage ? { substitutedImage: machine.substitutedImage } : {}),
    });

  const removeInstance = async (row: InstanceRow, job: Job): Promise<void> => {
    await store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started"));
    // Told first, so that balancers stop sending to it before it is gone.
    see(row, undefined);
    try {
      await driver.remove(row.id);
    } catch (error) {
      // It is tried again; meanwhile its event says why the instance is still there.
      await store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started", reasonOf(error)));
      throw error;
    }
    await store.commit((tx) => {
      releaseAddresses(tx, row);
      tx.remove("instance", row.id);
      moveEvent(tx, cloud, job.eventId, "finished");
    });
  };

  /** A create is done once the row stands; what boots goes on as a boot with an event of its own (contract 15.3). */
  const endCreate = (row: InstanceRow, job: Job): Promise<void> =>
    endJob(row, job, (tx, now) => {
      moveEvent(tx, cloud, job.eventId, "finished");
      const boot = (): Job => ({
        verb: "boot",
        eventId: recordEvent(tx, cloud, { action: "instance_boot", entity: instanceEntity(now), status: "scheduled" }),
      });
      tx.update("instance", row.id, { job: now.power === "on" ? boot() : null });
    });

  /** What this machine surely has no more may be given to others. */
  const letGo = async (freed: readonly FreedAddressRow[]): Promise<void> => {
    if (freed.length > 0) await store.commit((tx) => forgetFreed(tx, freed));
  };

  const runJob = async (row: InstanceRow, job: Job, signal: AbortSignal): Promise<void> => {
    if (job.verb === "delete") return removeInstance(row, job);
    if (job.verb === "create") return endCreate(row, job);
    await store.commit((tx) => moveEvent(tx, cloud, job.eventId, "started"));
    diedAt.delete(row.id);
    moved.delete(row.id);
    try {
      const freed = freedOf(store, row.id);
      const machine = await driver.ensure(machineSpec(cloud, row), signal);
      await letGo(freed);
      // Deleted meanwhile: what is being taken away must not look like something that runs.
      if (store.get("instance", row.id)?.job?.eventId === job.eventId) see(row, machine);
      await finishJob(row, job, bootRemarks(row.image, machine));
    } catch (error) {
      if (signal.aborted) throw error;
      const machines = await listing.fresh().catch(() => undefined);
      see(row, machines?.get(row.id), reasonOf(error));
      await failJob(row, job, error);
    }
  };

  const startWatchdog = (row: InstanceRow, action: string, message: string): Promise<void> =>
    store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (!now || now.job || now.power === "off") return;
      tx.update("instance", row.id, {
        job: { verb: "watchdog", eventId: recordEvent(tx, cloud, { action, entity: instanceEntity(now), status: "scheduled", message }) },
      });
    });

  const acceptDeath = (row: InstanceRow): Promise<void> =>
    store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (!now || now.job || now.power === "off") return;
      tx.update("instance", row.id, { power: "off" });
      recordEvent(tx, cloud, { action: "instance_shutdown", entity: instanceEntity(now), message: "It stopped by itself, and its watchdog is off." });
    });

  /** A machine that should run does not. At a start it is brought up at once, else the watchdog waits; without one it stays off. */
  const mend = async (row: InstanceRow, machine: Machine | undefined): Promise<number | undefined> => {
    see(row, machine && { ...machine, running: false });
    const message = machine ? "" : "The machine was gone, with its disk; it is made anew, and its deploy script runs again.";
    if (startup.delete(row.id)) return void (await startWatchdog(row, "host_reboot", message));
    if (!row.watchdogEnabled) return void (await acceptDeath(row));
    const since = diedAt.get(row.id) ?? clock.now();
    diedAt.set(row.id, since);
    const waitMs = since + clock.simulated(watchdogMs) - clock.now();
    if (waitMs > 0) return waitMs;
    await startWatchdog(row, "lassie_reboot", message);
    return undefined;
  };

  const tellScript = async (row: InstanceRow, machine: Machine): Promise<void> => {
    const exitCode = machine.script?.exitCode;
    if (row.scriptReported || exitCode === null || exitCode === undefined) return;
    const log = exitCode === 0 ? "" : await driver.log(row.id);
    const lines = log.trimEnd().split("\n").slice(-shownLines).join("\n");
    await store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (!now || now.scriptReported) return;
      tx.update("instance", row.id, { scriptReported: true });
      const entry = cloud.catalogue.scripts.find((candidate) => candidate.id === row.script?.id);
      recordEvent(tx, cloud, {
        action: "script_deploy",
        entity: instanceEntity(now),
        secondary: { kind: "script", id: row.script?.id ?? 0, label: row.script?.own?.label ?? entry?.label ?? "" },
        status: exitCode === 0 ? "finished" : "failed",
        message: exitCode === 0 ? "" : `The script ended with exit status ${exitCode}. Its last lines:\n${lines}`,
      });
    });
  };

  /** A failure is tried again, so what made it due must not be forgotten. */
  const ensureAgain = async (id: number, spec: MachineSpec, signal: AbortSignal): Promise<void> => {
    const freed = freedOf(store, id);
    try {
      const { script } = await driver.ensure(spec, signal);
      // A runtime may let a deploy script end before it changes what is under it; its end is a hint, and then this is due once more.
      if (script?.exitCode === null) moved.add(id);
      else await letGo(freed);
    } catch (error) {
      moved.add(id);
      throw error;
    }
  };

  const keep = async (row: InstanceRow, signal: AbortSignal): Promise<number | undefined> => {
    const machine = (await listing.fresh()).get(row.id);
    if (store.get("instance", row.id) !== row) return 0;
    // Made after the wait, so that it knows every address there is.
    const spec = machineSpec(cloud, row);
    if (row.power === "off") {
      startup.delete(row.id);
      const freed = freedOf(store, row.id);
      if (machine?.running) await driver.ensure(spec, signal);
      await letGo(freed);
      moved.delete(row.id);
      see(row, undefined);
      return undefined;
    }
    if (!machine?.running || machine.boots !== row.boots || machine.fingerprint !== spec.fingerprint) return mend(row, machine);
    diedAt.delete(row.id);
    see(row, machine);
    // Addresses may have come or gone. Not on every look: a machine that dies at this moment is the watchdog's, and ensure would start it.
    const isDue = [startup.delete(row.id), moved.delete(row.id)].includes(true);
    if (isDue) await ensureAgain(row.id, spec, signal);
    await tellScript(row, machine);
    return undefined;
  };

  const reconcile = async (id: number, signal: AbortSignal): Promise<number | undefined> => {
    const row = store.get("instance", id);
    if (!row) {
      await driver.remove(id);
      diedAt.delete(id);
      moved.delete(id);
      observe(store, "instance", id, undefined);
      return undefined;
    }
    if (!row.job) return keep(row, signal);
    startup.delete(id);
    await runJob(row, row.job, signal);
    return undefined;
  };

  const loop: Loop = openLoop({ reconcile, clock, onFailure, concurrency: 64 });
  const watching = store.watch((kind, id) => {
    if (kind === "instance") loop.poke(id);
    if (kind === "address") {
      const holder = store.get("address", id)?.instanceId;
      for (const instance of new Set([holders.get(id), holder])) {
        if (instance === undefined) continue;
        moved.add(instance);
        loop.poke(instance);
      }
      if (holder === undefined) holders.delete(id);
      else holders.set(id, holder);
    }
  });
  const hints = driver.watch((instance) => loop.poke(instance));

  /** Nothing to do for this one, as far as a listing shows: looking closer costs engine calls, for every machine there is. */
  const isSettled = (row: InstanceRow, machine: Machine | undefined): boolean => {
    if (row.job || startup.has(row.id) || moved.has(row.id)) return false;
    const seen = observed(store, "instance", row.id);
    const running = row.power === "on";
    if ((machine?.running ?? false) !== running || (seen?.running ?? false) !== running) return false;
    if (!machine || !running) return true;
    const isUntold = typeof machine.script?.exitCode === "number" && !row.scriptReported;
    return machine.boots === row.boots && machine.fingerprint === machineSpec(cloud, row).fingerprint && !isUntold;
  };

  const resync = async (): Promise<void> => {
    const machines = await listing.fresh();
    for (const row of store.list("instance")) if (!isSettled(row, machines.get(row.id))) loop.poke(row.id);
    for (const id of machines.keys()) if (!store.get("instance", id)) loop.poke(id);
  };
  const timer = setInterval(() => void resync().catch((error) => onFailure(0, error)), resyncMs);

  for (const row of store.list("instance")) if (row.power === "on") startup.add(row.id);

  return {
    resync: async () => {
      const machines = await listing.fresh();
      // What runs is known before the first answer leaves; the loop mends the rest behind it.
      for (const row of store.list("instance")) if (machines.get(row.id)?.running) see(row, machines.get(row.id));
      await resync();
    },
    close: async () => {
      clearInterval(timer);
      await hints.close();
      await watching.close();
      await loop.close();
    },
  };
};
