import type { Clock } from "../kernel/clock.js";
import type { Disposable } from "../kernel/closers.js";
import { type Dated, DueQueue } from "./due.js";

/** One queue of keys that runs one `reconcile(key)`; the same key never runs twice at once. It gets a key, never an event. */
export interface Loop extends Disposable {
  /** Runs the key soon, or after real `afterMs`; the earliest wish wins. While it runs, it is run once more afterwards. */
  poke(key: number, afterMs?: number): void;
}

/** One run of `reconcile`. */
export interface Turn {
  /** Aborted when the loop closes. Made when it is first asked for: most runs never do, and a controller costs as much as a short run. */
  readonly signal: AbortSignal;
}

interface LoopOptions {
  /** Makes one thing true. A number is "look again after so many real ms". Must be repeatable at any moment. */
  reconcile(key: number, turn: Turn): Promise<number | undefined>;
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
const never = Number.POSITIVE_INFINITY;

class Key implements Dated, Turn {
  running = false;
  /** Stands in `ready`: it will see everything up to its turn. */
  queued = false;
  dueMs = never;
  place = -1;
  failures = 0;
  /** One a run: a signal that all runs share collects listeners as long as the loop lives. */
  controller: AbortController | undefined;

  constructor(
    readonly id: number,
    private readonly isClosing: () => boolean,
  ) {}

  get signal(): AbortSignal {
    if (!this.controller) {
      this.controller = new AbortController();
      if (this.isClosing()) this.controller.abort(new Error("closing"));
    }
    return this.controller.signal;
  }
}

export const openLoop = ({ reconcile, clock, onFailure, concurrency }: LoopOptions): Loop => {
  const keys = new Map<number, Key>();
  const ready: Key[] = [];
  const due = new DueQueue<Key>();
  let running = 0;
  let timer: NodeJS.Timeout | undefined;
  let soon: NodeJS.Immediate | undefined;
  /** What the timer, or `soon`, is set for. */
  let timerDueMs = never;
  let closing = false;
  let closed: Promise<void> | undefined;
  let allDone = (): void => {};

  const isClosing = (): boolean => closing;

  const run = async (key: Key): Promise<void> => {
    try {
      const again = await reconcile(key.id, key);
      key.failures = 0;
      if (again !== undefined) poke(key.id, again);
    } catch (error) {
      if (!closing) {
        key.failures += 1;
        onFailure(key.id, error);
        poke(key.id, Math.min(longestPauseMs, firstPauseMs * 2 ** (key.failures - 1)));
      }
    } finally {
      running -= 1;
      key.running = false;
      key.controller = undefined;
      if (closing) {
        if (running === 0) allDone();
      } else {
        if (key.dueMs !== never) schedule(key);
        else if (key.failures === 0) keys.delete(key.id);
        startReady();
      }
    }
  };

  const startReady = (): void => {
    while (running < concurrency && !closing) {
      const key = ready.shift();
      if (!key) return;
      key.queued = false;
      key.running = true;
      running += 1;
      void run(key);
    }
  };

  const startDue = (): void => {
    timer = undefined;
    soon = undefined;
    timerDueMs = never;
    const nowMs = clock.monotonic();
    for (let first = due.first(); first && first.dueMs <= nowMs; first = due.first()) {
      due.shift();
      first.dueMs = never;
      first.queued = true;
      ready.push(first);
    }
    startReady();
    setTimer();
  };

  const setTimer = (): void => {
    const first = due.first();
    if (!first || closing || first.dueMs >= timerDueMs) return;
    clearTimeout(timer);
    clearImmediate(soon);
    timerDueMs = first.dueMs;
    const waitMs = Math.ceil(first.dueMs - clock.monotonic());
    // The shortest timer is 1 ms, in which a client that was told of a node could be refused by a balancer that was not.
    if (waitMs <= 0) soon = setImmediate(startDue);
    else timer = setTimeout(startDue, Math.min(longestTimerMs, waitMs));
  };

  const schedule = (key: Key): void => {
    due.put(key);
    setTimer();
  };

  const poke = (id: number, afterMs = 0): void => {
    if (closing) return;
    let key = keys.get(id);
    if (!key) {
      key = new Key(id, isClosing);
      keys.set(id, key);
    }
    const dueMs = clock.monotonic() + afterMs;
    if (key.queued || key.dueMs <= dueMs) return;
    key.dueMs = dueMs;
    if (!key.running) schedule(key);
  };

  return {
    poke,
    close: () => {
      closed ??= new Promise((resolve) => {
        closing = true;
        allDone = resolve;
        clearTimeout(timer);
        clearImmediate(soon);
        for (const { controller } of keys.values()) controller?.abort(new Error("closing"));
        if (running === 0) resolve();
      });
      return closed;
    },
  };
};
