// How what a request costs grows with the rows there are: one page, a filter, a change, a creation. Power is off: nothing boots.
import { startCloud } from "./cloud.mjs";
import { line, median, timed } from "./figures.mjs";
import { temporaryFolder } from "./folder.mjs";
import { fill } from "./rows.mjs";

const sizes = [100, 1_000, 10_000, 50_000];
const asked = 60;
/** Milliseconds that the largest size may take. */
const budgets = { page: 50, filter: 50, change: 10 };

const several = async (count, act) => {
  const took = [];
  for (let n = 0; n < count; n++) took.push(await timed(() => act(n)));
  return took;
};

const operations = (cloud, size) => ({
  page: (n) => cloud.ask("GET", `/v4/cloud/instances?page=${1 + (n % Math.ceil(size / 100))}`),
  filter: () =>
    cloud.ask("GET", "/v4/cloud/instances", { headers: { "x-filter": JSON.stringify({ label: { "+contains": "web-7" }, "+order_by": "label" }) } }),
  change: (n) => cloud.ask("PUT", `/v4/cloud/instances/${1 + ((n * 37) % size)}`, { body: { label: `renamed-${size}-${n}` } }),
  creation: (n) => cloud.ask("POST", "/v4/domains", { body: { type: "master", domain: `made-${size}-${n}.test`, soa_email: "bench@example.test" } }),
  instance: (n) => cloud.ask("POST", "/v4/cloud/instances", { body: { type: "g6-nanode-1", region: "us-east", label: `made-${size}-${n}` } }),
});

const words = {
  page: "GET one page (100) of instances",
  filter: "GET a page, label +contains, ordered",
  change: "PUT a label",
  creation: "POST a domain",
  instance: "POST an instance without an image",
};

const measured = async (size) => {
  const state = temporaryFolder();
  await (await startCloud({ runtime: "process", state })).close();
  await fill(state, size, size);
  const cloud = await startCloud({ runtime: "process", state });
  const took = {};
  for (const [name, act] of Object.entries(operations(cloud, size))) {
    await several(10, (n) => act(n + 1000));
    took[name] = await several(asked, act);
  }
  await cloud.close();
  return took;
};

/** One line an operation and size; "times" is the growth over the size before, which grew 10, 10 and 5 times. */
export const listingRows = async () => {
  const lines = [];
  const before = {};
  for (const size of sizes) {
    const took = await measured(size);
    for (const name of Object.keys(words)) {
      lines.push([
        name,
        line({
          what: `${words[name]}, ${size} rows`,
          figure: median(took[name]),
          worst: Math.max(...took[name]),
          unit: "ms",
          ...(before[name] === undefined ? {} : { baseline: before[name].figure, baselineIs: `at ${before[name].size} rows` }),
          ...(size === sizes.at(-1) && budgets[name] !== undefined ? { budget: budgets[name] } : {}),
        }),
      ]);
      before[name] = { figure: median(took[name]), size };
    }
  }
  const order = Object.keys(words);
  return lines.sort(([a], [b]) => order.indexOf(a) - order.indexOf(b)).map(([, cells]) => cells);
};
