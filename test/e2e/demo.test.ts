import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { ownedThings, removeOwned } from "#backlot/runtime/docker/orphans.js";
import { openTerminal } from "../support/command-line.js";
import { describeDocker } from "../support/docker.js";
import { ownRange } from "../support/loopback.js";
import { environOf } from "../support/process-ground.js";
import { until } from "../support/until.js";

const terminal = openTerminal();
const servers: Server[] = [];
afterEach(async () => {
  await terminal.close();
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

const steps = [
  "a balancer",
  "a config on port 80 that really listens",
  "two instances, created unbooted",
  "a private IPv4 address each",
  "both boot, a node each: nobody listens yet",
  "both back ends listen, and health sees it",
  "10 requests, answered by both in turn",
  "a certificate, made on the spot",
  "the config switched to HTTPS on 443",
  "a request over verified TLS",
  "one instance killed while requests go on",
  "a certificate with a blank subject is refused",
];

/** Processes of machines whose folder is under `folder`. */
const machineProcesses = (folder: string): string[] =>
  readdirSync("/proc").filter(
    (name) => /^\d+$/.test(name) && environOf(Number(name)).some((entry) => entry.startsWith(`BACKLOT_MACHINE=${folder}/`)),
  );

/** What demos with their state under `folder` have on the engine. */
const machineContainers = async (folder: string) => (await ownedThings()).filter(({ stateFolder }) => stateFolder.startsWith(`${folder}/`));

/** A demo whose temporary files are in a folder of the test, so that what it leaves can be seen. */
const perform = (words: string[], { runtime = "process", range = ownRange() }: { runtime?: "process" | "docker"; range?: { cidr: string } } = {}) => {
  const tmp = join(terminal.folder(), "tmp");
  mkdirSync(tmp);
  // A pool and balancer range of its own: the test's demo shall not meet a Backlot that somebody runs on this machine.
  const own = ["--private-pool", "192.168.96.0/20", "--balancer-addresses", range.cidr];
  const run = terminal.type(["demo", "--runtime", runtime, ...own, ...words], { TMPDIR: tmp });
  return { run, tmp, leftovers: () => ({ files: readdirSync(tmp), processes: machineProcesses(tmp) }) };
};

test("--exit proves every step, tears all down and ends with 0", async () => {
  const { run, leftovers } = perform(["--exit"]);
  expect(await run.ended, run.out() + run.err()).toBe(0);
  const ticks = run
    .out()
    .split("\n")
    .filter((line) => line.startsWith("  ✓ "));
  expect(ticks).toHaveLength(steps.length);
  steps.forEach((step, index) => {
    expect(ticks[index]).toContain(step);
  });
  expect(run.out()).toContain("the whole story");
  expect(leftovers()).toEqual({ files: [], processes: [] });
  expect(run.err()).toBe("");
});

test("without --exit it stays up: its curl command works, and Ctrl-C removes everything", async () => {
  const { run, leftovers } = perform([]);
  const command = await until(() => /^ {2}(curl --cacert .*)$/m.exec(run.out())?.[1], { withinMs: 40_000, what: "the curl command" });
  expect(leftovers().processes).not.toEqual([]);
  expect(execFileSync("sh", ["-c", command.replace("curl ", "curl -sS --fail ")], { encoding: "utf8" })).toMatch(/instance=demo-web-\d/);
  run.child.kill("SIGINT");
  expect(await run.ended, run.out() + run.err()).toBe(0);
  expect(leftovers()).toEqual({ files: [], processes: [] });
});

test("Ctrl-C in the middle of the story removes everything and does not count as proven", async () => {
  const { run, leftovers } = perform(["--exit"]);
  await until(() => run.out().includes("✓ a private IPv4 address each"), { withinMs: 40_000, what: "the fourth step" });
  run.child.kill("SIGINT");
  expect(await run.ended).toBe(1);
  expect(run.err()).toContain("Interrupted");
  expect(leftovers()).toEqual({ files: [], processes: [] });
});

test("a reader that goes away does not keep it from removing everything", async () => {
  const { run, leftovers } = perform(["--exit"]);
  await until(() => run.out().includes("✓ both boot"), { withinMs: 40_000, what: "the fifth step" });
  run.child.stdout?.destroy();
  expect(await run.ended).toBe(0);
  expect(leftovers()).toEqual({ files: [], processes: [] });
});

test("what a killed demo left is found by clean, and a living demo's folder is not", async () => {
  const { run, tmp, leftovers } = perform([]);
  await until(() => run.out().includes("Go on playing"), { withinMs: 40_000, what: "the end of the story" });
  const folder = join(tmp, leftovers().files[0] ?? "");
  const clean = async () => {
    const dry = terminal.type(["clean", "--dry-run"], { TMPDIR: tmp });
    expect(await dry.ended).toBe(0);
    return dry.out();
  };
  expect(await clean()).not.toContain(folder);
  run.child.kill("SIGKILL");
  await run.ended;
  const machines = leftovers().processes;
  expect(machines).not.toEqual([]);
  // Only dry: a real one would also remove what other tests on this machine have orphaned on purpose.
  expect(await clean()).toContain(`would remove folder ${folder} of a demo that was killed`);
  for (const pid of machines) process.kill(Number(pid), "SIGKILL");
});

test("a step that does not hold is named with what was expected and seen, and everything is removed", async () => {
  const server = createServer();
  servers.push(server);
  const range = ownRange();
  // The balancer's own address has its port 443 taken: the switch to HTTPS cannot come true.
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(443, range.first, resolve);
  });
  const { run, leftovers } = perform(["--exit"], { range });
  expect(await run.ended).toBe(1);
  expect(run.out()).toContain("✗ the config switched to HTTPS on 443: expected a listener on port 443");
  expect(run.out()).toContain("Step 9 of 12 did not hold");
  expect(leftovers()).toEqual({ files: [], processes: [] });
});

describeDocker("on Docker", () => {
  // Stopping is not enough here: a stopped container stays on the engine.
  test("--exit leaves nothing on the engine", async () => {
    const { run, tmp, leftovers } = perform(["--exit"], { runtime: "docker" });
    try {
      const made = async () => (await machineContainers(tmp)).flatMap(({ containers }) => containers).length === 2;
      await until(made, { withinMs: 40_000, what: "two containers of the demo" });
      expect(await run.ended, run.out() + run.err()).toBe(0);
      expect(await machineContainers(tmp)).toEqual([]);
      expect(leftovers().files).toEqual([]);
    } finally {
      run.child.kill("SIGKILL");
      await run.ended;
      for (const things of await machineContainers(tmp)) await removeOwned(things);
    }
  });
});
