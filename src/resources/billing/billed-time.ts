import type { Clock } from "../../kernel/clock.js";

/** A moment as the wall clock shows it, and as the bill counts it. */
export interface Moment {
  /** Milliseconds since the Unix epoch. */
  ms: number;
  /** Simulated milliseconds during which this state was served, since its first start. */
  billedMs: number;
}

export interface BilledTime {
  now(): Moment;
  /** Billed milliseconds in a real one. */
  rate: number;
}

export const hourMs = 3_600_000;
/** A billing month, in billed ms: 30 days (docs/decisions/014-bills.md). */
export const monthMs = 30 * 24 * hourMs;
/** However large `--speed` is, a billing month takes a quarter of a real second. */
const highestRate = 10_000_000;

/**
 * Time as the bill counts it: it passes `--speed` times as fast as real time, and only while Backlot runs. Monotonic, so that a corrected
 * system clock bills nothing.
 */
export const billedTime = (clock: Clock, startedAtBilledMs: number): BilledTime => {
  const rate = Math.min(highestRate, 1 / clock.simulated(1));
  const began = clock.monotonic();
  return { rate, now: () => ({ ms: clock.now(), billedMs: Math.round(startedAtBilledMs + (clock.monotonic() - began) * rate) }) };
};
