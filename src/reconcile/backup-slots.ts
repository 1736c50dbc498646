const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

/** `W14` -> 14; midnight where no hours were chosen. */
export const slotHour = (window: string | null): number => Number(/^W(\d+)$/.exec(window ?? "")?.[1] ?? 0);

/**
 * The last daily slot up to now and the next one, in real ms since the epoch. Days are simulated ones: the clock agrees with the wall at
 * `sinceMs`, and then each real millisecond is `1 / realMsPerMs` of them; at speed 1 the slots are the hours in UTC.
 */
export const dailySlots = (sinceMs: number, nowMs: number, hour: number, realMsPerMs: number): { lastMs: number; nextMs: number } => {
  const simulated = sinceMs + (nowMs - sinceMs) / realMsPerMs;
  const last = Math.floor((simulated - hour * hourMs) / dayMs) * dayMs + hour * hourMs;
  const real = (at: number): number => sinceMs + (at - sinceMs) * realMsPerMs;
  return { lastMs: real(last), nextMs: real(last + dayMs) };
};
