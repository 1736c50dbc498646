import type { Disposable } from "../kernel/closers.js";
import { type AddressRow, type FreedAddressRow, forgetFreed, freedOf } from "../resources/addresses/address.js";
import { concernedBy, isUp } from "../resources/addresses/carrier.js";
import { type Cloud, observe, observed } from "../resources/cloud.js";
import { namedFileSystems } from "../resources/disks/file-systems.js";
import { recordEvent } from "../resources/events/event.js";
import { type InstanceRow, instanceEntity } from "../resources/instances/instance.js";
import type { Job } from "../resources/instances/job.js";
import { startJob } from "../resources/instances/start-job.js";
import type { Machine, MachineSpec, RuntimeDriver } from "../runtime/driver.js";
import { isSame } from "./known-rows.js";
import { type Loop, openLoop, type Turn } from "./loop.js";
import { fitsMachine, type JobGround, runJob } from "./machine-jobs.js";
import { machineDisk, machineSpec } from "./machine-spec.js";
import { repeat } from "./repeat.js";
import { sharedListing } from "./shared-listing.js";

export interface Machines extends Disposable {
  /** Asks the runtime what exists and looks at all of it and at every row: boot, crash recovery and orphan removal are this one call. */
  resync(): Promise<void>;
}

interface MachinesOptions {
  cloud: Cloud;
  driver: RuntimeDriver;
  onFailure(instance: number, error: unknown): void;
  /** Reads a machine's counters before it is stopped. */
  measure(instance: number): Promise<void>;
}

/** How long the watchdog waits before it restarts what died by itself, in simulated ms: a crash stays visible for a while, as in production. */
const watchdogMs = 120_000;
const resyncMs = 15_000;
/** What the machine is made from, of all that a row says. */
const wantedOf = ({ job, power, boots, type, region, diskId, profileId, rescue, watchdogEnabled }: InstanceRow) => [
  job,
  power,
  boots,
  type,
  region,
  diskId,
  profileId,
  rescue,
  watchdogEnabled,
];

/** Does it still have its main addresses? Somebody may have taken it off a network, or the network away. Pure. */
const hasAddresses = ({ addresses }: Machine, { publicAddresses, privateAddresses }: MachineSpec): boolean =>
  addresses === undefined || [publicAddresses[0], privateAddresses[0]].every((address) => address === undefined || addresses.includes(address));

/** Last lines of the boot log that a script's event shows. */
const shownLines = 8;

export const openMachines = ({ cloud, driver, onFailure, measure }: MachinesOptions): Machines => {
  const { store, clock } = cloud;
  const listing = sharedListing(driver);
  /** Since when a machine that should run is known dead, real ms. Forgotten with a restart, after which nothing waits. */
  const diedAt = new Map<number, number>();
  /** Instances not looked at since this start: what should run is brought up at once. */
  const startup = new Set<number>();
  /** The jobs that are being done. */
  const underWay = new Map<number, { eventId: number; overtaken: AbortController }>();
  /** Instances whose addresses changed since they were last ensured. */
  const moved = new Set<number>();

  /** Each address as it was last told of: an assignment concerns its former holder too, and the end of a share who had it. */
  const addresses = new Map(store.list("address").map((row) => [row.id, row]));
  /** Whose machines are to be fitted anew. A holder has its address however it is shared. */
  const concerned = (before: AddressRow | undefined, now: AddressRow | undefined): readonly number[] => [
    ...[before, now].flatMap((row) => row?.sharedWith ?? []),
    ...(before?.instanceId === now?.instanceId ? [] : [before, now].flatMap((row) => row?.instanceId ?? [])),
  ];
  /** Instances that have their addresses up, or are about to. */
  const up = new Set<number>();

  const see = (row: InstanceRow, machine: Machine | undefined, problem: string | null = null): void =>
    observe(store, "instance", row.id, {
      running: machine?.running ?? false,
      boots: machine?.boots ?? 0,
      problem,
      ...(machine?.substitutedImage ? { substitutedImage: machine.substitutedImage } : {}),
    });

  /** What this machine surely has no more may be given to others. */
  const letGo = async (freed: readonly FreedAddressRow[]): Promise<void> => {
    if (freed.length > 0) await store.commit((tx) => forgetFreed(tx, freed));
  };

  const ground: JobGround = {
    cloud,
    driver,
    look: async (id) => (await listing.fresh()).get(id),
    see,
    rewait: (id) => void diedAt.set(id, clock.now()),
    letGo,
    measure,
  };

  const startWatchdog = (row: InstanceRow, action: string, message: string): Promise<void> =>
    store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (!now || now.job || now.power === "off") return;
      startJob(tx, cloud, now, { verb: "watchdog" }, { username: undefined, action, message });
    });

  const acceptDeath = (row: InstanceRow, end: string | undefined): Promise<void> =>
    store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (!now || now.job || now.power === "off") return;
      tx.update("instance", row.id, { power: "off" });
      recordEvent(tx, cloud, {
        action: "instance_shutdown",
        entity: instanceEntity(now),
        message: `${end ?? "It stopped by itself."} Its watchdog is off.`,
      });
    });

  /** A machine that should run does not. At a start it is brought up at once, else the watchdog waits; without one it stays off. */
  const mend = async (row: InstanceRow, machine: Machine | undefined): Promise<number | undefined> => {
    const gone = "The machine was gone, with its disk; it is made anew, and its deploy script runs again.";
    const message = machine ? (machine.end ?? "") : gone;
    see(row, machine && { ...machine, running: false }, machine?.running ? null : machine ? (machine.end ?? "It stopped by itself.") : gone);
    if (startup.delete(row.id)) return void (await startWatchdog(row, "host_reboot", message));
    if (!row.watchdogEnabled) return void (await acceptDeath(row, machine?.end));
    const since = diedAt.get(row.id) ?? clock.now();
    diedAt.set(row.id, since);
    const waitMs = since + clock.simulated(watchdogMs) - clock.now();
    if (waitMs > 0) return waitMs;
    await startWatchdog(row, "lassie_reboot", message);
    return undefined;
  };

  const tellScript = async (row: InstanceRow, machine: Machine): Promise<void> => {
    const exitCode = machine.script?.exitCode;
    const disk = machineDisk(cloud, row);
    if (!disk || disk.scriptReported || exitCode === null || exitCode === undefined) return;
    const log = exitCode === 0 ? "" : await driver.log(row.id);
    const lines = log.trimEnd().split("\n").slice(-shownLines).join("\n");
    await store.commit((tx) => {
      const now = tx.get("instance", row.id);
      if (!now || tx.get("disk", disk.id)?.scriptReported !== false) return;
      tx.update("disk", disk.id, { scriptReported: true });
      const entry = cloud.catalogue.scripts.find((candidate) => candidate.id === disk.script?.id);
      recordEvent(tx, cloud, {
        action: "script_deploy",
        entity: instanceEntity(now),
        secondary: { kind: "script", id: disk.script?.id ?? 0, label: disk.script?.own?.label ?? entry?.label ?? "" },
        status: exitCode === 0 ? "finished" : "failed",
        message: exitCode === 0 ? "" : `The script ended with exit status ${exitCode}. Its last lines:\n${lines}`,
      });
    });
  };

  /** A failure is tried again, so what made it due must not be forgotten. One that died meanwhile is the watchdog's: its next look tells. */
  const ensureAgain = async (id: number, spec: MachineSpec, signal: AbortSignal): Promise<void> => {
    const freed = freedOf(store, id);
    // A network device that is exchanged takes its counters along.
    await measure(id);
    try {
      const machine = await driver.fit(spec, signal);
      // A runtime may let a deploy script end before it changes what is under it; its end is a hint, and then this is due once more.
      if (!machine || machine.script?.exitCode === null) moved.add(id);
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
    // Addresses may have come or gone.
    const isDue = [startup.delete(row.id), moved.delete(row.id), !hasAddresses(machine, spec)].includes(true);
    if (isDue) await ensureAgain(row.id, spec, signal);
    await tellScript(row, machine);
    return undefined;
  };

  /** A job that another one overtakes (a delete, say) is given up at once. */
  const runOvertakable = async (row: InstanceRow, job: Job, signal: AbortSignal): Promise<void> => {
    const overtaken = new AbortController();
    underWay.set(row.id, { eventId: job.eventId, overtaken });
    if (fitsMachine(job.verb)) moved.delete(row.id);
    try {
      await runJob(ground, row, job, AbortSignal.any([signal, overtaken.signal]));
    } catch (error) {
      if (!overtaken.signal.aborted) throw error;
    } finally {
      underWay.delete(row.id);
    }
  };

  const reconcile = async (id: number, { signal }: Turn): Promise<number | undefined> => {
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
    diedAt.delete(id);
    await runOvertakable(row, row.job, signal);
    return undefined;
  };

  const loop: Loop = openLoop({ reconcile, clock, onFailure, concurrency: 64 });
  /** Our own observations are told to watchers too, and a new label or tag moves nothing. */
  const known = new Map(store.list("instance").map((row) => [row.id, row]));
  const isAsWanted = (id: number, row: InstanceRow | undefined): boolean => {
    const before = known.get(id);
    if (isSame(known, id, row)) return true;
    return before !== undefined && row !== undefined && JSON.stringify(wantedOf(row)) === JSON.stringify(wantedOf(before));
  };
  const fitAgain = (instances: readonly number[]): void => {
    for (const instance of new Set(instances)) {
      moved.add(instance);
      loop.poke(instance);
    }
  };
  const watching = store.watch((kind, id) => {
    if (kind === "instance") {
      const row = store.get("instance", id);
      const isUpNow = row !== undefined && isUp(cloud, row);
      if (isUpNow !== up.has(id)) {
        if (isUpNow) up.add(id);
        else up.delete(id);
        fitAgain(concernedBy(store, id));
      }
      const current = underWay.get(id);
      if (current && row?.job && row.job.eventId !== current.eventId) current.overtaken.abort();
      if (!isAsWanted(id, row)) loop.poke(id);
    }
    if (kind === "address") {
      const row = store.get("address", id);
      fitAgain(concerned(addresses.get(id), row));
      if (row === undefined) addresses.delete(id);
      else addresses.set(id, row);
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
    const isUntold = typeof machine.script?.exitCode === "number" && machineDisk(cloud, row)?.scriptReported === false;
    const spec = machineSpec(cloud, row);
    return machine.boots === row.boots && machine.fingerprint === spec.fingerprint && !isUntold && hasAddresses(machine, spec);
  };

  const resync = async (): Promise<void> => {
    const machines = await listing.fresh();
    for (const row of store.list("instance")) if (!isSettled(row, machines.get(row.id))) loop.poke(row.id);
    for (const id of machines.keys()) if (!store.get("instance", id)) loop.poke(id);
    // Asked of the rows after the listing: a name is in a row before there is anything of that name.
    const prepared = await driver.prepared();
    if (prepared.length === 0) return;
    const named = namedFileSystems(store);
    for (const name of prepared) if (!named.has(name)) await driver.discard(name);
  };
  const resyncing = repeat(resyncMs, resync, (error) => onFailure(0, error));

  for (const row of store.list("instance")) if (row.power === "on") startup.add(row.id);

  return {
    resync: async () => {
      const machines = await listing.fresh();
      // What runs is known before the first answer leaves; the loop mends the rest behind it.
      for (const row of store.list("instance")) if (machines.get(row.id)?.running) see(row, machines.get(row.id));
      await resync();
    },
    close: async () => {
      await resyncing.close();
      await hints.close();
      await watching.close();
      await loop.close();
    },
  };
};
