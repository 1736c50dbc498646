// `npm run bench`: what things cost, beside what they would cost without us and beside the budgets. It judges nothing: a slow machine is no error.
// `node bench/run.mjs docker store` measures only the parts named.
import { execFileSync } from "node:child_process";
import { cpus, loadavg, platform, release, tmpdir } from "node:os";
import { fileURLToPath } from "node:url";
import { apiUnderLoadRows, checkRows } from "./parts/checks.mjs";
import { closeAll } from "./parts/cloud.mjs";
import { printDns } from "./parts/dns.mjs";
import { dockerRows, engine } from "./parts/docker.mjs";
import { printTable } from "./parts/figures.mjs";
import { upRows } from "./parts/health.mjs";
import { listingRows } from "./parts/listing.mjs";
import { memoryRows, startRows } from "./parts/start.mjs";
import { stateRows } from "./parts/state.mjs";

/** No part begins after this, so that all ends within three minutes. */
const latestBeginMs = 140_000;

const beganMs = performance.now();
const load = () => loadavg()[0].toFixed(1);
const child = (name, ...words) => {
  console.log("");
  execFileSync(process.execPath, [fileURLToPath(new URL(name, import.meta.url)), ...words], { stdio: "inherit" });
};

const wanted = process.argv.slice(2);
const answering = await engine();
const parts = [
  ["ready to serve", startRows],
  ["idle memory", () => memoryRows(answering ? ["process", "docker"] : ["process"])],
  ["health", upRows],
  ["checks", checkRows],
  ["api under load", apiUnderLoadRows],
  ["10,000 instances", stateRows],
  ["listing", listingRows],
  ...(answering ? [["docker", dockerRows]] : []),
];
const subTables = [
  ["store", async () => child("store.mjs", "100", "10000")],
  ["balancer", async () => child("balancer.mjs", "1")],
  ["dns", printDns],
];

let failed = 0;
const attempt = async (name, act) => {
  if (wanted.length > 0 && !wanted.includes(name)) return;
  const spentMs = performance.now() - beganMs;
  if (spentMs > latestBeginMs) return void console.error(`left out: ${name}, since ${Math.round(spentMs / 1000)} s are gone`);
  process.stderr.write(`measuring: ${name} …\n`);
  try {
    return await act();
  } catch (error) {
    failed += 1;
    console.error(`not measured: ${name}: ${error.message}`);
  } finally {
    await closeAll();
  }
};

process.once("SIGINT", () => void closeAll().finally(() => process.exit(130)));

const before = load();
const lines = [];
for (const [name, act] of parts) lines.push(...((await attempt(name, act)) ?? []));
console.log(
  `\n${cpus().length} cores (${cpus()[0].model}), ${platform()} ${release()}, Node ${process.version}, ${answering ? `engine ${answering.version}` : "no engine answers: the Docker rows are left out"}, ` +
    `state in ${tmpdir()}, load ${before} before and ${load()} after\n`,
);
printTable(lines);
for (const [name, act] of subTables) await attempt(name, act);
console.log(`\n${Math.round((performance.now() - beganMs) / 1000)} s in all`);
process.exitCode = failed > 0 ? 1 : 0;
