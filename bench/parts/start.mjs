// Ready to serve, and idle memory.
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closing, startCloud } from "./cloud.mjs";
import { line, median, timed } from "./figures.mjs";
import { temporaryFolder } from "./folder.mjs";

const starts = 15;
const idleMs = 5_000;

const bareNode = () => timed(() => once(spawn(process.execPath, ["-e", "0"], { stdio: "ignore" }), "exit"));

/** Bare Node processes and warm starts of Backlot in turn, on one state folder that has been used before. */
export const startRows = async () => {
  const state = temporaryFolder();
  await (await startCloud({ runtime: "process", state })).close();
  const bare = [];
  const ready = [];
  for (let run = 0; run < starts; run++) {
    bare.push(await bareNode());
    const cloud = await startCloud({ runtime: "process", state });
    ready.push(cloud.readyMs);
    await cloud.close();
  }
  return [
    line({
      what: "ready to serve, warm start of the built CLI",
      figure: median(ready),
      worst: Math.max(...ready),
      unit: "ms",
      baseline: median(bare),
      baselineIs: "node -e 0",
      budget: 400,
    }),
  ];
};

const rssMb = (pid) => Number(execFileSync("ps", ["-o", "rss=", "-p", String(pid)], { encoding: "utf8" })) / 1024;

const idle = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/** Resident memory 5 s after the start, beside a Node process that does nothing. */
export const memoryRows = async (runtimes) => {
  const bare = spawn(process.execPath, ["-e", "setInterval(() => {}, 60000)"], { stdio: "ignore" });
  const endBare = closing(async () => bare.kill());
  const clouds = [];
  for (const runtime of runtimes) clouds.push({ runtime, cloud: await startCloud({ runtime, state: temporaryFolder() }) });
  await idle(idleMs);
  const lines = clouds.map(({ runtime, cloud }) =>
    line({
      what: `idle memory (RSS), ${runtime} runtime`,
      figure: rssMb(cloud.pid),
      unit: "MB",
      baseline: rssMb(bare.pid),
      baselineIs: "idle node",
      budget: 90,
    }),
  );
  for (const { cloud } of clouds) await cloud.close();
  await endBare();
  return lines;
};
