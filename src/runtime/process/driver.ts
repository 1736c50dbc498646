import { existsSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { Closers } from "../../kernel/closers.js";
import { cannotStart, Fault, reasonOf } from "../../kernel/fault.js";
import { turns } from "../../kernel/turns.js";
import { type Machine, type MachineSpec, type RuntimeDriver, scriptPatienceMs } from "../driver.js";
import { processCapabilities } from "./capabilities.js";
import { diskCaptures, fillDisk, isCaptureKey } from "./captures.js";
import { sweepHalfCopies } from "./copy-tree.js";
import { countersOf } from "./counters.js";
import { deaths } from "./deaths.js";
import { adoptCopy, closeScript, createDisk, diskFolder, disksIn, readDisk, readLog, removeDisk, rotateLog, writeStart } from "./disk.js";
import { haltMachine, processesOf } from "./halt.js";
import { poolMap, shownOf } from "./loopback.js";
import { leaderOf, machineView, type Remains, stepsTo } from "./machine.js";
import { clearPlace, copyToShelf, findFileSystem, removeFromShelf, shelved, takeFromShelf } from "./shelf.js";
import { startSupervisor } from "./start.js";
import { machineEnvironment } from "./supervisor.js";
import { claims, isStillThere, type MarkedProcess, markedProcesses } from "./table.js";
import { folderVolumes } from "./volumes.js";

export interface ProcessDriverOptions {
  /** The state's own id; processes of other owners are never touched. */
  owner: string;
  /** Absolute; machines live in its `machines/`. */
  stateFolder: string;
  /** CIDR inside 192.168.0.0/16 */
  privatePool: string;
  /** CIDR inside 198.18.0.0/16 */
  publicPool: string;
  /** Also run deploy scripts that Backlot does not ship, on this host and as this user. */
  allowHostScripts: boolean;
  /** Slugs that the settings gave to container images, which nothing here can boot. */
  ownImages?: Readonly<Record<string, string>> | undefined;
  /** How long the processes of a machine that is shut down have after SIGTERM; 5,000 by default. */
  graceMs?: number;
  /** How long services wait for a deploy script that goes on; `scriptPatienceMs` of runtime/driver.ts by default. */
  scriptPatienceMs?: number;
  /** Told of what went wrong outside a call. */
  onProblem?(reason: string): void;
}

/** How long a machine waits for another of ours to let go of an address that was assigned to it, in ms; longer than a stop takes. */
const releaseMs = 10_000;

/** Why this host cannot have a process runtime; `undefined` when it can. */
export const hostObstacle = (platform: string, hasProcessTable: boolean): string | undefined => {
  if (platform === "linux" && hasProcessTable) return undefined;
  const lack = platform === "linux" ? "/proc is not mounted here" : `this is ${platform}, without /proc and with one loopback address only`;
  return `The process runtime needs Linux (its /proc and all of 127.0.0.0/8), and ${lack}. Start a Docker engine and use --runtime docker.`;
};

/** The embedded runtime: an instance is a supervised process group on this host (DESIGN, section 3 "Runtimes"). */
export const processDriver = (options: ProcessDriverOptions): RuntimeDriver => {
  const { owner, stateFolder, allowHostScripts } = options;
  const obstacle = hostObstacle(process.platform, existsSync("/proc/self/environ"));
  if (obstacle !== undefined) throw cannotStart(obstacle);
  const loopback = poolMap([options.privatePool, options.publicPool]);

  /** One thing at a time happens to an instance. */
  const inTurn = turns<number>();

  const folderOf = (instance: number): string => diskFolder(stateFolder, instance);
  const ofInstance = (instance: number) => ({ owner, instance });

  /** A machine whose leader is gone is dead: what it left behind must not go on answering. */
  const clearDebris = (instance: number): Promise<void> => haltMachine(ofInstance(instance), { graceMs: 0, debrisOnly: true });
  const deathWatch = deaths((instance) => {
    inTurn(instance, () => clearDebris(instance)).catch((error) => options.onProblem?.(reasonOf(error)));
  });

  const awaitScriptEnd = (instance: number, leader: MarkedProcess): void =>
    deathWatch.awaitScript(instance, async () => !isStillThere(leader) || (await readDisk(folderOf(instance)))?.script?.exitCode !== undefined);

  /** Whatever is seen running is watched from then on. */
  const notice = (instance: number, remains: Remains): Machine => {
    const view = machineView(instance, remains);
    const leader = leaderOf(remains);
    if (leader) deathWatch.adopt(instance, leader);
    if (leader && view.script?.exitCode === null) awaitScriptEnd(instance, leader);
    return view;
  };
  const look = async (instance: number): Promise<Remains> => ({
    processes: processesOf(ofInstance(instance)),
    disk: await readDisk(folderOf(instance)),
  });

  const bindAddressesOf = (spec: MachineSpec): string[] =>
    [...spec.privateAddresses, ...spec.publicAddresses].map((address) => {
      const real = loopback(address);
      if (real !== undefined) return real;
      throw new Fault("unavailable", [
        {
          reason: `${address} of instance ${spec.instance} is outside the pools ${options.privatePool} and ${options.publicPool}. Start Backlot with the pool the address was taken from (--private-pool).`,
        },
      ]);
    });

  const refuseTakenAddresses = (spec: MachineSpec, bindAddresses: readonly string[]): void => {
    for (const other of claims().filter((each) => each.owner !== owner)) {
      const taken = other.bindAddresses.find((address) => bindAddresses.includes(address));
      if (taken === undefined) continue;
      throw new Fault("unavailable", [
        {
          reason: `${shownOf(taken)} of instance ${spec.instance} is in use by another Backlot (state ${other.stateFolder}, its instance ${other.instance}, process ${other.pid}). Delete this instance and create it again, which gives it another address, or stop that one. Clouds with a --private-pool each, chosen before their first instance, never meet.`,
        },
      ]);
    }
  };

  /** Elsewhere a slug is only a name here; this one says which container is to run, and another would be a lie. */
  const refuseOwnImage = ({ image }: MachineSpec): void => {
    if (image === null || !Object.hasOwn(options.ownImages ?? {}, image)) return;
    const reason = `${image} is the container image ${options.ownImages?.[image]}, and the process runtime boots none. Start a Docker engine and use --runtime docker.`;
    throw new Fault("unavailable", [{ reason }]);
  };

  /** Two machines that exchange addresses both stop first, so neither waits in vain; a server binds its addresses only once. */
  const released = async (instance: number, bindAddresses: readonly string[], signal: AbortSignal | undefined): Promise<void> => {
    const isHeld = (): boolean =>
      markedProcesses().some(
        ({ marker }) =>
          marker.owner === owner && marker.instance !== instance && marker.bindAddresses.some((address) => bindAddresses.includes(address)),
      );
    const deadline = Date.now() + releaseMs;
    while (isHeld() && Date.now() < deadline) {
      await pause(20);
      signal?.throwIfAborted();
    }
  };

  const refusal = (spec: MachineSpec): string | undefined =>
    spec.script && !spec.script.shipped && !allowHostScripts
      ? `deploy script ${spec.script.id} was not run: it is not one that Backlot ships, and it would run on this host as the user who runs Backlot. ` +
        "Start Backlot with --allow-host-scripts and create the instance again, or use the Docker runtime."
      : undefined;

  const start = async (spec: MachineSpec, bindAddresses: readonly string[]): Promise<void> => {
    const folder = folderOf(spec.instance);
    await writeStart(folder, spec);
    await rotateLog(folder);
    const environment = machineEnvironment(spec, {
      owner,
      stateFolder,
      folder,
      bindAddresses,
      scriptPatienceMs: options.scriptPatienceMs ?? scriptPatienceMs,
    });
    const claim = { owner, instance: spec.instance, stateFolder, bindAddresses };
    const child = await startSupervisor(claim, folder, environment).catch(async (error) => {
      // What it had begun must not go on behind a machine that is said to be off.
      await stop(spec.instance);
      throw error;
    });
    deathWatch.started(spec.instance, child);
  };

  const stop = async (instance: number): Promise<void> => {
    await haltMachine(ofInstance(instance), { graceMs: options.graceMs ?? 5_000 });
    await closeScript(folderOf(instance));
  };

  /** The file system of the spec in the machine's place: from the shelf, or a new one. */
  const placeDisk = async (spec: MachineSpec, { disk }: Remains): Promise<void> => {
    const folder = folderOf(spec.instance);
    await clearPlace(stateFolder, folder, disk, spec.kept ?? []);
    const isTaken = await takeFromShelf(stateFolder, spec.fingerprint, folder, (shelf) => adoptCopy(shelf, owner, spec, refusal(spec)));
    if (isTaken) return;
    const { image } = spec;
    const fill = image !== null && isCaptureKey(image) ? (empty: string) => fillDisk(stateFolder, image, empty) : undefined;
    await createDisk(folder, owner, spec, refusal(spec), fill);
  };

  const swept = sweepHalfCopies(["disks", "images", "volumes"].map((name) => join(stateFolder, name))).catch((error) => {
    options.onProblem?.(`What copies that were cut off left could not be removed: ${reasonOf(error)}`);
  });

  const copy = async (from: string, to: string): Promise<boolean> => {
    await swept;
    const source = await findFileSystem(stateFolder, from);
    if (!source || (source.disk.boots === 0 && !source.disk.copied)) return false;
    await copyToShelf(stateFolder, source.folder, to);
    return true;
  };

  const discard = async (fileSystem: string): Promise<void> => {
    const found = await findFileSystem(stateFolder, fileSystem);
    if (found?.instance !== undefined) await removeMachine(found.instance);
    await removeFromShelf(stateFolder, fileSystem);
  };

  const removeMachine = (instance: number): Promise<void> =>
    inTurn(instance, async () => {
      await haltMachine(ofInstance(instance), { graceMs: 0 });
      await removeDisk(folderOf(instance));
    });

  const bring = async (spec: MachineSpec, signal: AbortSignal | undefined, remains: Remains): Promise<Machine> => {
    signal?.throwIfAborted();
    const bindAddresses = bindAddressesOf(spec);
    const steps = stepsTo(spec, remains, bindAddresses);
    if (!steps.halt && !steps.create && !steps.start) return notice(spec.instance, remains);
    if (steps.start) refuseOwnImage(spec);
    if (steps.start) refuseTakenAddresses(spec, bindAddresses);
    if (steps.halt) await stop(spec.instance);
    signal?.throwIfAborted();
    if (steps.start) await released(spec.instance, bindAddresses, signal);
    if (steps.create) await placeDisk(spec, remains);
    signal?.throwIfAborted();
    if (steps.start) await start(spec, bindAddresses);
    const after = await look(spec.instance);
    const machine = notice(spec.instance, after);
    const leader = leaderOf(after);
    // A quick script has ended by now: that is news too.
    if (steps.start && spec.script && leader) awaitScriptEnd(spec.instance, leader);
    if (steps.start && !leader) {
      throw new Fault("unavailable", [
        { reason: `Instance ${spec.instance} died as soon as it was started. Its boot log is in ${folderOf(spec.instance)}.` },
      ]);
    }
    return machine;
  };

  const list = async (only?: number): Promise<Machine[]> => {
    const found = new Map<number, MarkedProcess[]>();
    for (const instance of await disksIn(stateFolder)) if (only === undefined || instance === only) found.set(instance, []);
    for (const each of markedProcesses()) {
      if (each.marker.owner !== owner || (only !== undefined && each.marker.instance !== only)) continue;
      const { instance } = each.marker;
      found.set(instance, [...(found.get(instance) ?? []), each]);
    }
    return Promise.all([...found].map(async ([instance, processes]) => notice(instance, { processes, disk: await readDisk(folderOf(instance)) })));
  };

  const closers = new Closers();
  closers.add(() => inTurn.idle());
  closers.add(() => deathWatch.close());
  closers.add(() => swept);

  const captures = diskCaptures(stateFolder);
  return {
    name: "process",
    images: { ...captures, capture: (instance, ...what) => inTurn(instance, () => swept.then(() => captures.capture(instance, ...what))) },
    capabilities: () => processCapabilities(allowHostScripts),
    volumes: folderVolumes(stateFolder, async (instance) => leaderOf(await look(instance)) !== undefined),
    list,
    ensure: (spec, signal) => inTurn(spec.instance, async () => bring(spec, signal, await look(spec.instance))),
    fit: (spec, signal) =>
      inTurn(spec.instance, async () => {
        const remains = await look(spec.instance);
        return leaderOf(remains) ? bring(spec, signal, remains) : undefined;
      }),
    remove: removeMachine,
    copy,
    discard,
    prepared: () => shelved(stateFolder),
    // There is no login here (capabilities.ts).
    setRootPassword: async () => {},
    kill: (instance) => inTurn(instance, () => haltMachine(ofInstance(instance), { graceMs: 0 })),
    counters: async (instance) => {
      const processes = processesOf(ofInstance(instance));
      const leader = leaderOf({ disk: undefined, processes });
      return leader && countersOf(leader, processes);
    },
    log: (instance) => readLog(folderOf(instance)),
    dial: (address, port) => {
      const host = loopback(address);
      return host === undefined ? undefined : { host, port };
    },
    unreached: () => [],
    watchDial: () => ({ close: async () => {} }),
    watch: (hint) => {
      const watching = deathWatch.watch(hint);
      list().catch((error) => options.onProblem?.(reasonOf(error))); // adopts what runs
      return watching;
    },
    // It is this process itself.
    outage: async () => undefined,
    occupied: async () =>
      claims()
        .filter((each) => each.owner !== owner)
        .flatMap(({ instance, stateFolder: folder, bindAddresses }) =>
          bindAddresses.flatMap((address) => {
            const shown = shownOf(address);
            return shown === undefined ? [] : [{ cidr: `${shown}/32`, owner: `instance ${instance} of another Backlot (state ${folder})` }];
          }),
        ),
    close: () => closers.close(),
  };
};
