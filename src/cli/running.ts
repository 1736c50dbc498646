import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { reasonOf } from "../kernel/fault.js";

/** What a running Backlot writes into its state folder (`running.json`, 0600). */
export interface Running {
  url: string;
  pid: number;
  /** Control token of this run. */
  token: string;
}

/** Is one running on this state folder? `reason` says plainly why not. */
export type Presence = { running: Running; health: Record<string, unknown> } | { running: undefined; reason: string };

const healthTimeoutMs = 5_000;

const isRunning = (value: unknown): value is Running => {
  const { url, pid, token } = (value ?? {}) as Partial<Record<keyof Running, unknown>>;
  return typeof url === "string" && URL.canParse(url) && Number.isInteger(pid) && typeof token === "string";
};

const readRunning = async (path: string): Promise<{ running: Running } | { reason: string }> => {
  let text: string;
  try {
    text = await readFile(path, "utf8");
  } catch (error) {
    return {
      reason:
        (error as NodeJS.ErrnoException).code === "ENOENT" ? "there is no running.json in it" : `running.json cannot be read: ${reasonOf(error)}`,
    };
  }
  try {
    const value: unknown = JSON.parse(text);
    if (isRunning(value)) return { running: value };
  } catch {
    // Said below: a torn file and a file of another shape are the same news.
  }
  return { reason: `${path} is damaged; delete it when no Backlot uses this folder` };
};

/** The health answer; undefined when nobody answers there in time or it is not Backlot's. */
export const askHealth = async (url: string): Promise<Record<string, unknown> | undefined> => {
  try {
    const response = await fetch(new URL("/_backlot/health", url), { signal: AbortSignal.timeout(healthTimeoutMs) });
    const body: unknown = await response.json();
    return response.status === 200 && typeof body === "object" && body !== null ? (body as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
};

/** Looks into the state folder and then asks over HTTP; the file alone proves nothing. */
export const findRunning = async (state: string): Promise<Presence> => {
  const path = join(state, "running.json");
  const read = await readRunning(path);
  if ("reason" in read) return { running: undefined, reason: `No Backlot runs on ${state}: ${read.reason}.` };
  const { running } = read;
  const health = await askHealth(running.url);
  if (!health)
    return {
      running: undefined,
      reason: `No Backlot runs on ${state}: ${path} is stale, nobody answers at ${running.url} (it was pid ${running.pid}). backlot start --state ${state} goes on where it was.`,
    };
  if (health.pid !== running.pid) {
    return {
      running: undefined,
      reason: `No Backlot runs on ${state}: ${path} is stale, pid ${health.pid ?? "unknown"} answers at ${running.url} and not pid ${running.pid}. backlot start --state ${state} goes on where that was.`,
    };
  }
  return { running, health };
};
