import { type ChildProcess, execFile, spawn } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, readdirSync, rmSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { afterEach, expect, test } from "vitest";
import type { Disk } from "#backlot/store/disk.js";
import { lockFolder } from "#backlot/store/lock.js";
import { add, labels, open, refusal, tempFolder, watchedDisk } from "./store-support.js";

const CHILD = fileURLToPath(new URL("store-child.mjs", import.meta.url));
const run = promisify(execFile);
const children: ChildProcess[] = [];

const ended = (child: ChildProcess): Promise<void> =>
  new Promise((resolve) => (child.exitCode !== null || child.signalCode !== null ? resolve() : child.once("close", () => resolve())));

const kill = async (child: ChildProcess): Promise<void> => {
  child.kill("SIGKILL");
  await ended(child);
};

afterEach(async () => {
  for (const child of children.splice(0)) await kill(child);
});

/** A process whose lines of output arrive one by one. */
const start = (mode: string, folder: string, onLine: (value: unknown) => void): ChildProcess => {
  const child = spawn(process.execPath, [CHILD, mode, folder], { stdio: ["ignore", "pipe", "inherit"] });
  children.push(child);
  createInterface({ input: child.stdout as NodeJS.ReadableStream }).on("line", (line) => onLine(JSON.parse(line)));
  return child;
};

const started = (mode: string, folder: string): Promise<ChildProcess> =>
  new Promise((resolve, reject) => {
    const child: ChildProcess = start(mode, folder, () => resolve(child));
    child.once("exit", () => reject(new Error(`the "${mode}" process ended early`)));
  });

/** Runs the child where it may mount: in a mount namespace of its own, so that what it mounts is gone with it, however it ends. */
const withMount = async (mount: string, mode: string, folder: string): Promise<Record<string, unknown>[]> => {
  const namespace = process.getuid?.() === 0 ? ["--mount"] : ["--user", "--map-root-user", "--mount"];
  const script = `mkdir -p "$3" && ${mount} && exec "$0" "$1" "$2" "$3"`;
  const { stdout } = await run("unshare", [...namespace, "sh", "-ec", script, process.execPath, CHILD, mode, folder]);
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line));
};

test.each([10, 60, 150])("after kill -9 amid writes and snapshots every acknowledged commit is there (%i acknowledged)", async (count) => {
  const folder = tempFolder();
  const acknowledged: number[] = [];
  await new Promise<void>((resolve, reject) => {
    const child = start("acks", folder, (n) => {
      acknowledged.push(n as number);
      if (acknowledged.length === count) child.kill("SIGKILL");
    });
    child.once("close", (_, signal) => (signal === "SIGKILL" ? resolve() : reject(new Error("the writer ended by itself"))));
  });
  expect(acknowledged.length).toBeGreaterThanOrEqual(count);
  const found = labels(await open(folder));
  expect(found).toEqual(found.map((_, n) => `thing-${n}`));
  expect(found.slice(0, acknowledged.length)).toEqual(acknowledged.map((n) => `thing-${n}`));
});

test("a second process is refused with the folder and the holder's pid, and opens as soon as the holder is killed", async () => {
  const folder = tempFolder();
  const holder = await started("hold", folder);
  const sentence = `The state folder ${folder} is in use by process ${holder.pid}; stop that Backlot, or start this one with another state folder.`;
  expect(await refusal(folder)).toBe(sentence);
  expect(await refusal(`${folder}/../state/`)).toContain(`is in use by process ${holder.pid};`);
  await kill(holder);
  await open(folder);
});

test("where there are no abstract sockets a socket file is the lock; that of a killed process is taken over", async () => {
  const folder = tempFolder();
  mkdirSync(folder);
  const holder = await started("hold-file", folder);
  await expect(lockFolder(folder, "darwin")).rejects.toThrow(`The state folder ${folder} is in use by process ${holder.pid};`);
  await kill(holder);
  expect(readdirSync(folder)).toEqual(["lock.sock"]);
  const lock = await lockFolder(folder, "darwin");
  await expect(lockFolder(folder, "darwin")).rejects.toThrow(`by process ${process.pid};`);
  await lock.close();
  expect(readdirSync(folder)).toEqual([]);
});

test("of many that start at once exactly one gets the folder", async () => {
  const folder = tempFolder();
  const outcomes = await Promise.allSettled(Array.from({ length: 20 }, () => open(folder)));
  expect(outcomes.filter((outcome) => outcome.status === "fulfilled")).toHaveLength(1);
});

test("a start that was refused does not keep the folder, and an open store does not keep its process", async () => {
  const folder = tempFolder();
  await (await open(folder, { schemaVersion: 2 })).close();
  await refusal(folder);
  await (await open(folder, { schemaVersion: 2 })).close();

  const child = await started("leave", tempFolder());
  await ended(child);
  expect(child.exitCode).toBe(0);
});

test("on a full disk commits are refused with cause and remedy, nothing of them remains, and later ones work again", async () => {
  const [first, second, closing, last] = (await withMount('mount -t tmpfs -o size=1m,mode=0700 backlot "$3"', "full", tempFolder())) as never[];
  const refused = (round: number) =>
    [0, 1, 2].flatMap((n) =>
      ["a", "b"].map((letter) => ({ label: `full-${round}-${n}-${letter}`, kind: "unavailable", message: expect.anything() })),
    );
  expect(first).toEqual({ round: 1, refused: refused(1), seen: [], journal: { lines: 0, whole: true } });
  expect(second).toEqual({ round: 2, refused: refused(2), seen: ["free-1"], journal: { lines: 1, whole: true } });
  expect((first as unknown as { refused: { message: string }[] }).refused[0]?.message).toMatch(
    /^The change was not saved because \/.*\/journal\.1\.jsonl cannot be written \(ENOSPC: .*\); free some space on that disk and try again\.$/,
  );
  expect(closing).toMatchObject({ problem: expect.stringMatching(/state\.json was not renewed \(ENOSPC.*the journal has every change/) });
  expect(last).toEqual({ acknowledged: ["free-1", "free-2"], found: ["free-1", "free-2"], next: 3 });
});

test("a folder that may not be written, a file that may not be read, and a read-only disk stop the start", async () => {
  const folder = tempFolder();
  const { stdout } = await run(process.execPath, [CHILD, "rights", folder]);
  const { closed, unreadable } = JSON.parse(stdout);
  expect(closed).toMatch(`The state folder ${folder} cannot be used (EACCES: permission denied`);
  expect(closed).toContain("make it writable to the user Backlot runs as");
  expect(unreadable).toMatch(`The state file ${join(folder, "state.json")} cannot be read (EACCES`);

  const other = tempFolder();
  const [frozen] = await withMount('mount -t tmpfs -o ro backlot "$3"', "frozen", other);
  expect(frozen).toMatch(`The state folder ${other} cannot be used (EROFS: read-only file system`);
});

/** Two lives of a store that snapshots often, on a disk that may fail. */
const lives = async (folder: string, disk: Disk): Promise<{ acknowledged: string[]; refused: string[] }> => {
  const acknowledged: string[] = [];
  const refused: string[] = [];
  for (const life of ["one", "two"]) {
    const store = await open(folder, { disk, snapshotAfterBytes: 500 }).catch(() => undefined);
    if (store === undefined) continue;
    const attempt = async (label: string) => {
      await add(store, label).then(
        () => acknowledged.push(label),
        () => refused.push(label),
      );
    };
    for (let n = 0; n < 10; n += 2) await Promise.all([attempt(`${life}-${n}`), attempt(`${life}-${n + 1}`)]);
    await store.close();
  }
  return { acknowledged, refused };
};

const everyCall = async (check: (failAt: number) => Promise<void>): Promise<void> => {
  let calls = 0;
  await lives(
    tempFolder(),
    watchedDisk(() => {
      calls += 1;
    }),
  );
  expect(calls).toBeGreaterThan(100);
  for (let failAt = 1; failAt <= calls; failAt++) await check(failAt);
};

/** The same state from the previous snapshot. */
const fromPrevious = async (folder: string): Promise<string[] | undefined> => {
  if (!existsSync(join(folder, "state.json.previous"))) return undefined;
  const copy = tempFolder();
  mkdirSync(copy);
  for (const name of readdirSync(folder)) copyFileSync(join(folder, name), join(copy, name));
  copyFileSync(join(copy, "state.json.previous"), join(copy, "state.json"));
  const store = await open(copy);
  const found = labels(store);
  await store.close();
  rmSync(copy, { recursive: true });
  return found;
};

test("a crash before any call to the disk loses nothing that was acknowledged", async () => {
  await everyCall(async (failAt) => {
    const folder = tempFolder();
    let calls = 0;
    const disk = watchedDisk(() => {
      calls += 1;
      if (calls >= failAt) throw Object.assign(new Error("EIO: the machine is off"), { code: "EIO" });
    });
    const { acknowledged, refused } = await lives(folder, disk);
    const previous = await fromPrevious(folder);
    const store = await open(folder);
    const found = labels(store);
    expect(found, `call ${failAt}`).toEqual(expect.arrayContaining(acknowledged));
    expect([...acknowledged, ...refused], `call ${failAt}`).toEqual(expect.arrayContaining(found));
    if (previous !== undefined) expect(previous, `call ${failAt}`).toEqual(found);
    await store.close();
  });
});

test("one failing call anywhere: what was acknowledged is there, what was refused is not", async () => {
  await everyCall(async (failAt) => {
    const folder = tempFolder();
    let calls = 0;
    const disk = watchedDisk(() => {
      calls += 1;
      if (calls === failAt) throw Object.assign(new Error("EIO: once"), { code: "EIO" });
    });
    const { acknowledged, refused } = await lives(folder, disk);
    expect(refused.length, `call ${failAt}`).toBeLessThanOrEqual(2);
    const store = await open(folder);
    expect(labels(store), `call ${failAt}`).toEqual(acknowledged);
    await store.close();
    const previous = await fromPrevious(folder);
    if (previous !== undefined) expect(previous, `call ${failAt}`).toEqual(acknowledged);
  });
});

test("a journal file begun in vain does not stand in the way of the one that stayed in use", async () => {
  const folder = tempFolder();
  let failures = 0;
  const disk = watchedDisk((call, about) => {
    if (call !== "sync" || about !== folder || !existsSync(join(folder, "journal.4.jsonl"))) return;
    failures += 1;
    throw Object.assign(new Error("EIO: cannot sync the folder"), { code: "EIO" });
  });
  const store = await open(folder, { disk, snapshotAfterBytes: 3_000 });
  for (const label of ["a", "b", "c"]) await store.commit((tx) => tx.insert("thing", { label, text: "x".repeat(1_000) }));
  await add(store, "d");
  expect(failures).toBe(1);
  expect(readdirSync(folder).sort()).toEqual(["journal.1.jsonl", "journal.4.jsonl", "state.json"]);
  const copy = tempFolder();
  mkdirSync(copy);
  for (const name of readdirSync(folder)) copyFileSync(join(folder, name), join(copy, name));
  const again = await open(copy);
  expect(labels(again)).toEqual(["a", "b", "c", "d"]);
  await add(again, "e");
  await again.close();
  expect(labels(await open(copy))).toEqual(["a", "b", "c", "d", "e"]);
});

test("a commit is written, then synced, then acknowledged", async () => {
  const calls: string[] = [];
  const store = await open(tempFolder(), { disk: watchedDisk((call) => calls.push(call)) });
  calls.length = 0;
  await add(store, "a");
  expect(calls).toEqual(["write", "datasync"]);
});

test("a snapshot: new journal durable, then written aside, synced, the old one kept, renamed, folder synced, old journals removed last", async () => {
  const folder = tempFolder();
  const calls: string[] = [];
  const disk = watchedDisk((call, about) => calls.push(`${call} ${about.replaceAll(`${folder}/`, "").replaceAll(folder, ".")}`));
  for (const label of ["a", "b", "c"]) {
    const store = await open(folder, { disk });
    await add(store, label);
    calls.length = 0;
    await store.close();
  }
  const order = calls.filter((call) => !/^(open|readdir|rm .*\.next)/.test(call)).filter((call, at, all) => call !== all[at - 1]);
  expect(order).toEqual([
    "write journal.4.jsonl.next",
    "sync journal.4.jsonl.next",
    "rename journal.4.jsonl.next journal.4.jsonl",
    "sync .",
    "write state.json.next",
    "sync state.json.next",
    "link state.json state.json.previous.next",
    "rename state.json.previous.next state.json.previous",
    "rename state.json.next state.json",
    "sync .",
    "rm journal.2.jsonl [object Object]",
  ]);
});
