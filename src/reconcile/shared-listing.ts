import type { Machine, RuntimeDriver } from "../runtime/driver.js";

type Machines = ReadonlyMap<number, Machine>;

/** Listing is one engine call for everything, so callers share it: each gets a listing that began after its call, never an older one. */
export const sharedListing = (driver: Pick<RuntimeDriver, "list">): { fresh(): Promise<Machines> } => {
  let current: Promise<Machines> | undefined;
  let next: Promise<Machines> | undefined;

  const list = async (): Promise<Machines> => new Map((await driver.list()).map((machine) => [machine.instance, machine]));

  const start = (): Promise<Machines> => {
    const mine = list().finally(() => {
      if (current === mine) current = undefined;
    });
    current = mine;
    return mine;
  };

  return {
    fresh: () => {
      if (!current) return start();
      next ??= current
        .then(
          () => undefined,
          () => undefined,
        )
        .then(() => {
          next = undefined;
          return start();
        });
      return next;
    },
  };
};
