/** Numbers that look like chance and come back with the same seed (mulberry32). */
export interface Chance {
  /** From 0 to below 1. */
  part(): number;
  /** Whole, from 0 to below `below`. */
  below(below: number): number;
  oneOf<T>(things: readonly T[]): T;
}

export const chanceOf = (seed: number): Chance => {
  let state = seed >>> 0;
  const part = (): number => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (limit: number): number => Math.floor(part() * limit);
  const oneOf = <T>(things: readonly T[]): T => {
    const thing = things[below(things.length)];
    if (thing === undefined) throw new Error("one of nothing");
    return thing;
  };
  return { part, below, oneOf };
};
