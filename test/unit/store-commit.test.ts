import { expect, test } from "vitest";
import { add, labels, open, problems, type Thing, tempFolder, watchedDisk } from "./store-support.js";

test("a commit is seen by readers, and after a restart", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  const made = await store.commit((tx) => tx.insert("thing", { label: "a", tags: ["x"] }));
  expect(made).toEqual({ id: 1, label: "a", tags: ["x"] });
  await store.commit((tx) => tx.update("thing", 1, { label: "b" }));
  expect(store.get("thing", 1)).toEqual({ id: 1, label: "b", tags: ["x"] });
  await store.close();

  const again = await open(folder);
  expect(again.list("thing")).toEqual([{ id: 1, label: "b", tags: ["x"] }]);
  expect(again.owner).toBe(store.owner);
});

test("a change that throws leaves nothing, and those beside it in the batch stay", async () => {
  const store = await open(tempFolder());
  await add(store, "kept");
  const before = store.list("thing");
  const outcomes = await Promise.allSettled([
    add(store, "first"),
    store.commit((tx) => {
      tx.insert("thing", { label: "refused" });
      tx.update("thing", 1, { label: "refused" });
      tx.remove("thing", 2);
      throw new Error("no");
    }),
    store.commit((tx) => tx.list("thing").map((row) => row.label)),
    add(store, "second"),
  ]);
  expect(outcomes[1]).toMatchObject({ status: "rejected", reason: { message: "no" } });
  expect(outcomes[2]).toEqual({ status: "fulfilled", value: ["kept", "first"] });
  expect(labels(store)).toEqual(["kept", "first", "second"]);
  expect(store.list("thing").map((row) => row.id)).toEqual([1, 2, 3]);
  expect(before).toEqual([{ id: 1, label: "kept" }]);
});

test("a change sees every commit before it, readers only what is durable", async () => {
  const store = await open(tempFolder());
  const first = add(store, "a");
  const second = store.commit((tx) => [tx.get("thing", 1)?.label, tx.list("thing").length, labels(store).length]);
  expect(labels(store)).toEqual([]);
  expect(await second).toEqual(["a", 1, 0]);
  await first;
  expect(labels(store)).toEqual(["a"]);
});

test("200 commits at once share a few writes and all are there after a restart", async () => {
  const folder = tempFolder();
  let syncs = 0;
  const disk = watchedDisk((call) => {
    if (call === "datasync") syncs += 1;
  });
  const store = await open(folder, { disk });
  const made = await Promise.all(Array.from({ length: 200 }, (_, n) => add(store, `thing-${n}`)));
  expect(new Set(made.map((row) => row.id)).size).toBe(200);
  expect(syncs).toBe(1);
  await store.close();
  expect(labels(await open(folder))).toEqual(Array.from({ length: 200 }, (_, n) => `thing-${n}`));
});

test("rows cannot be changed by who reads, gives or gets them", async () => {
  const store = await open(tempFolder());
  const given = { label: "a", tags: ["x"], spec: { memory: 1 } };
  const made = await store.commit((tx) => tx.insert("thing", given));
  given.tags.push("y");
  given.spec.memory = 2;
  expect(store.get("thing", 1)).toEqual({ id: 1, label: "a", tags: ["x"], spec: { memory: 1 } });
  const read = store.get("thing", 1) as Thing;
  for (const row of [made, read]) {
    expect(() => Object.assign(row, { label: "b" })).toThrow(TypeError);
    expect(() => row.tags?.push("z")).toThrow(TypeError);
    expect(() => Object.assign(row.spec ?? {}, { memory: 3 })).toThrow(TypeError);
  }
});

test("rows read from the disk cannot be changed either", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  await store.commit((tx) => tx.insert("thing", { label: "a", spec: { memory: 1 } }));
  await store.close();
  const row = (await open(folder)).get("thing", 1) as Thing;
  expect(() => Object.assign(row.spec ?? {}, { memory: 3 })).toThrow(TypeError);
});

test("what a reader sees does not change by a restart: undefined members vanish at once", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  await store.commit((tx) => tx.insert("thing", { label: "a", text: undefined, spec: { memory: undefined } }));
  await store.commit((tx) => tx.insert("thing", { label: "b", text: "gone soon" }));
  await store.commit((tx) => tx.update("thing", 2, { text: undefined }));
  const seen = store.list("thing");
  expect(seen.map((row) => Object.keys(row))).toEqual([
    ["id", "label", "spec"],
    ["id", "label"],
  ]);
  await store.close();
  expect((await open(folder)).list("thing")).toStrictEqual(seen);
});

test("a list is the same array until the kind changes, and an old one stays as it was", async () => {
  const store = await open(tempFolder());
  for (const label of ["a", "b", "c"]) await add(store, label);
  const before = store.list("thing");
  await store.commit((tx) => tx.insert("other", { label: "z" }));
  expect(store.list("thing")).toBe(before);
  await store.commit((tx) => {
    tx.remove("thing", 2);
    tx.update("thing", 1, { label: "A" });
    tx.insert("thing", { label: "d" });
  });
  expect(store.list("thing")).toEqual([
    { id: 1, label: "A" },
    { id: 3, label: "c" },
    { id: 4, label: "d" },
  ]);
  expect(before.map((row) => row.label)).toEqual(["a", "b", "c"]);
});

test("inside a change the list shows what the change did", async () => {
  const store = await open(tempFolder());
  for (const label of ["a", "b"]) await add(store, label);
  const seen = await store.commit((tx) => {
    const steps = [tx.list("thing").map((row) => row.label)];
    tx.insert("thing", { label: "c" });
    steps.push(tx.list("thing").map((row) => row.label));
    tx.remove("thing", 1);
    tx.remove("thing", 99);
    tx.update("thing", 2, { label: "B" });
    steps.push(tx.list("thing").map((row) => row.label));
    return steps;
  });
  expect(seen).toEqual([
    ["a", "b"],
    ["a", "b", "c"],
    ["B", "c"],
  ]);
});

test("an update of a row that is not there is refused as not found", async () => {
  const store = await open(tempFolder());
  await expect(store.commit((tx) => tx.update("thing", 7, { label: "x" }))).rejects.toMatchObject({ kind: "not-found" });
});

test("a change must be done when it returns", async () => {
  const store = await open(tempFolder());
  const late = await store.commit((tx) => ({ tx }));
  expect(() => late.tx.insert("thing", { label: "late" })).toThrow("has ended");
  const slow = store.commit(async (tx) => {
    await undefined;
    tx.insert("thing", { label: "late" });
  });
  await expect(slow).rejects.toThrow("synchronous");
  expect(store.list("thing")).toEqual([]);
});

test("watchers are told once per changed row when it is durable, and no more after they left", async () => {
  const store = await open(tempFolder());
  const told: string[] = [];
  const watch = store.watch((kind, id) => told.push(`${kind} ${id} ${store.get(kind, id)?.label}`));
  await store.commit((tx) => {
    tx.insert("thing", { label: "a" });
    tx.update("thing", 1, { label: "b" });
    tx.insert("other", { label: "c" });
  });
  await expect(store.commit(() => Promise.reject(new Error("no")))).rejects.toThrow();
  await store.commit((tx) => tx.update("thing", 1, { label: "b" }));
  expect(told).toEqual(["thing 1 b", "other 1 c"]);
  await watch.close();
  await add(store, "d");
  expect(told).toHaveLength(2);
});

test("the same seen again is no news, something else is, undefined forgets", async () => {
  const store = await open(tempFolder());
  const told: unknown[] = [];
  store.watch((kind, id) => told.push([kind, id, store.observed(kind, id)]));
  store.observe("thing", 1, { status: "up", tries: [1] });
  store.observe("thing", 1, { status: "up", tries: [1] });
  store.observe("thing", 1, { status: "up", tries: [2] });
  store.observe("thing", 2, undefined);
  store.observe("thing", 1, undefined);
  expect(told).toEqual([
    ["thing", 1, { status: "up", tries: [1] }],
    ["thing", 1, { status: "up", tries: [2] }],
    ["thing", 1, undefined],
  ]);
});

test("what was observed is gone after a restart", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  store.observe("thing", 1, "up");
  await store.close();
  expect((await open(folder)).observed("thing", 1)).toBeUndefined();
});

test("a watcher that throws is reported and disturbs nobody", async () => {
  const store = await open(tempFolder());
  const told: number[] = [];
  problems.length = 0;
  store.watch(() => {
    throw new Error("watcher down");
  });
  store.watch((_, id) => told.push(id));
  await add(store, "a");
  store.observe("thing", 1, "up");
  await add(store, "b");
  expect(told).toEqual([1, 1, 2]);
  expect(problems).toHaveLength(3);
  expect(problems[0]).toContain("watcher down");
});

test("closing waits for the commits that were taken and refuses later ones", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  const taken = add(store, "taken");
  const closing = store.close();
  await expect(add(store, "late")).rejects.toMatchObject({ kind: "unavailable" });
  await closing;
  expect(await taken).toMatchObject({ label: "taken" });
  expect(labels(await open(folder))).toEqual(["taken"]);
});

test.each([1, 16, 17, 60])("a list shows %i removals, a change and additions of one commit, in order, and the one before it stays", async (count) => {
  const store = await open(tempFolder());
  await store.commit((tx) => {
    for (let n = 1; n <= 100; n += 1) tx.insert("thing", { label: `thing-${n}` });
  });
  const before = store.list("thing");
  const during = await store.commit((tx) => {
    tx.insert("thing", { label: "new" });
    tx.insert("thing", { label: "newer" });
    for (let n = 1; n <= count; n += 1) tx.remove("thing", n + 20);
    tx.update("thing", 100, { label: "changed" });
    tx.remove("thing", 101);
    return tx.list("thing").map((row) => row.label);
  });
  const left = Array.from({ length: 99 }, (_, at) => at + 1).filter((id) => id <= 20 || id > 20 + count);
  expect(labels(store)).toEqual([...left.map((id) => `thing-${id}`), "changed", "newer"]);
  expect(during).toEqual(labels(store));
  expect(before).toHaveLength(100);
});
