import { chmodSync, copyFileSync, mkdirSync, renameSync, rmSync, statSync, truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { type Disk, realDisk } from "#backlot/store/disk.js";
import type { Migration, StateDocument } from "#backlot/store/open-store.js";
import { add, bytesOf, files, journal, labels, open, problems, refusal, tempFolder } from "./store-support.js";

const copied = (folder: string): string => {
  const copy = tempFolder();
  mkdirSync(copy);
  for (const name of files(folder)) copyFileSync(join(folder, name), join(copy, name));
  return copy;
};

/** Two snapshots (1..2 and 1..4), and commits 5 and 6 in the journal only: the copy of a running state. */
const copyOfRunning = async (): Promise<string> => {
  const folder = tempFolder();
  for (const pair of [
    ["a", "b"],
    ["c", "d"],
  ]) {
    const store = await open(folder);
    for (const label of pair) await add(store, label);
    await store.close();
  }
  const store = await open(folder);
  await add(store, "e");
  // Longer than what a test adds after it: a torn rest of it would show behind that.
  await store.commit((tx) => tx.insert("thing", { label: "f", text: "x".repeat(100) }));
  const copy = copied(folder);
  await store.close();
  return copy;
};

const withByte = (bytes: Buffer, at: number): Buffer => {
  const changed = Buffer.from(bytes);
  changed[at] = (changed[at] ?? 0) ^ 1;
  return changed;
};

test("everything in the folder is for its owner only, from its making on", async () => {
  const folder = tempFolder();
  problems.length = 0;
  const store = await open(folder);
  await add(store, "a");
  await store.close();
  await (await open(folder)).close();
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(files(folder)).toEqual(["journal.1.jsonl", "journal.2.jsonl", "state.json", "state.json.previous"]);
  for (const name of files(folder)) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600);
  expect(problems).toEqual([]);
});

test("files are for their owner only whatever the umask is, and so are files from elsewhere", async () => {
  const folder = tempFolder();
  const before = process.umask(0);
  try {
    const store = await open(folder);
    await add(store, "a");
    await store.close();
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    for (const name of files(folder)) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600);
  } finally {
    process.umask(before);
  }
  for (const name of files(folder)) chmodSync(join(folder, name), 0o644);
  await (await open(folder)).close();
  for (const name of files(folder)) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600);
});

test("closing writes no snapshot when there is nothing new", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  await add(store, "a");
  await store.close();
  const before = files(folder).map((name) => statSync(join(folder, name), { bigint: true }).mtimeNs);
  const inode = statSync(join(folder, "state.json")).ino;
  await (await open(folder)).close();
  expect(files(folder).map((name) => statSync(join(folder, name), { bigint: true }).mtimeNs)).toEqual(before);
  expect(statSync(join(folder, "state.json")).ino).toBe(inode);
});

test("snapshot and journal together are the state, and so are the previous snapshot and the journals", async () => {
  const folder = await copyOfRunning();
  expect(labels(await open(folder))).toEqual(["a", "b", "c", "d", "e", "f"]);
  const second = await copyOfRunning();
  renameSync(join(second, "state.json.previous"), join(second, "state.json"));
  const store = await open(second);
  expect(labels(store)).toEqual(["a", "b", "c", "d", "e", "f"]);
  expect(await add(store, "g")).toMatchObject({ id: 7 });
});

test("a journal whose last line is cut at any byte opens without that line, and goes on cleanly", async () => {
  const folder = await copyOfRunning();
  const file = journal(folder);
  const whole = bytesOf(file);
  const lineStart = whole.lastIndexOf(10, -2) + 1;
  for (let length = lineStart; length < whole.length; length++) {
    const copy = copied(folder);
    truncateSync(journal(copy), length);
    const store = await open(copy);
    expect(labels(store), `cut at ${length}`).toEqual(["a", "b", "c", "d", "e"]);
    expect(await add(store, "g")).toMatchObject({ id: 6 });
    await store.close();
    // By the previous snapshot, which needs the journal file that was torn.
    renameSync(join(copy, "state.json.previous"), join(copy, "state.json"));
    const again = await open(copy);
    expect(labels(again), `cut at ${length}`).toEqual(["a", "b", "c", "d", "e", "g"]);
    await again.close();
  }
});

test("one flipped bit anywhere in the journal stops the start with the file's name, and its advice works", async () => {
  const folder = await copyOfRunning();
  const file = journal(folder);
  const whole = bytesOf(file);
  for (let at = 0; at < whole.length; at++) {
    writeFileSync(file, withByte(whole, at));
    expect(await refusal(folder), `byte ${at}`).toMatch(`The journal ${file} is damaged at line `);
  }
  writeFileSync(file, withByte(whole, whole.length - 30));
  expect(await refusal(folder)).toContain(
    `is damaged at line 3 (its checksum does not match); put a backup of ${folder} in its place (a copy of the whole folder that was made while Backlot was stopped), or keep only its first 2 lines`,
  );
  writeFileSync(file, whole.subarray(0, whole.lastIndexOf(10, -2) + 1));
  expect(labels(await open(folder))).toEqual(["a", "b", "c", "d", "e"]);
});

test("one flipped bit anywhere in the snapshot stops the start with the way back, and the way back works", async () => {
  const folder = await copyOfRunning();
  const file = join(folder, "state.json");
  const whole = bytesOf(file);
  const sentence = `The state file ${file} is damaged (its checksum does not match); copy ${file}.previous over it (the journals beside it bring that copy up to date).`;
  for (let at = 0; at < whole.length; at++) {
    writeFileSync(file, withByte(whole, at));
    expect(await refusal(folder), `byte ${at}`).toBe(sentence);
  }
  for (const other of ["", "{}\n", '{"things":[]}\n', whole.subarray(0, 40)]) {
    writeFileSync(file, other);
    expect(await refusal(folder)).toBe(sentence);
  }
  copyFileSync(`${file}.previous`, file);
  expect(labels(await open(folder))).toEqual(["a", "b", "c", "d", "e", "f"]);
});

test("a snapshot that is gone is no fresh start", async () => {
  const folder = await copyOfRunning();
  rmSync(join(folder, "state.json"));
  expect(await refusal(folder)).toContain(`${join(folder, "state.json")} is missing; copy`);
  rmSync(join(folder, "state.json.previous"));
  expect(await refusal(folder)).toContain("is missing while the journal");
  expect(files(folder).filter((name) => name.startsWith("journal"))).toHaveLength(2);
});

test("a journal that is gone is named, in the chain and at its end", async () => {
  const folder = await copyOfRunning();
  const file = journal(folder);
  renameSync(file, `${file}.kept`);
  expect(await refusal(folder)).toContain(`The journal ${file} is missing; put it back, or make an empty file of that name`);
  writeFileSync(file, "");
  const store = await open(folder);
  expect(labels(store)).toEqual(["a", "b", "c", "d"]);
  await add(store, "g");
  await store.close();
  expect(labels(await open(folder))).toEqual(["a", "b", "c", "d", "g"]);

  const second = await copyOfRunning();
  copyFileSync(join(second, "state.json.previous"), join(second, "state.json"));
  rmSync(join(second, "journal.3.jsonl"));
  expect(await refusal(second)).toContain(`${join(second, "journal.3.jsonl")} is missing`);
});

test("a journal cut short in the middle of the chain is damage, not a torn end", async () => {
  const folder = await copyOfRunning();
  copyFileSync(join(folder, "state.json.previous"), join(folder, "state.json"));
  const file = join(folder, "journal.3.jsonl");
  truncateSync(file, statSync(file).size - 5);
  expect(await refusal(folder)).toContain(`The journal ${file} is damaged at line 3 (it is cut short)`);
});

test("a journal of another state is not taken", async () => {
  const folder = await copyOfRunning();
  const other = await copyOfRunning();
  copyFileSync(journal(other), journal(folder));
  expect(await refusal(folder)).toContain("belongs to another state");
});

test("a file that cannot be read is named with its cause", async () => {
  const folder = await copyOfRunning();
  const file = join(folder, "state.json");
  rmSync(file);
  mkdirSync(file);
  expect(await refusal(folder)).toMatch(`The state file ${file} cannot be read (EISDIR`);
  const second = await copyOfRunning();
  rmSync(journal(second));
  mkdirSync(join(second, "journal.5.jsonl"));
  expect(await refusal(second)).toMatch(`The journal ${join(second, "journal.5.jsonl")} cannot be read (EISDIR`);
});

test("a folder that is a file is named", async () => {
  const folder = tempFolder();
  writeFileSync(folder, "");
  expect(await refusal(folder)).toContain(`The state folder ${folder} cannot be used (`);
});

test("a folder that cannot be made is named, also where Node's own recursive mkdir never returns", async () => {
  const said = await refusal("/proc/backlot/state");
  expect(said).toContain("The state folder /proc/backlot/state cannot be used (ENOENT");
  expect(said).toMatch(/; no folder can be made there, so start with another state folder\.$/);
});

test("a state folder that is open to others is closed to them, and told of", async () => {
  const folder = tempFolder();
  mkdirSync(folder);
  chmodSync(folder, 0o755);
  problems.length = 0;
  await (await open(folder)).close();
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(problems).toEqual([`The state folder ${folder} was open to others (755) and is closed to them now (700).`]);
  chmodSync(folder, 0o770);
  for (const name of ["running.json", "lost+found", "lock.sock", "state.json.next"]) writeFileSync(join(folder, name), "");
  await (await open(folder, { beside: ["running.json"] })).close();
  expect(statSync(folder).mode & 0o777).toBe(0o700);
});

test("a folder that holds other things too is left as it is, and told of", async () => {
  const folder = tempFolder();
  mkdirSync(folder);
  chmodSync(folder, 0o755);
  writeFileSync(join(folder, "letters.txt"), "");
  for (const _start of ["first", "second"]) {
    problems.length = 0;
    await (await open(folder)).close();
    expect(statSync(folder).mode & 0o777).toBe(0o755);
    expect(problems).toEqual([
      `Others may look into the state folder ${folder}, which is left so because it holds more than a state (letters.txt); give Backlot a folder of its own (--state), or: chmod 700 ${folder}`,
    ]);
  }
  for (const name of files(folder).filter((name) => name !== "letters.txt")) expect(statSync(join(folder, name)).mode & 0o777, name).toBe(0o600);
});

test("a folder that cannot be closed to others is told of, and serves", async () => {
  const folder = tempFolder();
  mkdirSync(folder);
  chmodSync(folder, 0o755);
  const refuses: Disk = {
    ...realDisk,
    open: async (path, ...more) => {
      const handle = await realDisk.open(path, ...more);
      if (path === folder) handle.chmod = () => Promise.reject(Object.assign(new Error("EPERM: operation not permitted"), { code: "EPERM" }));
      return handle;
    },
  };
  problems.length = 0;
  expect(await add(await open(folder, { disk: refuses }), "a")).toMatchObject({ id: 1 });
  expect(problems).toEqual([expect.stringMatching(/could not be closed to them \(EPERM.*\): chmod 700 /)]);
});

test("ids are never used again, whatever was removed and however the store ended", async () => {
  const folder = tempFolder();
  const store = await open(folder);
  for (const label of ["a", "b", "c"]) await add(store, label);
  await store.commit((tx) => tx.remove("thing", 3));
  await store.commit((tx) => {
    tx.remove("thing", tx.insert("thing", { label: "short-lived" }).id);
  });
  const copy = copied(folder);
  await store.close();
  for (const ended of [folder, copy]) {
    const again = await open(ended);
    expect(labels(again)).toEqual(["a", "b"]);
    expect(await add(again, "d")).toMatchObject({ id: 5 });
  }
});

test("a state of a newer schema is refused in its own words, also when only the journal is newer", async () => {
  const folder = tempFolder();
  await (await open(folder, { schemaVersion: 3 })).close();
  const sentence = "was written by a newer Backlot (schema version 3, this one knows 2); start that newer Backlot";
  expect(await refusal(folder, { schemaVersion: 2 })).toContain(`The state in ${join(folder, "state.json")} ${sentence}`);

  const second = await copyOfRunning();
  await (await open(second, { schemaVersion: 2, migrations: { 1: upperCase } })).close();
  copyFileSync(join(second, "state.json.previous"), join(second, "state.json"));
  expect(await refusal(second)).toContain(`The state in ${journal(second)} was written by a newer Backlot (schema version 2, this one knows 1)`);
});

const upperCase: Migration = (document) => ({
  ...document,
  rows: { ...document.rows, thing: (document.rows.thing ?? []).map((row) => Object.assign(row, { label: String(Object(row).label).toUpperCase() })) },
});
const renameKind: Migration = ({ rows: { old, ...rows }, nextIds: { old: next, ...nextIds }, ...document }: StateDocument): StateDocument => ({
  ...document,
  rows: { ...rows, other: old ?? [] },
  nextIds: { ...nextIds, other: next ?? 1 },
});

test("an older state, snapshot and journal, is migrated step by step", async () => {
  const folder = await copyOfRunning();
  const store = await open(folder, { schemaVersion: 3, migrations: { 1: upperCase, 2: (document) => document } });
  expect(labels(store)).toEqual(["A", "B", "C", "D", "E", "F"]);
  expect(await add(store, "g")).toMatchObject({ id: 7 });
  await store.close();
  expect(labels(await open(folder, { schemaVersion: 3 }))).toEqual(["A", "B", "C", "D", "E", "F", "g"]);
});

test("after a migration the previous snapshot and the journals still lead to the same state", async () => {
  const folder = await copyOfRunning();
  const migrations = { 1: upperCase };
  const store = await open(folder, { schemaVersion: 2, migrations });
  await add(store, "g");
  const copy = copied(folder);
  copyFileSync(join(copy, "state.json.previous"), join(copy, "state.json"));
  expect(labels(await open(copy, { schemaVersion: 2, migrations }))).toEqual(["A", "B", "C", "D", "E", "F", "g"]);
});

test("a migration that is missing, throws or makes nonsense stops the start and changes no file", async () => {
  const folder = await copyOfRunning();
  const before = files(folder).map((name) => bytesOf(join(folder, name)));
  const nonsense = (() => ({})) as unknown as Migration;
  const failing: Migration = () => {
    throw new Error("cannot do it");
  };
  for (const [migrations, cause] of [
    [{}, "no migration is known"],
    [{ 1: failing }, "cannot do it"],
    [{ 1: nonsense }, "the migration made something that is no state"],
  ] as const) {
    expect(await refusal(folder, { schemaVersion: 2, migrations })).toContain(`cannot be brought from schema version 1 to 2 (${cause})`);
  }
  expect(files(folder).map((name) => bytesOf(join(folder, name)))).toEqual(before);
});

test("rows of a kind nobody knows stop the start, unless a migration renames it", async () => {
  const folder = tempFolder();
  const store = await open(folder, { kinds: ["thing", "old"] as never });
  await store.commit((tx) => tx.insert("old" as never, { label: "x" } as never));
  await store.close();
  expect(await refusal(folder)).toContain('rows of an unknown kind, "old"');
  const again = await open(folder, { schemaVersion: 2, migrations: { 1: renameKind } });
  expect(again.list("other")).toEqual([{ id: 1, label: "x" }]);
});

test("a long journal is turned into a snapshot beside the commits, and files nobody needs go", async () => {
  const folder = tempFolder();
  problems.length = 0;
  const store = await open(folder, { snapshotAfterBytes: 2_000 });
  for (let n = 0; n < 100; n++) await add(store, `thing-${n}`);
  const names = files(folder).filter((name) => name.startsWith("journal"));
  expect(names).not.toContain("journal.1.jsonl");
  expect(names.length).toBeLessThanOrEqual(3);
  await store.close();
  const again = await open(folder);
  expect(again.list("thing")).toHaveLength(100);
  expect(problems).toEqual([]);
});
