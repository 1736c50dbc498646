import type { Clock } from "../../kernel/clock.js";

/** Tries that failed before a name, or an address, has to wait; and how long, in simulated ms. */
const limits = { name: 5, address: 50 };
const windowMs = 15 * 60 * 1000;
const keptKeys = 10_000;

/** Bounds guessing. A try counts from its beginning, so many at once do not slip through; a success takes its name's count back. */
export class Attempts {
  readonly #clock: Clock;
  readonly #counts = new Map<string, { count: number; untilMs: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  #add(key: string, limit: number): number {
    const now = this.#clock.now();
    const known = this.#counts.get(key);
    const entry = known && known.untilMs > now ? known : { count: 0, untilMs: now + this.#clock.simulated(windowMs) };
    if (entry.count >= limit) return entry.untilMs - now;
    entry.count += 1;
    this.#counts.delete(key);
    const [oldest] = this.#counts.keys();
    if (oldest !== undefined && this.#counts.size >= keptKeys) this.#counts.delete(oldest);
    this.#counts.set(key, entry);
    return 0;
  }

  /** Counts a try; answers the ms to wait when there were too many, and then does not count it. */
  begin(username: string, ip: string): number {
    return this.#add(`address ${ip}`, limits.address) || this.#add(`name ${username.toLowerCase()}`, limits.name);
  }

  succeeded(username: string): void {
    this.#counts.delete(`name ${username.toLowerCase()}`);
  }
}
