// What 10,000 instances cost: one filtered page, a durable commit, 200 of them together, a start. Power is off: nothing boots.
import { open } from "node:fs/promises";
import { join } from "node:path";
import { startCloud } from "./cloud.mjs";
import { line, median, timed } from "./figures.mjs";
import { temporaryFolder } from "./folder.mjs";
import { fill } from "./rows.mjs";

const instances = 10_000;
const asked = 200;
const together = 200;
const rounds = 5;
const starts = 10;

const several = async (count, act) => {
  const took = [];
  for (let n = 0; n < count; n++) took.push(await timed(() => act(n)));
  return took;
};

const filters = [
  ["label +contains", { label: { "+contains": "web-77" } }, 111],
  ["tags", { tags: "rack-7" }, 250],
  ["ipv4 +contains, ordered", { ipv4: { "+contains": ".7." }, "+order_by": "label", "+order": "desc" }, 256],
];

const pageRows = async (cloud) => {
  const health = () => cloud.ask("GET", "/_backlot/health");
  await several(50, health);
  const base = await several(asked, health);
  const lines = [];
  for (const [name, filter, expected] of filters) {
    const read = async () => {
      const { results } = await cloud.ask("GET", "/v4/cloud/instances", { headers: { "x-filter": JSON.stringify(filter) } });
      if (results !== expected) throw new Error(`${name}: ${results} found, ${expected} expected`);
    };
    await several(20, read);
    const took = await several(asked, read);
    lines.push(
      line({
        what: `GET one page of ${instances} instances, ${name}`,
        figure: median(took),
        worst: Math.max(...took),
        unit: "ms",
        baseline: median(base),
        baselineIs: "GET health",
        budget: 10,
      }),
    );
  }
  return lines;
};

/** What the disk itself takes for a kilobyte that is to stay. */
const bareSync = async () => {
  const file = await open(join(temporaryFolder(), "line"), "a");
  const piece = "x".repeat(1024);
  const took = await several(asked, async () => {
    await file.appendFile(piece);
    await file.datasync();
  });
  await file.close();
  return took;
};

const body = (n) => ({ label: `renamed-${n}`, group: `g${n}`, tags: ["bench", `rack-${n % 40}`], alerts: { cpu: 80 + (n % 10) } });

const commitRows = async (cloud) => {
  let n = 0;
  const put = () => {
    n += 1;
    return cloud.ask("PUT", `/v4/cloud/instances/${1 + ((n * 37) % instances)}`, { body: body(n) });
  };
  const base = await bareSync();
  await several(20, put);
  const single = await several(asked, put);
  const group = await several(rounds, () => Promise.all(Array.from({ length: together }, put)));
  return [
    line({
      what: `durable commit: a whole PUT with ${instances} instances`,
      figure: median(single),
      worst: Math.max(...single),
      unit: "ms",
      baseline: median(base),
      baselineIs: "append + fdatasync",
      budget: 8,
    }),
    line({ what: `${together} PUTs at once, all answered`, figure: median(group), worst: Math.max(...group), unit: "ms", budget: 500 }),
  ];
};

const startRow = async (state) => {
  const runs = async (folder) => {
    const took = [];
    for (let run = 0; run < starts; run++) {
      const cloud = await startCloud({ runtime: "process", state: folder });
      took.push(cloud.readyMs);
      await cloud.close();
    }
    return took;
  };
  const empty = await runs(temporaryFolder());
  const full = await runs(state);
  return line({
    what: `start with ${instances} instances and their addresses`,
    figure: median(full),
    worst: Math.max(...full),
    unit: "ms",
    baseline: median(empty),
    baselineIs: "empty state",
    budget: 1000,
  });
};

export const stateRows = async () => {
  const state = temporaryFolder();
  // A first start settles the pools, so that the rows below are in nobody's way.
  await (await startCloud({ runtime: "process", state })).close();
  await fill(state, instances);
  const cloud = await startCloud({ runtime: "process", state });
  const lines = [...(await pageRows(cloud)), ...(await commitRows(cloud))];
  await cloud.close();
  return [...lines, await startRow(state)];
};
