import { Worker } from "node:worker_threads";
import type { Disposable } from "../kernel/closers.js";

export interface Match {
  id: number;
  source: string;
  text: string;
}

export interface Matched {
  id: number;
  verdict: { ok: boolean; reason: string };
}

/** Users' regular expressions, in a thread of their own: whatever they take, up to their bound, nobody else waits for it. */
export interface Matcher extends Disposable {
  /** Whether `source` matches in `text`, with the reason in words. Never rejects. */
  match(source: string, text: string): Promise<Matched["verdict"]>;
}

/** The thread starts with the first match. */
export const openMatcher = (): Matcher => {
  const waiting = new Map<number, (verdict: Matched["verdict"]) => void>();
  let worker: Worker | undefined;
  let lastId = 0;
  let closed = false;

  const lost = (): void => {
    worker = undefined;
    for (const settle of waiting.values()) settle({ ok: false, reason: "the body could not be matched: the thread for it was lost" });
    waiting.clear();
  };

  const start = (): Worker => {
    const thread = new Worker(new URL("./matching-worker.js", import.meta.url), { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: 32 } });
    thread.on("message", ({ id, verdict }: Matched) => {
      waiting.get(id)?.(verdict);
      waiting.delete(id);
    });
    thread.on("error", () => undefined); // its "exit" follows
    thread.on("exit", () => {
      if (worker === thread) lost();
    });
    thread.unref();
    return thread;
  };

  return {
    match: (source, text) =>
      new Promise((resolve) => {
        if (closed) return resolve({ ok: false, reason: "the check was stopped" });
        try {
          worker ??= start();
        } catch (error) {
          // A machine that is out of threads.
          return resolve({ ok: false, reason: `the body could not be matched: ${(error as Error).message}` });
        }
        waiting.set(++lastId, resolve);
        worker.postMessage({ id: lastId, source, text } satisfies Match);
      }),
    close: async () => {
      closed = true;
      const thread = worker;
      lost();
      await thread?.terminate();
    },
  };
};
