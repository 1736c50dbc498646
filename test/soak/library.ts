import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { fileURLToPath } from "node:url";
import type { Config } from "#backlot/index.js";
import { until } from "../support/until.js";

type Counts = Readonly<Record<string, number>>;

/** What a process holds. */
interface Holdings {
  /** Open descriptors by kind: `socket`, `file`, `pipe`, `anon_inode` … */
  descriptors: Counts;
  /** What keeps the event loop alive, as `process.getActiveResourcesInfo()` names it; the parent's channel is left out. */
  resources: Counts;
}

export interface Measure extends Holdings {
  /** Bytes, after a collection of garbage. */
  rss: number;
  heapUsed: number;
}

/** A Backlot opened as a library in a process of its own, which can be asked what it holds. */
export interface Library {
  url: string;
  token: string;
  pid: number;
  measure(): Promise<Measure>;
  /** Closes it and removes its state; what the process held before it was opened and after. Resolves when the process has ended by itself. */
  close(): Promise<{ before: Holdings; after: Holdings }>;
}

export const openLibrary = async (config: Config): Promise<Library> => {
  const program = fileURLToPath(new URL("library-child.mjs", import.meta.url));
  const child: ChildProcess = fork(program, [], { execArgv: ["--expose-gc"], stdio: ["ignore", "inherit", "inherit", "ipc"] });
  const ask = async <T>(message: object | string): Promise<T> => {
    const answered = new AbortController();
    const { signal } = answered;
    const gone = once(child, "exit", { signal }).then(([code]) => {
      throw new Error(`the library's process ended with ${code}`);
    });
    const answer = once(child, "message", { signal });
    child.send(message);
    try {
      return (await Promise.race([answer, gone]))[0] as T;
    } finally {
      for (const waiting of [answer, gone]) waiting.catch(() => {});
      answered.abort();
    }
  };
  const { url, token } = await ask<{ url: string; token: string }>({ config });
  return {
    url,
    token,
    pid: child.pid ?? 0,
    measure: () => ask("measure"),
    close: async () => {
      try {
        const held = await ask<{ before: Holdings; after: Holdings }>("close");
        const holds = JSON.stringify(held.after.resources);
        await until(() => child.exitCode !== null, { what: `the end of the library's process by itself, which holds ${holds}` });
        return held;
      } finally {
        child.kill("SIGKILL");
        await rm(config.state, { recursive: true, force: true });
      }
    },
  };
};
