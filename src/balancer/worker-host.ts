import { Worker } from "node:worker_threads";
import type { Disposable } from "../kernel/closers.js";
import { reasonOf } from "../kernel/fault.js";
import { sumOfCounters } from "./counters.js";
import { defaultLimits, type Limits } from "./limits.js";
import type { Order, Report, WorkerSettings } from "./messages.js";
import type { BalancerPlane, ListenerCounters, ListenerKey, ListenerSpec, ListenerState } from "./plane.js";

export interface PlaneOptions {
  /** Told when the worker thread was lost, and when a listener could not be opened again after that. */
  onProblem?(reason: string): void;
  /** Real milliseconds; for tests that must see a bound pass. */
  limits?: Partial<Limits>;
  /** Off: every request takes the careful lane. Default on. */
  fastLane?: boolean;
  /** Off: client connections are closed after each answer, as the public service does. Default on. */
  keepAlive?: boolean;
  /** Client connections one balancer may have open; default 10,000 (contract 8.5). */
  maxConnections?: number;
}

type Unnumbered<T> = T extends { id: number } ? Omit<T, "id"> : never;

interface Pending {
  order: Order;
  resolve(report: Report): void;
}

const SHORT_LIFE_MS = 5_000;
/** After so many short lives in a row whoever waits is told that it does not work. */
const PATIENCE = 3;
const RESTART_AFTER_MS = [0, 100, 500, 2_000, 5_000] as const;

const watched = <W>(watchers: Set<W>, watcher: W): Disposable => {
  watchers.add(watcher);
  return {
    close: async () => {
      watchers.delete(watcher);
    },
  };
};

/**
 * The balancer's data plane in a worker thread (DESIGN section 3, Threads). The thread starts with the first listener. When it dies it is
 * replaced and its listeners are opened again with their last specs.
 */
export const openPlane = (options: PlaneOptions = {}): BalancerPlane => {
  const settings: WorkerSettings = {
    limits: { ...defaultLimits, ...options.limits },
    fastLane: options.fastLane ?? true,
    keepAlive: options.keepAlive ?? true,
    maxConnections: options.maxConnections ?? 10_000,
  };
  const wanted = new Map<ListenerKey, { spec: ListenerSpec; port: number | undefined }>();
  const pending = new Map<number, Pending>();
  const watchers = new Set<(key: ListenerKey, node: number, reason: string) => void>();
  const reopenWatchers = new Set<(key: ListenerKey) => void>();
  /** Counters of closed listeners, and of workers that are gone as last read. */
  const past = new Map<ListenerKey, ListenerCounters>();
  let present: Record<ListenerKey, ListenerCounters> = {};
  let worker: Worker | undefined;
  let restart: NodeJS.Timeout | undefined;
  let shortLives = 0;
  let closing: Promise<void> | undefined;
  let lastId = 0;

  const receive = (message: Report): void => {
    if (message.kind === "hint") {
      for (const watcher of watchers) watcher(message.key, message.node, message.reason);
      return;
    }
    if (message.kind === "state" && message.counted) {
      past.set(message.key, sumOfCounters(past.get(message.key), message.counted));
      delete present[message.key];
    } else if (message.kind === "counters") present = message.counters;
    pending.get(message.id)?.resolve(message);
    pending.delete(message.id);
  };

  const giveUpPending = (reason: string): void => {
    for (const [id, { order, resolve }] of pending) {
      resolve(order.kind === "apply" ? { kind: "state", id, key: order.key, state: { status: "failed", reason } } : { kind: "closed", id });
    }
    pending.clear();
  };

  const lost = (reason: string, bornMs: number): void => {
    worker = undefined;
    for (const [key, counters] of Object.entries(present)) past.set(key, sumOfCounters(past.get(key), counters));
    present = {};
    shortLives = performance.now() - bornMs < SHORT_LIFE_MS ? shortLives + 1 : 0;
    if (closing) {
      for (const [id, { resolve }] of pending) resolve({ kind: "closed", id });
      pending.clear();
      return;
    }
    options.onProblem?.(`The balancer's worker thread was lost (${reason}); its connections are cut and its listeners are opened again.`);
    if (shortLives >= PATIENCE) giveUpPending(`The balancer's worker thread cannot be kept alive: ${reason}.`);
    restart = setTimeout(start, RESTART_AFTER_MS[Math.min(shortLives, RESTART_AFTER_MS.length - 1)]);
  };

  const start = (): Worker => {
    restart = undefined;
    const bornMs = performance.now();
    const thread = new Worker(new URL("./worker.js", import.meta.url), { workerData: settings, execArgv: [] }); // flags such as --input-type end a worker at once
    let reason = "it ended";
    worker = thread;
    thread.on("message", receive);
    thread.on("error", (error) => {
      reason = reasonOf(error);
    });
    thread.on("exit", () => lost(reason, bornMs));
    const unanswered = [...pending.values()].map(({ order }) => order);
    const asked = new Set(unanswered.flatMap((order) => (order.kind === "apply" ? [order.key] : [])));
    for (const [key, { spec, port }] of wanted) if (!asked.has(key)) void reopen(key, spec, port);
    for (const order of unanswered) thread.postMessage(order);
    return thread;
  };

  const ask = (order: Unnumbered<Order>): Promise<Report> =>
    new Promise((resolve) => {
      const numbered = { ...order, id: ++lastId } as Order;
      pending.set(numbered.id, { order: numbered, resolve });
      if (worker) worker.postMessage(numbered);
      else if (restart === undefined) start(); // sends what is pending
    });

  const stateOf = (report: Report): ListenerState => (report.kind === "state" ? report.state : { status: "closed" });

  const reopen = async (key: ListenerKey, spec: ListenerSpec, port: number | undefined): Promise<void> => {
    const state = stateOf(await ask({ kind: "apply", key, wanted: spec, ...(port === undefined ? {} : { lastPort: port }) }));
    if (state.status === "failed") options.onProblem?.(`The listener of ${key} could not be opened again: ${state.reason}`);
    for (const told of reopenWatchers) told(key);
  };

  const counters = async (): Promise<Record<ListenerKey, ListenerCounters>> => {
    if (worker) await ask({ kind: "counters" });
    const total = Object.fromEntries(past);
    for (const [key, counted] of Object.entries(present)) total[key] = sumOfCounters(total[key], counted);
    return total;
  };

  return {
    apply: async (key, spec) => {
      if (closing) return { status: "failed", reason: "The balancer is closing." };
      if (!spec && !wanted.has(key)) return { status: "closed" };
      if (!spec) {
        wanted.delete(key);
        return stateOf(await ask({ kind: "apply", key, wanted: undefined }));
      }
      const entry = { spec, port: wanted.get(key)?.port };
      wanted.set(key, entry);
      const state = stateOf(await ask({ kind: "apply", key, wanted: spec }));
      if (state.status === "open") entry.port = state.port;
      return state;
    },
    counters,
    forget: (read) => {
      for (const [key, counted] of past) if (read[key] === counted && !wanted.has(key)) past.delete(key);
    },
    watch: (hint) => watched(watchers, hint),
    watchReopened: (told) => watched(reopenWatchers, told),
    close: () => {
      closing ??= (async () => {
        clearTimeout(restart);
        const thread = worker;
        if (!thread) {
          for (const [id, { resolve }] of pending) resolve({ kind: "closed", id });
          pending.clear();
          return;
        }
        const gone = new Promise<void>((resolve) => thread.once("exit", () => resolve()));
        await ask({ kind: "close" });
        await thread.terminate();
        await gone;
      })();
      return closing;
    },
  };
};
