import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { openTerminal } from "../support/command-line.js";

const terminal = openTerminal();
afterEach(() => terminal.close());

/** Ends with `code`, says `words` on standard error and nothing on standard output. */
const refused = async (given: string[], words: string[], env: Record<string, string> = {}, cwd?: string): Promise<void> => {
  const run = terminal.type(given, env, { cwd });
  expect(await run.ended, run.err()).toBe(2);
  for (const word of words) expect(run.err()).toContain(word);
  expect(run.out()).toBe("");
};

test.each([
  ["an unknown flag", ["start", "--prot", "1"], ["--prot"]],
  ["a flag without its value", ["start", "--port"], ["--port"]],
  ["a flag of another command", ["stop", "--dry-run"], ["--dry-run"]],
  ["an unknown command", ["strat"], ["strat"]],
  ["a word too many", ["start", "now"], ["start"]],
  ["a port that is none", ["start", "--port", "70000"], ["--port", "65535"]],
  ["a runtime that is none", ["demo", "--runtime", "podman"], ["--runtime", "podman"]],
  ["two bad values at once", ["start", "--speed", "0", "--private-pool", "10.0.0.0/8"], ["--speed", "--private-pool"]],
  ["no command", [], ["Usage"]],
])("%s is bad usage", (_what, words, said) => refused(words, said));

test.each(["start", "demo", "status", "stop", "doctor", "clean"])("an unknown BACKLOT_ variable is bad usage of %s", (command) =>
  refused([command], ["BACKLOT_PROT"], { BACKLOT_PROT: "1" }),
);

test("an unknown key of the file is bad usage", async () => {
  const cwd = terminal.folder();
  writeFileSync(join(cwd, "backlot.config.json"), JSON.stringify({ prot: 1 }));
  await refused(["start"], ["backlot.config.json", "prot"], {}, cwd);
});

test("a token is not repeated when it is refused", async () => {
  const run = terminal.type(["start", "--token", "sh0rt!secret"]);
  expect(await run.ended).toBe(2);
  expect(run.err()).toContain("--token");
  expect(run.err()).not.toContain("sh0rt!secret");
});

test("help and version are no failures", async () => {
  const help = terminal.type(["--help"]);
  expect(await help.ended).toBe(0);
  for (const command of ["start", "demo", "status", "stop", "doctor", "clean"]) expect(help.out()).toContain(command);
  const version = terminal.type(["--version"]);
  expect(await version.ended).toBe(0);
  expect(version.out()).toMatch(/^\d+\.\d+\.\d+\n$/);
});

test("start knows every flag that scripts rely on", async () => {
  const help = terminal.type(["start", "--help"]);
  expect(await help.ended).toBe(0);
  const flags = ["port", "host", "state", "runtime", "token", "speed", "balancer-addresses", "private-pool", "certificates", "image-fallback"];
  for (const flag of [...flags, "on-exit", "allow-host-scripts", "log-level", "json"]) expect(help.out()).toContain(`--${flag}`);
});
