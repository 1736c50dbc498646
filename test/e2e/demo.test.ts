import { execFileSync } from "node:child_process";
import { mkdirSync, readdirSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openTerminal } from "../support/command-line.js";
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

/** A demo whose temporary files are in a folder of the test, so that what it leaves can be seen. */
const perform = (words: string[]) => {
  const tmp = join(terminal.folder(), "tmp");
  mkdirSync(tmp);
  // A pool and balancer range of its own: the test's demo shall not meet a Backlot that somebody runs on this machine.
  const run = terminal.type(["demo", "--runtime", "process", "--private-pool", "192.168.96.0/20", ...words], { TMPDIR: tmp });
  return { run, tmp, leftovers: () => ({ files: readdirSync(tmp), processes: machineProcesses(tmp) }) };
};

test("--exit proves every step, tears all down and ends with 0", async () => {
  const { run, leftovers } = perform(["--exit", "--balancer-addresses", "127.0.61.0/24"]);
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
  const { run, leftovers } = perform(["--balancer-addresses", "127.0.62.0/24"]);
  const command = await until(() => /^ {2}(curl --cacert .*)$/m.exec(run.out())?.[1], { withinMs: 40_000, what: "the curl command" });
  expect(leftovers().processes).not.toEqual([]);
  expect(execFileSync("sh", ["-c", command.replace("curl ", "curl -sS --fail ")], { encoding: "utf8" })).toMatch(/instance=demo-web-\d/);
  run.child.kill("SIGINT");
  expect(await run.ended, run.out() + run.err()).toBe(0);
  expect(leftovers()).toEqual({ files: [], processes: [] });
});

test("Ctrl-C in the middle of the story removes everything and does not count as proven", async () => {
  const { run, leftovers } = perform(["--exit", "--balancer-addresses", "127.0.63.0/24"]);
  await until(() => run.out().includes("✓ a private IPv4 address each"), { withinMs: 40_000, what: "the fourth step" });
  run.child.kill("SIGINT");
  expect(await run.ended).toBe(1);
  expect(run.err()).toContain("Interrupted");
  expect(leftovers()).toEqual({ files: [], processes: [] });
});

test("a reader that goes away does not keep it from removing everything", async () => {
  const { run, leftovers } = perform(["--exit", "--balancer-addresses", "127.0.67.0/24"]);
  await until(() => run.out().includes("✓ both boot"), { withinMs: 40_000, what: "the fifth step" });
  run.child.stdout?.destroy();
  expect(await run.ended).toBe(0);
  expect(leftovers()).toEqual({ files: [], processes: [] });
});

test("what a killed demo left is found by clean, and a living demo's folder is not", async () => {
  const { run, tmp, leftovers } = perform(["--balancer-addresses", "127.0.68.0/24"]);
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
  // The balancer's own address, 127.0.64.1, has its port 443 taken: the switch to HTTPS cannot come true.
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(443, "127.0.64.1", resolve);
  });
  const { run, leftovers } = perform(["--exit", "--balancer-addresses", "127.0.64.0/24"]);
  expect(await run.ended).toBe(1);
  expect(run.out()).toContain("✗ the config switched to HTTPS on 443: expected a listener on port 443");
  expect(run.out()).toContain("Step 9 of 12 did not hold");
  expect(leftovers()).toEqual({ files: [], processes: [] });
});
