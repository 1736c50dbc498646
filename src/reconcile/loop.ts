import type { Clock } from "../kernel/clock.js";
import type { Disposable } from "../kernel/closers.js";

/** One queue of keys that runs one `reconcile(key)`; the same key never runs twice at once. It gets a key, never an event. */
export interface Loop extends Disposable {
  /** Runs the key soon, or after real `afterMs`; the earliest wish wins. While it runs, it is run once more afterwards. */
  poke(key: number, afterMs?: number): void;
}

interface LoopOptions {
  /** Makes one thing true. A number is "look again after so many real ms". Must be repeatable at any moment. */
  reconcile(key: number, signal: AbortSignal): Promise<number | undefined>;
  clock: Clock;
  /** Told when a key failed; it is tried again after a growing pause. */
  onFailure(key: number, error: unknown): void;
  /** How many keys may run at once. */
  concurrency: number;
}

const firstPauseMs = 250;
const longestPauseMs = 30_000;
/** Node fires a timer at once that is longer than this. */
const longestTimerMs = 2 ** 31 - 1;

interface KeyState {
  running: boolean;
  /** Stands in `ready`: it will see everything up to its turn. */
  queued: boolean;
  dueMs: number | undefined;
  timer: NodeJS.Timeout | undefined;
  failures: number;
}

export const openLoop = ({ reconcile, clock, onFailure, concurrency }: LoopOptions): Loop => {
  const keys = new Map<number, KeyState>();
  const ready: number[] = [];
  const running = new Set<Promise<void>>();
  let closing = false;
  /** One controller a run: a signal that all runs share collects listeners as long as the loop lives. */
  const stopping = new Set<AbortController>();

  const run = async (key: number, state: KeyState): Promise<void> => {
    const stop = new AbortController();
    stopping.add(stop);
    try {
      const again = await reconcile(key, stop.signal);
      state.failures = 0;
      if (again !== undefined) poke(key, again);
    } catch (error) {
      if (closing) return;
      state.failures += 1;
      onFailure(key, error);
      poke(key, Math.min(longestPauseMs, firstPauseMs * 2 ** (state.failures - 1)));
    } finally {
      stopping.delete(stop);
    }
  };

  const startReady = (): void => {
    while (running.size < concurrency && !closing) {
      const key = ready.shift();
      if (key === undefined) return;
      const state = keys.get(key);
      if (!state) continue;
      state.queued = false;
      state.running = true;
      const done: Promise<void> = run(key, state).finally(() => {
        running.delete(done);
        state.running = false;
        if (state.dueMs === undefined) {
          if (state.failures === 0) keys.delete(key);
        } else if (!closing) arm(key, state);
        startReady();
      });
      running.add(done);
    }
  };

  const arm = (key: number, state: KeyState): void => {
    clearTimeout(state.timer);
    const waitMs = Math.min(longestTimerMs, Math.max(0, (state.dueMs ?? 0) - clock.monotonic()));
    state.timer = setTimeout(() => {
      state.timer = undefined;
      state.dueMs = undefined;
      state.queued = true;
      ready.push(key);
      startReady();
    }, waitMs);
  };

  const poke = (key: number, afterMs = 0): void => {
    if (closing) return;
    let state = keys.get(key);
    if (!state) {
      state = { running: false, queued: false, dueMs: undefined, timer: undefined, failures: 0 };
      keys.set(key, state);
    }
    const dueMs = clock.monotonic() + afterMs;
    if (state.queued || (state.dueMs !== undefined && state.dueMs <= dueMs)) return;
    state.dueMs = dueMs;
    if (!state.running) arm(key, state);
  };

  return {
    poke,
    close: async () => {
      closing = true;
      for (const stop of stopping) stop.abort(new Error("closing"));
      for (const state of keys.values()) clearTimeout(state.timer);
      keys.clear();
      await Promise.allSettled(running);
    },
  };
};
