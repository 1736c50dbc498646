import { expect, test } from "vitest";
import { Closers } from "#backlot/kernel/closers.js";

test("what was opened closes in reverse, also behind one that fails, and the first failure is told", async () => {
  const closed: string[] = [];
  const closers = new Closers();
  closers.add(() => void closed.push("first"));
  closers.add(() => Promise.reject(new Error("second")));
  closers.add(() => void closed.push("third"));
  await expect(closers.close()).rejects.toThrow("second");
  expect(closed).toEqual(["third", "first"]);
  await expect(closers.close()).rejects.toThrow("second");
});

test("one that never closes is left behind and named, and what lies below it closes", async () => {
  const closed: string[] = [];
  const closers = new Closers(50);
  closers.add(() => void closed.push("the store"), "The store");
  closers.add(() => new Promise(() => {}), "The tasks of volumes", 20);
  await expect(closers.close()).rejects.toThrow(/The tasks of volumes did not close within 0 s and were left behind.*look at the engine/);
  expect(closed).toEqual(["the store"]);
});

test("a bound of its own takes no time from the others", async () => {
  const closed: string[] = [];
  const closers = new Closers(60_000);
  closers.add(() => void closed.push("below"));
  closers.add(() => new Promise<void>((resolve) => setImmediate(resolve)), "Machines", 60_000);
  await closers.close();
  expect(closed).toEqual(["below"]);
});
