import { expect, test } from "vitest";
import type { Store } from "#backlot/store/store.js";
import { add, open, type Thing, tempFolder } from "./store-support.js";

type Reading = Pick<Store<{ thing: Thing; other: { id: number; label: string } }>, "find" | "list">;

const byLabel = (row: { label: string }) => row.label;
const byFirstTag = (row: Thing) => row.tags?.[0] ?? null;
const ids = (rows: readonly { id: number }[]) => rows.map((row) => row.id);
const found = (reader: Reading, label: string) => ids(reader.find("thing", byLabel, label));

test("rows are found by what a key says of them, in order of id, by several keys and kinds", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  await store.commit((tx) => {
    tx.insert("thing", { label: "a", tags: ["x"] });
    tx.insert("thing", { label: "b", tags: ["x"] });
    tx.insert("thing", { label: "a" });
    tx.insert("other", { label: "a" });
  });
  expect(store.find("thing", byLabel, "a")).toEqual([
    { id: 1, label: "a", tags: ["x"] },
    { id: 3, label: "a" },
  ]);
  expect(ids(store.find("thing", byFirstTag, "x"))).toEqual([1, 2]);
  expect(ids(store.find("other", byLabel, "a"))).toEqual([1]);
  expect(store.find("thing", byLabel, "c")).toEqual([]);
  await store.commit((tx) => tx.update("thing", 2, { label: "a" }));
  expect(found(store, "a")).toEqual([1, 2, 3]);
  expect(found(store, "b")).toEqual([]);
  await store.commit((tx) => tx.remove("thing", 1));
  expect(found(store, "a")).toEqual([2, 3]);
  expect(ids(store.find("thing", byFirstTag, "x"))).toEqual([2]);
  await store.close();
  expect(found(await open(folder), "a")).toEqual([2, 3]);
});

test("a change finds what it did and what those before it in the batch did; readers do not until it is durable", async () => {
  const store = await open(tempFolder());
  await add(store, "a");
  expect(found(store, "a")).toEqual([1]);
  const seen = await Promise.all([
    store.commit((tx) => {
      tx.insert("thing", { label: "a" });
      return [found(tx, "a"), found(store, "a")];
    }),
    store.commit((tx) => {
      const before = found(tx, "a");
      tx.update("thing", 1, { label: "b" });
      tx.insert("thing", { label: "a" });
      const between = [found(tx, "a"), found(tx, "b")];
      tx.remove("thing", 2);
      return [before, between, found(tx, "a"), found(store, "a")];
    }),
  ]);
  expect(seen).toEqual([
    [[1, 2], [1]],
    [[1, 2], [[2, 3], [1]], [3], [1]],
  ]);
  expect([found(store, "a"), found(store, "b")]).toEqual([[3], [1]]);
});

test("of a refused change nothing is found, by keys that were asked before it and by keys that it asked first", async () => {
  const store = await open(tempFolder());
  await add(store, "a");
  await add(store, "a");
  found(store, "a");
  const refused = store.commit((tx) => {
    tx.update("thing", 1, { label: "b", tags: ["x"] });
    tx.remove("thing", 2);
    tx.insert("thing", { label: "a", tags: ["x"] });
    expect([found(tx, "a"), found(tx, "b"), ids(tx.find("thing", byFirstTag, "x"))]).toEqual([[3], [1], [1, 3]]);
    throw new Error("no");
  });
  const beside = store.commit((tx) => [found(tx, "a"), found(tx, "b"), ids(tx.find("thing", byFirstTag, "x"))]);
  await expect(refused).rejects.toThrow("no");
  expect(await beside).toEqual([[1, 2], [], []]);
  expect([found(store, "a"), found(store, "b"), ids(store.find("thing", byFirstTag, "x"))]).toEqual([[1, 2], [], []]);
});

test("an answer stays as it was while the rows in it are changed and removed", async () => {
  const store = await open(tempFolder());
  for (const label of ["a", "a", "a"]) await add(store, label);
  const before = store.find("thing", byLabel, "a");
  await store.commit((tx) => {
    for (const row of tx.find("thing", byLabel, "a")) {
      if (row.id < 3) tx.remove("thing", row.id);
      else tx.update("thing", row.id, { label: "b" });
    }
    expect(found(tx, "a")).toEqual([]);
  });
  expect(before.map((row) => [row.id, row.label])).toEqual([
    [1, "a"],
    [2, "a"],
    [3, "a"],
  ]);
  expect([found(store, "a"), found(store, "b")]).toEqual([[], [3]]);
});

/** A generator of numbers below `below` that gives the same ones for the same seed (mulberry32). */
const random = (seed: number) => {
  let state = seed;
  return (below: number): number => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
};

test.each([1, 2, 3])("finds what a look at every row finds, after whatever happened (seed %i)", async (seed) => {
  const store = await open(tempFolder());
  const below = random(seed);
  const labels = ["a", "b", "c", "d"];
  const label = () => labels[below(labels.length)] ?? "a";
  const check = (reader: Reading): void => {
    for (const value of labels) {
      expect(reader.find("thing", byLabel, value)).toEqual(reader.list("thing").filter((row) => row.label === value));
      expect(reader.find("thing", byFirstTag, value)).toEqual(reader.list("thing").filter((row) => byFirstTag(row) === value));
    }
  };
  const step = () =>
    store.commit((tx) => {
      for (let count = below(6); count >= 0; count -= 1) {
        const rows = tx.list("thing");
        const row = rows[below(rows.length + 1)];
        const deed = below(3);
        if (!row || deed === 0) tx.insert("thing", { label: label(), tags: below(2) === 0 ? [] : [label()] });
        else if (deed === 1) tx.remove("thing", row.id);
        else tx.update("thing", row.id, below(2) === 0 ? { label: label() } : { tags: [label()] });
        if (below(3) === 0) check(tx);
      }
      check(tx);
      if (below(4) === 0) throw new Error("refused");
    });
  for (let round = 0; round < 40; round += 1) {
    const outcomes = await Promise.allSettled(Array.from({ length: 1 + below(4) }, step));
    for (const outcome of outcomes) if (outcome.status === "rejected") expect(outcome.reason).toMatchObject({ message: "refused" });
    check(store);
  }
});
