import { expect, test } from "vitest";
import { realClock } from "#backlot/kernel/clock.js";
import { openLoop } from "#backlot/reconcile/loop.js";
import { until } from "../support/until.js";

const clock = realClock(1);
const onFailure = (_key: number, error: unknown): void => {
  throw error;
};

test("keys run when they are due, in that order, and the earliest wish wins", async () => {
  const ran: number[] = [];
  const reconcile = async (key: number): Promise<undefined> => void ran.push(key);
  const loop = openLoop({ reconcile, clock, onFailure, concurrency: 1 });
  loop.poke(3, 60);
  loop.poke(1, 20);
  loop.poke(4, 60_000);
  loop.poke(4, 80);
  loop.poke(2, 40);
  loop.poke(1, 30_000);
  await until(() => ran.length === 4);
  expect(ran).toEqual([1, 2, 3, 4]);
  await loop.close();
});

test("a key that is poked while it runs runs once more, and never twice at once", async () => {
  let under = 0;
  let runs = 0;
  const gates: Array<() => void> = [];
  let others = 0;
  const reconcile = async (key: number): Promise<undefined> => {
    if (key === 2) {
      others += 1;
      return undefined;
    }
    under += 1;
    runs += 1;
    expect(under).toBe(1);
    await new Promise<void>((resolve) => gates.push(resolve));
    under -= 1;
    return undefined;
  };
  const loop = openLoop({ reconcile, clock, onFailure, concurrency: 4 });
  loop.poke(1);
  await until(() => gates.length === 1);
  for (let count = 0; count < 5; count += 1) loop.poke(1);
  // Poked later and free to run: the first one's turn would have come by then.
  loop.poke(2);
  await until(() => others === 1);
  expect(runs).toBe(1);
  gates[0]?.();
  await until(() => gates.length === 2);
  gates[1]?.();
  await until(() => under === 0);
  expect(runs).toBe(2);
  await loop.close();
});

test("what fails is tried again, and a number is a wish to look again", async () => {
  const failed: number[] = [];
  let runs = 0;
  const reconcile = async (): Promise<number | undefined> => {
    runs += 1;
    if (runs === 1) throw new Error("not yet");
    return runs < 4 ? 1 : undefined;
  };
  const loop = openLoop({ reconcile, clock, onFailure: (key) => failed.push(key), concurrency: 1 });
  loop.poke(7);
  await until(() => runs === 4);
  expect(failed).toEqual([7]);
  await loop.close();
});

test("closing aborts the signal that was asked for, also one that is asked for later, and waits for what runs", async () => {
  let late: AbortSignal | undefined;
  let ended = 0;
  let goOn = (): void => {};
  const reconcile = async (key: number, turn: { signal: AbortSignal }): Promise<undefined> => {
    if (key === 1) await new Promise((resolve) => turn.signal.addEventListener("abort", resolve));
    else {
      await new Promise<void>((resolve) => {
        goOn = resolve;
      });
      late = turn.signal;
    }
    ended += 1;
    return undefined;
  };
  let started = 0;
  const counted = (key: number, turn: { signal: AbortSignal }) => {
    started += 1;
    return reconcile(key, turn);
  };
  const loop = openLoop({ reconcile: counted, clock, onFailure, concurrency: 4 });
  loop.poke(1);
  loop.poke(2);
  await until(() => started === 2);
  const closed = loop.close();
  expect(loop.close()).toBe(closed);
  await until(() => ended === 1);
  goOn();
  await closed;
  expect(ended).toBe(2);
  expect(late?.aborted).toBe(true);
  loop.poke(3);
  expect(started).toBe(2);
});
