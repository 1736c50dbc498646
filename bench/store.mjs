// What the store costs: `npm run build && node bench/store.mjs [rows…]`. Prints a table; the disk is the one of the temp folder (or `--folder DIR`).
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { monitorEventLoopDelay, performance } from "node:perf_hooks";
import { parseArgs } from "node:util";
import { openStore } from "../dist/store/open-store.js";

const { values, positionals } = parseArgs({ options: { folder: { type: "string", default: tmpdir() } }, allowPositionals: true });
const sizes = positionals.length > 0 ? positionals.map(Number) : [100, 10_000, 100_000];

const rowOf = (n) => ({
  label: `instance-${n}`,
  region: "eu-central",
  image: "cloud/debian12",
  group: "",
  status: "running",
  tags: ["bench", `n${n % 10}`],
  specs: { disk: 25600, memory: 1024, vcpus: 1, transfer: 1000 },
  alerts: { cpu: 90, networkIn: 10, networkOut: 10, transferQuota: 80, io: 10_000 },
  ipv4: [`192.168.${128 + ((n >> 8) % 128)}.${n % 256}`],
  created: "2020-01-01T00:00:00",
  note: "x".repeat(320),
});

const timed = async (act) => {
  const start = performance.now();
  const value = await act();
  return { ms: performance.now() - start, value };
};
const quantile = (numbers, q) => numbers.toSorted((a, b) => a - b)[Math.min(numbers.length - 1, Math.floor(numbers.length * q))];

const measured = async (rows) => {
  const folder = mkdtempSync(join(values.folder, "backlot-bench-store-"));
  const problems = [];
  const options = { folder, kinds: ["instance"], schemaVersion: 1, migrations: {}, onProblem: (reason) => problems.push(reason) };
  try {
    let store = await openStore(options);
    for (let at = 0; at < rows; at += 1000) {
      await store.commit((tx) => {
        for (let n = at; n < Math.min(at + 1000, rows); n++) tx.insert("instance", rowOf(n));
      });
    }
    await store.close();
    const reopened = await timed(() => openStore(options));
    store = reopened.value;
    const rowBytes = Math.round(statSync(join(folder, "state.json")).size / rows);

    // One after another: each waits for its own fdatasync. As a PUT does, it looks for a taken label first.
    const single = [];
    for (let n = 0; n < 300; n++) {
      const id = 1 + ((n * 37) % rows);
      single.push((await timed(() => store.commit((tx) => tx.update("instance", id, { group: `g${n}` })))).ms);
    }
    const scanning = [];
    for (let n = 0; n < 100; n++) {
      const label = `renamed-${n}`;
      const change = (tx) => {
        if (tx.list("instance").some((row) => row.label === label)) throw new Error("taken");
        tx.update("instance", 1 + ((n * 31) % rows), { label });
      };
      scanning.push((await timed(() => store.commit(change))).ms);
    }
    const together = await timed(() =>
      Promise.all(Array.from({ length: 200 }, (_, n) => store.commit((tx) => [tx.list("instance").length, tx.insert("instance", rowOf(rows + n))]))),
    );
    const changedList = [];
    for (let n = 0; n < 50; n++) {
      await store.commit((tx) => tx.update("instance", 1 + n, { group: `h${n}` }));
      const start = performance.now();
      store.list("instance");
      changedList.push(performance.now() - start);
    }
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const close = await timed(() => store.close());
    delay.disable();
    const again = await timed(() => openStore(options));
    await again.value.close();
    return {
      rows,
      "bytes/row": rowBytes,
      "commit p50 ms": quantile(single, 0.5).toFixed(2),
      "p99 ms": quantile(single, 0.99).toFixed(2),
      "with a scan p50 ms": quantile(scanning, 0.5).toFixed(2),
      "200 together ms": together.ms.toFixed(1),
      "list after a change ms": quantile(changedList, 0.5).toFixed(3),
      "snapshot + close ms": close.ms.toFixed(0),
      "longest block ms": (delay.max / 1e6).toFixed(1),
      "open ms": reopened.ms.toFixed(0),
      "open again ms": again.ms.toFixed(0),
      problems: problems.length,
    };
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
};

const table = [];
for (const rows of sizes) table.push(await measured(rows));
console.table(table);
console.log(`Node ${process.version}, ${process.platform}, folder in ${values.folder}`);
