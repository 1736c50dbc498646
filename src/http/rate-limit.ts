import type { Clock } from "../kernel/clock.js";
import type { Route } from "../kernel/route.js";

/** How many calls of one endpoint one caller may make in a window (contract 7.2). */
interface RateClass {
  limit: number;
  /** Simulated seconds. */
  windowS: number;
}

const everything: RateClass = { limit: 1600, windowS: 60 };
const lists: RateClass = { limit: 200, windowS: 60 };

/** The classes of contract 7.2 that are narrower than "lists" and "everything", by method and native path. */
const narrower: ReadonlyArray<[method: string, path: RegExp, limit: RateClass]> = [
  ["POST", /^\/v4\/cloud\/instances$/, { limit: 20, windowS: 15 }],
  ["POST", /^\/v4\/volumes$/, { limit: 100, windowS: 60 }],
  ["GET", /^\/v4\/images$/, { limit: 20, windowS: 60 }],
  ["GET", /^\/v4\/cloud\/scripts$/, { limit: 60, windowS: 60 }],
  ["GET", /\/stats(\/|$)/, { limit: 50, windowS: 60 }],
  ["POST", /^\/v4\/profile\/tokens$/, { limit: 3, windowS: 60 }],
];

/** What a route's calls are counted against. */
export const rateClass = (route: Pick<Route<never>, "method" | "path" | "answers">): RateClass =>
  narrower.find(([method, path]) => method === route.method && path.test(route.path))?.[2] ?? (route.answers === "list" ? lists : everything);

export interface Allowance {
  limit: number;
  /** Calls left in this window. */
  remaining: number;
  /** When the window ends, in ms since the epoch. */
  resetMs: number;
  refused: boolean;
}

export interface RateLimits {
  /** Counts a call. */
  take(caller: string, route: Pick<Route<never>, "method" | "path" | "answers">): Allowance;
  /** What an answer says that no route's window was asked for. */
  untaken(): Allowance;
}

/** So many windows are remembered at most; the oldest are forgotten first, which only ever allows more. */
const keptWindows = 10_000;

/** Fixed windows, one an endpoint and caller. `enforced` false: nothing is counted, and everything is left always. */
export const openRateLimits = (clock: Pick<Clock, "now" | "simulated">, enforced: boolean): RateLimits => {
  const windows = new Map<string, { used: number; resetMs: number }>();
  const full = ({ limit, windowS }: RateClass): Allowance => ({
    limit,
    remaining: limit,
    resetMs: clock.now() + clock.simulated(windowS * 1000),
    refused: false,
  });
  return {
    untaken: () => full(everything),
    take: (caller, route) => {
      const rate = rateClass(route);
      if (!enforced) return full(rate);
      const key = `${caller} ${route.method} ${route.path}`;
      const now = clock.now();
      let window = windows.get(key);
      if (!window || window.resetMs <= now) {
        window = { used: 0, resetMs: now + clock.simulated(rate.windowS * 1000) };
        windows.delete(key);
        windows.set(key, window);
        for (const oldest of windows.keys()) {
          if (windows.size <= keptWindows) break;
          windows.delete(oldest);
        }
      }
      window.used += 1;
      return { limit: rate.limit, remaining: Math.max(0, rate.limit - window.used), resetMs: window.resetMs, refused: window.used > rate.limit };
    },
  };
};
