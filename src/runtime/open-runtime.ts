import { contains, formatCidr, overlaps, parseCidr, slice } from "../kernel/addresses.js";
import { cannotStart } from "../kernel/fault.js";
import type { RuntimeDriver } from "./driver.js";

export interface RuntimeOptions {
  owner: string;
  /** Absolute. */
  stateFolder: string;
  privatePool: string;
  imageFallback: string | undefined;
  /** OCI references of the user's own, by slug. */
  ownImages: Readonly<Record<string, string>>;
  allowHostScripts: boolean;
  /** How machines' private addresses are reached from here. */
  dial: "auto" | "direct" | "relay";
  /** The name servers of a machine behind these gateways; empty: whatever the runtime gives. Asked when its networks stand. */
  guestResolvers(gateways: readonly string[]): Promise<readonly string[]>;
  onProgress(line: string): void;
  onProblem(reason: string): void;
}

/** What an earlier start decided, so that its machines are found again. */
export interface RuntimeChoice {
  runtime: "docker" | "process";
  publicPool: string;
}

/** Public addresses are cut from the benchmark range (RFC 2544 section C.2.2): nothing on the internet has them. */
const publicRange = { base: 0xc6120000, prefix: 16, size: 65536 };
const publicPrefix = 20;
const publicPieces = 16;

/** The kind of runtime to use: the one asked for, else the one this state has, else an engine if one answers, else processes. */
export const runtimeKind = async (
  wanted: "auto" | "docker" | "process",
  stored: RuntimeChoice | undefined,
  hasInstances: boolean,
): Promise<"docker" | "process"> => {
  if (stored && wanted !== "auto" && wanted !== stored.runtime && hasInstances) {
    throw cannotStart(
      `This state holds instances of the ${stored.runtime} runtime, and ${wanted} was asked for; start with --runtime ${stored.runtime}, or choose another folder with --state.`,
    );
  }
  const fixed = wanted === "auto" ? (hasInstances ? stored?.runtime : undefined) : wanted;
  if (fixed === "process") return "process";
  const { engineAnswers } = await import("./docker/engine.js");
  const answer = await engineAnswers();
  if ("version" in answer) return "docker";
  if (fixed === undefined) return "process";
  const why = wanted === "docker" ? "The docker runtime was asked for" : "This state holds instances of the docker runtime";
  throw cannotStart(
    `${why}, and no engine answers: ${answer.reason} Start the engine (docker/ensure-engine.sh gives a bare Debian one), or use --runtime process${wanted === "docker" ? "" : " with another --state"}.`,
  );
};

const openDriver = async (kind: "docker" | "process", publicPool: string, options: RuntimeOptions): Promise<RuntimeDriver> => {
  if (kind === "process" && options.dial === "relay")
    throw cannotStart(
      "--dial relay is for the docker runtime: machines of the process runtime are on this machine's own addresses. Start without it.",
    );
  if (kind === "docker") return (await import("./docker/driver.js")).dockerDriver({ ...options, publicPool });
  return (await import("./process/driver.js")).processDriver({ ...options, publicPool });
};

const pieceFor = (owner: string, taken: ReadonlyArray<{ cidr: string; owner: string }>): string => {
  const ranges = taken.flatMap(({ cidr }) => parseCidr(cidr) ?? []);
  // Where to begin differs by owner, so that two that start at once seldom meet.
  const first = Number.parseInt(owner.replace(/[^0-9a-f]/gi, "").slice(0, 4) || "0", 16);
  for (let step = 0; step < publicPieces; step += 1) {
    const piece = slice(publicRange, publicPrefix, (first + step) % publicPieces);
    if (!ranges.some((range) => overlaps(range, piece))) return formatCidr(piece);
  }
  throw cannotStart(
    `All of ${formatCidr(publicRange)} is taken by other networks (${taken.map(({ cidr, owner: who }) => `${cidr} by ${who}`).join(", ")}); remove one, or run backlot clean.`,
  );
};

/** The pool a state was given, unless somebody took it while the state gave out none of it. */
const keptPool = (stored: RuntimeChoice | undefined, taken: ReadonlyArray<{ cidr: string }>, isUsed: boolean): string | undefined => {
  const pool = stored && parseCidr(stored.publicPool);
  if (!pool) return undefined;
  const isTaken = taken.some(({ cidr }) => {
    const range = parseCidr(cidr);
    return range !== undefined && overlaps(range, pool);
  });
  return isTaken && !isUsed ? undefined : stored?.publicPool;
};

/**
 * Opens the runtime of a kind with a public pool of its own. `occupied` is what others use on this machine: it is to be kept clear of.
 * `isPoolUsed`: the state has given out addresses of its public pool, so it cannot have another.
 */
export const openRuntime = async (
  kind: "docker" | "process",
  stored: RuntimeChoice | undefined,
  isPoolUsed: boolean,
  options: RuntimeOptions,
): Promise<{ driver: RuntimeDriver; choice: RuntimeChoice; occupied: string[] }> => {
  const asking = await openDriver(kind, stored?.publicPool ?? formatCidr(slice(publicRange, publicPrefix, 0)), options);
  const taken = await asking.occupied().catch(async (error) => {
    await asking.close();
    throw error;
  });
  const occupied = taken.map(({ cidr }) => cidr);
  const kept = keptPool(stored, taken, isPoolUsed);
  if (kept !== undefined) return { driver: asking, choice: { runtime: kind, publicPool: kept }, occupied };
  await asking.close();
  const publicPool = pieceFor(options.owner, taken);
  return { driver: await openDriver(kind, publicPool, options), choice: { runtime: kind, publicPool }, occupied };
};

/** Addresses that were given out of another pool than the one of this start. */
export const strangers = (pool: string, addresses: readonly string[]): string[] => {
  const range = parseCidr(pool);
  return addresses.filter((address) => range === undefined || !contains(range, address));
};
