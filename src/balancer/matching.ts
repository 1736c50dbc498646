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

interface Wish {
  text: string;
  settle(verdict: Matched["verdict"]): void;
}

/** The thread starts with the first match. Expressions take turns in it: however many texts one has waiting, another's waits for one of them. */
export const openMatcher = (): Matcher => {
  /** By expression, in the order of their turns; the first is the one whose turn it is, if there is any. */
  const waiting = new Map<string, Wish[]>();
  let current: Wish | undefined;
  let worker: Worker | undefined;
  let lastId = 0;
  let closed = false;

  const lost = (): void => {
    worker = undefined;
    const all = [...(current ? [current] : []), ...[...waiting.values()].flat()];
    current = undefined;
    waiting.clear();
    for (const { settle } of all) settle({ ok: false, reason: "the body could not be matched: the thread for it was lost" });
  };

  const next = (): void => {
    const [first] = waiting;
    if (current || !worker || !first) return;
    const [source, wishes] = first;
    current = wishes.shift();
    if (current) worker.postMessage({ id: ++lastId, source, text: current.text } satisfies Match);
  };

  const endTurn = (verdict: Matched["verdict"]): void => {
    current?.settle(verdict);
    current = undefined;
    const [first] = waiting;
    if (!first) return;
    const [source, wishes] = first;
    waiting.delete(source);
    if (wishes.length > 0) waiting.set(source, wishes);
    next();
  };

  const start = (): Worker => {
    const thread = new Worker(new URL("./matching-worker.js", import.meta.url), { execArgv: [], resourceLimits: { maxOldGenerationSizeMb: 32 } });
    thread.on("message", ({ id, verdict }: Matched) => {
      if (id === lastId) endTurn(verdict);
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
        const wishes = waiting.get(source) ?? [];
        wishes.push({ text, settle: resolve });
        waiting.set(source, wishes);
        next();
      }),
    close: async () => {
      closed = true;
      const thread = worker;
      lost();
      await thread?.terminate();
    },
  };
};
