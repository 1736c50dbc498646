// A process of its own for what a test cannot do to itself: be killed, lose its rights, live on a disk of its own.
import { chmodSync, chownSync, closeSync, openSync, readdirSync, readFileSync, rmSync, statSync, writeSync } from "node:fs";
import { dirname, join } from "node:path";
import { lockFolder } from "#backlot/store/lock.js";
import { openStore } from "#backlot/store/open-store.js";

const [mode, folder] = process.argv.slice(2);
const print = (value) => writeSync(1, `${JSON.stringify(value)}\n`);
const open = (more = {}) =>
  openStore({ folder, kinds: ["thing", "other"], schemaVersion: 1, migrations: {}, onProblem: (reason) => print({ problem: reason }), ...more });
const refusal = () =>
  open().then(
    () => "the state was opened",
    (error) => error.message,
  );
const add = (store, label, size = 0) => store.commit((tx) => tx.insert("thing", { label, text: "x".repeat(size) }));

const modes = {
  /** Says each commit when it is acknowledged, until it is killed. Snapshots all the time. */
  async acks() {
    const store = await open({ snapshotAfterBytes: 3_000 });
    const say = async (n) => {
      await add(store, `thing-${n}`, 200);
      print(n);
    };
    for (let n = 0; ; n += 3) await Promise.all([say(n), say(n + 1), say(n + 2)]);
  },

  /** The same, for one that must know whom to kill: a tracer stands between. */
  async "acks-with-pid"() {
    print({ pid: process.pid });
    await modes.acks();
  },

  /** Holds the folder until it is killed. */
  async hold() {
    await open();
    print("open");
    setInterval(() => {}, 1_000);
  },

  /** As on a system without abstract sockets. */
  async "hold-file"() {
    await lockFolder(folder, "darwin");
    print("open");
    setInterval(() => {}, 1_000);
  },

  /** Opens, and does nothing more: the lock alone must not keep a process alive. */
  async leave() {
    await open();
    print("open");
  },

  /** On a small disk of its own: full, freed, full, closed while full. */
  async full() {
    const ballast = join(folder, "ballast");
    const fill = () => {
      const file = openSync(ballast, "a");
      try {
        for (const size of [65_536, 4_096, 1]) {
          try {
            for (;;) writeSync(file, Buffer.alloc(size));
          } catch (error) {
            if (error.code !== "ENOSPC") throw error;
          }
        }
      } finally {
        closeSync(file);
      }
    };
    const journal = () => {
      const name = readdirSync(folder).find((one) => one.startsWith("journal"));
      const text = readFileSync(join(folder, name), "utf8");
      return { lines: text.split("\n").length - 2, whole: text.endsWith("\n") };
    };
    const store = await open();
    const acknowledged = [];
    const refused = [];
    const attempt = async (label, size) => {
      try {
        await add(store, label, size);
        acknowledged.push(label);
      } catch (error) {
        refused.push({ label, kind: error.kind, message: error.message });
      }
    };
    for (const round of [1, 2]) {
      fill();
      for (let n = 0; n < 3; n++) await Promise.all([attempt(`full-${round}-${n}-a`, 5_000), attempt(`full-${round}-${n}-b`, 5_000)]);
      const seen = store.list("thing").map((row) => row.label);
      print({ round, refused: refused.splice(0), seen, journal: journal() });
      rmSync(ballast);
      await attempt(`free-${round}`, 5_000);
    }
    fill();
    await store.close();
    rmSync(ballast);
    const again = await open();
    print({ acknowledged, found: again.list("thing").map((row) => row.label), next: (await add(again, "last")).id });
    await again.close();
  },

  /** Without the right to write the folder, and then to read a file in it. */
  async rights() {
    await (await open()).close();
    const all = [dirname(folder), folder, ...readdirSync(folder).map((name) => join(folder, name))];
    if (process.geteuid() === 0) {
      for (const path of all) chownSync(path, 65_534, 65_534);
      process.setegid(65_534);
      process.seteuid(65_534);
    }
    chmodSync(folder, 0o500);
    const closed = await refusal();
    chmodSync(folder, 0o700);
    const file = join(folder, "state.json");
    chmodSync(file, 0o000);
    const unreadable = await refusal();
    chmodSync(file, 0o600);
    print({ closed, unreadable, mode: statSync(folder).mode & 0o777 });
  },

  /** On a file system mounted read-only. */
  async frozen() {
    print(await refusal());
  },
};

await modes[mode]();
