/**
 * Asks again until the answer is something, and gives it back. For waiting on a state of the world, with a bound; never a substitute for a sleep.
 * A check that throws counts as "not yet", and its last reason is shown when the bound is reached.
 */
export const until = async <T>(
  check: () => T | undefined | false | null | Promise<T | undefined | false | null>,
  { withinMs = 10_000, what = "the awaited state" }: { withinMs?: number; what?: string } = {},
): Promise<T> => {
  const deadline = Date.now() + withinMs;
  let last: unknown;
  for (;;) {
    try {
      const answer = await check();
      if (answer !== undefined && answer !== false && answer !== null) return answer;
    } catch (error) {
      last = error;
    }
    if (Date.now() > deadline) {
      throw new Error(`${what} did not come within ${withinMs} ms${last === undefined ? "" : `; last: ${String(last)}`}`, { cause: last });
    }
    await new Promise((resolve) => setTimeout(resolve, 15));
  }
};
