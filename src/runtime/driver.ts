import type { Disposable } from "../kernel/closers.js";
import type { Via } from "../kernel/relay.js";

/**
 * The only door to machines. A driver is asked what exists and never remembers it (DESIGN, house rule 4); it knows no rows, no
 * regions' names beyond what a spec says, no HTTP status. Failures are thrown as `Fault("unavailable", …)` with cause and remedy.
 */
export interface RuntimeDriver extends Disposable {
  readonly name: "docker" | "process";
  /** Copies of machines' file systems, which other machines can be made from. */
  readonly images: MachineImages;
  /** Everything this runtime can and cannot do, for `/_backlot/capabilities`. */
  capabilities(): RuntimeCapabilities;
  /** What exists and is ours, running or not, read from labels or the process table; of one instance when it is named. One machine an instance. */
  list(instance?: number): Promise<Machine[]>;
  /**
   * Creates, starts, stops, restarts or replaces until the machine matches. Twice changes nothing.
   * A machine with another fingerprint is replaced; one with another `boots` is restarted; one that should not run is stopped.
   * Resolves when it is running and its address is dialable (`running: true`) or is stopped (`running: false`); it does not wait for the deploy script.
   */
  ensure(spec: MachineSpec, signal?: AbortSignal): Promise<Machine>;
  /** As `ensure` for a machine that runs. One that does not is left alone, and undefined: whether what died is started again is another's to say. */
  fit(spec: MachineSpec, signal?: AbortSignal): Promise<Machine | undefined>;
  /** Stops and removes the machine and all that belongs to it. Absent is success. Waits until it is gone. */
  remove(instance: number): Promise<void>;
  /**
   * Makes a file system `to` that holds what `from` holds now; a machine whose spec has that name as its fingerprint is made from it.
   * Twice changes nothing. False when there is no such file system, or nothing was ever booted from it: then nothing is made.
   */
  copy(from: string, to: string): Promise<boolean>;
  /** Removes a file system, and the machine that would run from it. Absent is success. */
  discard(fileSystem: string): Promise<void>;
  /** Names of the file systems that `copy` made and `discard` has not removed; machines' own are not in it. */
  prepared(): Promise<string[]>;
  /** Sets root's password on a file system whose machine is off: a crypt(3) string that holds from its next start on. Absent is success. */
  setRootPassword(fileSystem: string, hash: string): Promise<void>;
  /** What a machine used since its start; undefined for one that does not run. */
  counters(instance: number): Promise<MachineCounters | undefined>;
  /** SIGKILL to the whole machine, as a crash would. For `/_backlot/instances/ID/kill`. Absent or stopped is success. */
  kill(instance: number): Promise<void>;
  /** The boot log: what init and the deploy script printed, newest last, at most 64 KiB. Empty when there is none. */
  log(instance: number): Promise<string>;
  /** How this process reaches an address of one of our pools; `undefined` for any other address. Pure arithmetic, no I/O. */
  dial(address: string, port: number): Endpoint | undefined;
  /** Regions whose private addresses are out of this process's reach, with the reason, as far as that was tried. No I/O. */
  unreached(): ReadonlyArray<{ region: string; reason: string }>;
  /** Calls `moved` when `dial` may answer otherwise than before. */
  watchDial(moved: () => void): Disposable;
  /** Calls `hint` when something may have happened to a machine (died, started, removed by somebody). May miss or repeat. */
  watch(hint: (instance: number) => void): Disposable;
  /**
   * Whether the runtime itself answers, now: a sentence with cause and remedy when it does not.
   * @throws Fault `unavailable` when it could not be asked, since this machine is out of something: nothing is known of it then
   */
  outage(): Promise<string | undefined>;
  /** Block storage, by volume. */
  readonly volumes: RuntimeVolumes;
  /** CIDRs that something which is not ours occupies, with who, so that a pool can be chosen or refused. */
  occupied(): Promise<Array<{ cidr: string; owner: string }>>;
}

/**
 * Copies of file systems that other machines can be made from, by key: `private/7`. A key is used for one copy only, and `MachineSpec.image`
 * may name it. A copy holds nothing of who the machine was: no marks of its boots, no host keys, no password of root.
 */
export interface MachineImages {
  /**
   * Copies a file system of an instance, running or not, under `key`; what is there under that key already is left as it is. `fingerprint` names
   * the file system, as in `MachineSpec`. `undefined`: the instance has no such file system (yet).
   */
  capture(instance: number, fingerprint: string, key: string): Promise<Captured | undefined>;
  /** Removes a copy. False: a machine still rests on it, ask again later. Absent is success. */
  remove(key: string): Promise<boolean>;
  /** Every copy that is ours. */
  list(): Promise<Captured[]>;
}

export interface Captured {
  key: string;
  /** MiB, measured. */
  sizeMb: number;
}

export interface Endpoint {
  host: string;
  port: number;
  /** Through what; absent: this process dials it itself. */
  via?: Via;
}

/** Everything a machine is made of. Plain data; addresses are final. */
export interface MachineSpec {
  instance: number;
  label: string;
  /** Region id; the Docker runtime makes one network per region, when first needed. */
  region: string;
  /** The private range of that region, CIDR. */
  privateRange: string;
  /** Image slug such as `cloud/debian12`, or the key of a copy (`MachineImages`); null when the instance has no image (then `running` is never true). */
  image: string | null;
  running: boolean;
  /** Grows with every wanted boot or reboot; a running machine with a smaller number is restarted. */
  boots: number;
  /** MiB */
  memoryMib: number;
  vcpus: number;
  /** Dotted IPv4, the first public one is the machine's main address. */
  publicAddresses: readonly string[];
  privateAddresses: readonly string[];
  /** Those of its addresses that another machine may have had meanwhile: neighbours are told where they are now. None when absent. */
  shared?: readonly string[];
  /** Volumes that its boot waits for, 10 s at the most, before it runs script and services; `label` is the name in `/mnt`. */
  volumes?: ReadonlyArray<{ volume: number; label: string }>;
  /** crypt(3) string (`$6$…`) for root; never a password. */
  rootPassHash: string | null;
  authorizedKeys: readonly string[];
  /** Run once, at first boot of this machine. */
  script: DeployScript | null;
  /** The name of its file system, never used twice. Another name is another file system, so another machine. */
  fingerprint: string;
  /** Names of further file systems of this instance: not running, and not to be removed. None when absent. */
  kept?: readonly string[];
  /** Base64; `/etc/backlot/user-data` in the guest holds it decoded. None when absent. */
  userData?: string | null;
  /** Started without deploy script and services, to be repaired. False when absent. */
  minimal?: boolean;
}

export interface DeployScript {
  id: number;
  /** The whole text, beginning with a shebang. */
  text: string;
  /** User defined fields; environment variables of the script. */
  data: Readonly<Record<string, string>>;
  /** True for the scripts Backlot ships: the process runtime runs no others unless `--allow-host-scripts` is given. */
  shipped: boolean;
}

/** Services start when the deploy script has ended, and when it goes on for longer than this they start beside it. */
export const scriptPatienceMs = 30_000;

export interface Machine {
  instance: number;
  fingerprint: string;
  running: boolean;
  /** The `boots` of the spec it was last started with. */
  boots: number;
  /** The main addresses it really has; absent where it cannot lose one. */
  addresses?: readonly string[];
  /** Why it does not run, as far as the runtime can tell: a sentence. Absent when it runs, and when nothing is known. */
  end?: string;
  /** Container id or process-group leader's pid, for `/_backlot/instances/ID`. */
  containerId?: string;
  pid?: number;
  /** The deploy script's state; absent when there is none. `exitCode` is null while it runs. */
  script?: { exitCode: number | null };
  /** Set when something else was booted than the slug names (`--image-fallback`). */
  substitutedImage?: string;
  /** It runs an image's own entrypoint and none of our guest: no sshd, root password, keys, script or services. False when absent. */
  ownEntrypoint?: boolean;
}

/** Sums that only grow, as long as `since` is the same. */
export interface MachineCounters {
  /** Names the start they count from: another one with every start. */
  since: string;
  /** Processor time, all CPUs together. */
  cpuMs: number;
  /** Read from and written to disks. */
  ioBytes: number;
  /** Bytes into and out of the machine; null where the runtime cannot tell whose they are. */
  network: { public: InOut; private: InOut } | null;
}

interface InOut {
  in: number;
  out: number;
}

/** Storage that outlives machines. Verbs are repeatable, as the driver's own are. */
export interface RuntimeVolumes {
  /** Ids of the volumes that exist and are ours. */
  list(): Promise<number[]>;
  /**
   * Makes it exist, grows it to its size (it never shrinks), and has it mounted in the wanted machine and in no other. A machine that does
   * not run has nothing mounted: call again when it runs. Where a volume can be mounted at a boot only, all this is true of each machine from
   * its next boot on, by `MachineSpec.volumes`. Costs next to nothing when nothing changed.
   */
  ensure(spec: VolumeSpec): Promise<VolumeState>;
  /** Unmounts it everywhere and removes it with its data. Absent is success. */
  remove(volume: number): Promise<void>;
}

export interface VolumeSpec {
  volume: number;
  /** Its name in a machine's `/mnt`; a change moves the mount. */
  label: string;
  bytes: number;
  /** The volume whose data it begins with; looked at only while it does not exist. */
  copyOf: number | null;
  /** The machine that is to have it; null: none. */
  instance: number | null;
}

export interface VolumeState {
  /** Where the machine has it mounted now; null when it has not. */
  path: string | null;
  /** What a reader should know of how it went; sentences, or null. */
  note: string | null;
  /** The machine runs without it, and has it from its next boot on: nothing can be mounted in a running one here. False when absent. */
  atNextBoot?: boolean;
}

export interface RuntimeCapabilities {
  runtime: "docker" | "process";
  /** One row a subject: what a reader would expect, and what is really there. */
  rows: Array<{ subject: string; real: boolean; note: string }>;
}
