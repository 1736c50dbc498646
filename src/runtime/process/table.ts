import { readdirSync, readFileSync } from "node:fs";
import { isExhaustion } from "../../kernel/remedy.js";

/**
 * The process table, read from /proc and never remembered. A process of ours is known by the markers in its environment: children
 * inherit them whatever they do to their group, session or parent. A process that wipes its own environment *and* leaves the
 * machine's process group is not found; capabilities say so.
 */
export interface Marker {
  owner: string;
  instance: number;
  fingerprint: string;
  boots: number;
  /** The state folder of the Backlot that started it. */
  stateFolder: string;
  /** The loopback addresses of its machine. */
  bindAddresses: readonly string[];
  /** `supervisor` and `log` are the machine itself, everything else runs in it. */
  role: "supervisor" | "log" | "guest";
}

export interface MarkedProcess {
  pid: number;
  /** Clock ticks after the machine's boot at which it began: with the pid, a name that is not used twice. */
  startTicks: string;
  session: number;
  marker: Marker;
}

/** Is it the leader of a machine: its first process, which lives as long as the machine runs? */
export const isLeader = (found: MarkedProcess): boolean => found.marker.role === "supervisor" && found.session === found.pid;

/** The names are the protocol between Backlots of all versions: `clean` must find what an older one left. */
export const markerEnvironment = (marker: Omit<Marker, "role">): Record<string, string> => ({
  BACKLOT_OWNER: marker.owner,
  BACKLOT_INSTANCE: String(marker.instance),
  BACKLOT_FINGERPRINT: marker.fingerprint,
  BACKLOT_BOOTS: String(marker.boots),
  BACKLOT_STATE: marker.stateFolder,
  BACKLOT_BIND_ADDRESSES: marker.bindAddresses.join(" "),
});

/** `undefined` unless the environment (`NAME=value\0…`, as /proc shows it) carries every marker. */
export const markerOf = (environ: Buffer): Marker | undefined => {
  if (!environ.includes("BACKLOT_OWNER=")) return undefined;
  const entries = new Map<string, string>();
  for (const entry of environ.toString("utf8").split("\0")) {
    const at = entry.indexOf("=");
    if (entry.startsWith("BACKLOT_") && at > 0) entries.set(entry.slice(0, at), entry.slice(at + 1));
  }
  const owner = entries.get("BACKLOT_OWNER");
  const fingerprint = entries.get("BACKLOT_FINGERPRINT");
  const stateFolder = entries.get("BACKLOT_STATE");
  const instance = Number(entries.get("BACKLOT_INSTANCE"));
  const boots = Number(entries.get("BACKLOT_BOOTS"));
  if (!owner || fingerprint === undefined || !stateFolder || !Number.isSafeInteger(instance) || !Number.isSafeInteger(boots)) return undefined;
  const role = entries.get("BACKLOT_ROLE");
  return {
    owner,
    instance,
    fingerprint,
    boots,
    stateFolder,
    bindAddresses: (entries.get("BACKLOT_BIND_ADDRESSES") ?? "").split(" ").filter(Boolean),
    role: role === "supervisor" || role === "log" ? role : "guest",
  };
};

/** What of a marker everybody on this host may read: an environment is its user's own, a command line is not (proc(5)). */
export type Claim = Pick<Marker, "owner" | "instance" | "stateFolder" | "bindAddresses">;

const claimWord = "backlot-machine";

/** Words for the command line of a machine's supervisor, so that another user's Backlot knows which addresses it has. */
export const claimWords = ({ owner, instance, stateFolder, bindAddresses }: Claim): string[] => [
  claimWord,
  owner,
  String(instance),
  stateFolder,
  ...bindAddresses,
];

/** `undefined` unless the command line (`WORD\0…`, as /proc shows it) carries a claim. */
const claimOf = (commandLine: string): Claim | undefined => {
  const words = commandLine.split("\0").slice(0, -1);
  const at = words.indexOf(claimWord);
  const [owner, instance, stateFolder, ...bindAddresses] = at < 0 ? [] : words.slice(at + 1);
  return owner && stateFolder ? { owner, instance: Number(instance), stateFolder, bindAddresses } : undefined;
};

/** Every machine on this host that runs, whoever owns it, with a process of it; one that an older Backlot started only if this user may look. */
export const claims = (): Array<Claim & { pid: number }> => {
  const found = new Map<string, Claim & { pid: number }>();
  for (const pid of pids()) {
    const claim = claimOf(readOrNothing(`/proc/${pid}/cmdline`)) ?? leaderAt(pid)?.marker;
    if (claim) found.set(JSON.stringify([claim.owner, claim.instance]), { ...claim, pid });
  }
  return [...found.values()];
};

const leaderAt = (pid: number): MarkedProcess | undefined => {
  const found = markedProcess(pid);
  return found && isLeader(found) ? found : undefined;
};

const readOrNothing = (path: string): string => {
  try {
    return readFileSync(path, "utf8");
  } catch (error) {
    // Without a descriptor to look with, nobody may conclude that it is gone.
    if (isExhaustion(error)) throw error;
    return "";
  }
};

const pids = (): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number);

/** `undefined` when it is gone, a zombie, not ours to read, or carries no markers. */
export const markedProcess = (pid: number): MarkedProcess | undefined => {
  try {
    const marker = markerOf(readFileSync(`/proc/${pid}/environ`));
    if (!marker) return undefined;
    const stat = readFileSync(`/proc/${pid}/stat`, "latin1");
    // The name in parentheses may hold anything; fields are counted from behind it (proc(5): 3 state, 6 session, 22 starttime).
    const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    return { pid, marker, session: Number(fields[3]), startTicks: fields[19] ?? "" };
  } catch (error) {
    // Without a descriptor to look with, nobody may conclude that it is gone.
    if (isExhaustion(error)) throw error;
    return undefined;
  }
};

/** Every process on this host that a Backlot marked, whoever owns it. Costs about 10 µs a process of the host. */
export const markedProcesses = (): MarkedProcess[] => pids().flatMap((pid) => markedProcess(pid) ?? []);

/** Is this very process (not a later one with its pid) still there, with its markers? */
export const isStillThere = (found: MarkedProcess): boolean => {
  const now = markedProcess(found.pid);
  return (
    now !== undefined &&
    now.startTicks === found.startTicks &&
    now.marker.owner === found.marker.owner &&
    now.marker.instance === found.marker.instance
  );
};

/** Signals a process (a leader's whole group with `group`) after looking again that it is the one that was found. */
export const signalProcess = (found: MarkedProcess, signal: "SIGTERM" | "SIGKILL", { group = false } = {}): void => {
  if (!isStillThere(found)) return;
  try {
    process.kill(group ? -found.pid : found.pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
};
