import type Docker from "dockerode";
import { Fault, reasonOf } from "../../kernel/fault.js";
import { exhausted } from "../../kernel/remedy.js";
import { connectEngine, type EngineConnection } from "./connection.js";
import { giveUpOnSilence } from "./silence.js";

const answerWithinMs = 1500;

/** HTTP status of an engine's refusal; undefined when there was no answer at all. */
export const statusOf = (error: unknown): number | undefined => {
  const status = (error as { statusCode?: unknown } | null)?.statusCode;
  return typeof status === "number" ? status : undefined;
};

const remedies: Record<string, string> = {
  ENOENT: "Start a Docker engine (docker/ensure-engine.sh installs and starts one on Debian) or use the process runtime.",
  ECONNREFUSED: "Nobody serves that socket: start the engine (docker/ensure-engine.sh) or use the process runtime.",
  EACCES: "The socket belongs to root and its group: add yourself to the group `docker` and log in again, or run as root.",
};

/** What this machine lacks to ask the engine, such as a descriptor: then nothing is known of the engine. */
const lackOf = (error: unknown): Fault | undefined => (statusOf(error) === undefined ? exhausted(error) : undefined);

/** The sentence for an engine that does not answer, or undefined when it did answer (with a status). */
const unreachable = (error: unknown): string | undefined => {
  if (statusOf(error) !== undefined) return undefined;
  const code = (error as NodeJS.ErrnoException | null)?.code;
  if (code === undefined || !/^(E[A-Z]+|ABORT_ERR)$/.test(code)) return undefined;
  return `The Docker engine does not answer (${reasonOf(error)}). ${remedies[code] ?? "Start the engine or use the process runtime."}`;
};

/** The engine's own words in whatever an engine call threw, without the client library's frame and the final dot. */
export const saidBy = (error: unknown): string => {
  const said = (error as { json?: { message?: unknown } } | null)?.json?.message;
  const text = typeof said === "string" ? said : reasonOf(error).replace(/^\(HTTP code \d+\) [a-z ]+ - /, "");
  return text.trim().replace(/(?<!\.)\.+$/, "");
};

/**
 * The failure of an engine call as the caller may read it: what was tried, what the engine said.
 * A `Fault` passes unchanged, so that it can be wrapped where the most is known.
 */
export const engineFault = (tried: string, error: unknown): Fault => {
  if (error instanceof Fault) return error;
  const lack = lackOf(error);
  if (lack) return lack;
  const reason = unreachable(error) ?? `The Docker engine refused to ${tried}: ${saidBy(error)}.`;
  return new Fault("unavailable", [{ reason }], { cause: error });
};

/** Runs an engine call; its failure becomes a readable `Fault("unavailable")`. */
export const asking = async <T>(tried: string, call: () => Promise<T>): Promise<T> => {
  try {
    return await call();
  } catch (error) {
    throw engineFault(tried, error);
  }
};

/** Does nothing about the refusals named; every other one is thrown on. */
export const tolerating = async (statuses: readonly number[], call: () => Promise<unknown>): Promise<void> => {
  try {
    await call();
  } catch (error) {
    const status = statusOf(error);
    if (status === undefined || !statuses.includes(status)) throw error;
  }
};

/** @throws whatever the client library does; an `AbortError` after 1.5 s */
const versionOf = async (connection: EngineConnection | undefined): Promise<string> => {
  const docker = connectEngine(connection);
  // The typings know no `abortSignal` on these two; dockerode 5 does (lib/docker.js).
  const bound = { abortSignal: AbortSignal.timeout(answerWithinMs) } as never;
  await docker.ping(bound);
  const version: Docker.DockerVersion = await (docker.version as (bound: never) => Promise<Docker.DockerVersion>).call(docker, bound);
  return version.Version;
};

/** Why `versionOf` failed. */
const refusalOf = (error: unknown): { reason: string; absent: boolean } => {
  const code = (error as NodeJS.ErrnoException | null)?.code;
  const name = (error as Error | null)?.name;
  if (name === "AbortError" || name === "TimeoutError" || code === "ABORT_ERR")
    return { reason: `The Docker engine's socket is there, but nothing answered within ${answerWithinMs} ms. Restart the engine.`, absent: false };
  return { reason: engineFault("tell its version", error).message, absent: code === "ENOENT" };
};

/**
 * Whether an engine answers, within 1.5 s, for the choice of a runtime. `reason` is a sentence with cause and remedy; `absent` when there is not even a socket.
 */
export const engineAnswers = async (connection?: EngineConnection): Promise<{ version: string } | { reason: string; absent: boolean }> => {
  try {
    return { version: await versionOf(connection) };
  } catch (error) {
    return refusalOf(error);
  }
};

/**
 * Whether an engine is silent, within 1.5 s: a sentence with cause and remedy when it is.
 * @throws Fault `unavailable` when this machine is out of what asking takes, such as descriptors
 */
export const engineOutage = async (connection?: EngineConnection): Promise<string | undefined> => {
  try {
    await versionOf(connection);
    return undefined;
  } catch (error) {
    const lack = lackOf(error);
    if (lack) throw lack;
    return refusalOf(error).reason;
  }
};

/** A handle on the engine whose calls fail with the reason when it stops answering. */
export const openEngine = (connection?: EngineConnection): Docker => giveUpOnSilence(connectEngine(connection), () => engineOutage(connection));
