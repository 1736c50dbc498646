import { execFileSync } from "node:child_process";
import { existsSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { afterEach, expect, test } from "vitest";
import { apiOf, commandLineGround } from "../support/cloud.js";
import { firstLine, type Invocation, openTerminal } from "../support/command-line.js";
import { until } from "../support/until.js";

const terminal = openTerminal();
afterEach(() => terminal.close());

const startWords = (state: string): string[] => ["start", "--port", "0", "--runtime", "process", "--log-level", "warn", "--state", state];

interface Served {
  run: Invocation;
  state: string;
  line: { url: string; token: string; runtime: string; pid: number; state: string };
}

const serve = async (state = terminal.folder(), more: string[] = []): Promise<Served> => {
  const run = terminal.type([...startWords(state), "--json", ...more]);
  return { run, state, line: JSON.parse(await firstLine(run)) };
};

const statusOf = (url: string, token?: string): Promise<number> =>
  fetch(`${url}/v4/balancers`, { headers: token === undefined ? {} : { authorization: `Bearer ${token}` } }).then((response) => response.status);

const answers = (url: string): Promise<boolean> =>
  fetch(url).then(
    () => true,
    () => false,
  );

test("start --json says where it serves, with a token that opens it", async () => {
  const { run, state, line } = await serve();
  expect(Object.keys(line)).toEqual(["url", "token", "runtime", "pid", "state"]);
  expect(line).toMatchObject({ runtime: "process", pid: run.child.pid, state });
  expect(line.url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/);
  expect(await statusOf(line.url, line.token)).toBe(200);
  expect(await statusOf(line.url)).toBe(401);
  expect(run.out().split("\n")).toHaveLength(2);
  expect(statSync(join(state, "running.json")).mode & 0o777).toBe(0o600);
});

test("the token of your choice is the one that opens it", async () => {
  const { line } = await serve(undefined, ["--token", "a-token-of-my-own-choice"]);
  expect(line.token).toBe("a-token-of-my-own-choice");
  expect(await statusOf(line.url, "a-token-of-my-own-choice")).toBe(200);
});

test.each(["SIGINT", "SIGTERM", "SIGHUP"] as const)("%s stops it cleanly", async (signal) => {
  const { run, state, line } = await serve();
  run.child.kill(signal);
  expect(await run.ended).toBe(0);
  expect(run.err()).toContain("Stopping.");
  expect(await answers(line.url)).toBe(false);
  expect(existsSync(join(state, "running.json"))).toBe(false);
});

test("a second signal ends it at once", async () => {
  const { run } = await serve();
  // Both are pending when it goes on, so the second is there before the clean stop can be over.
  for (const signal of ["SIGSTOP", "SIGINT", "SIGTERM", "SIGCONT"] as const) run.child.kill(signal);
  expect(await run.ended).toBe(130);
});

test("without --json it prints three commands that work as they are typed", async () => {
  const run = terminal.type(startWords(terminal.folder()));
  await until(() => run.out().includes("Ctrl-C"), { withinMs: 20_000, what: "the whole greeting" });
  const commands = run
    .out()
    .split("\n")
    .filter((line) => line.startsWith("  curl "));
  expect(commands).toHaveLength(3);
  for (const command of commands) {
    const answer = JSON.parse(execFileSync("sh", ["-c", command.replace("curl ", "curl -sS --fail-with-body ")], { encoding: "utf8" }));
    expect(answer).not.toHaveProperty("errors");
  }
  expect(run.out()).toMatch(/token {4}\S{16,}/);
});

const oneLineOf = (run: Invocation): string => {
  const lines = run.err().trim().split("\n");
  expect(lines).toHaveLength(1);
  return lines[0] ?? "";
};

test("a second start on the same state ends with one line that names the first", async () => {
  const { state, run } = await serve();
  const second = terminal.type(startWords(state));
  expect(await second.ended).toBe(1);
  expect(oneLineOf(second)).toContain(state);
  expect(oneLineOf(second)).toContain(String(run.child.pid));
  expect(second.out()).toBe("");
});

test("a taken port ends the start with one line that names it", async () => {
  const server = createServer();
  const port = await new Promise<number>((resolve) => {
    server.listen(0, "127.0.0.1", () => resolve((server.address() as { port: number }).port));
  });
  try {
    const run = terminal.type(["start", "--runtime", "process", "--state", terminal.folder(), "--log-level", "warn", "--port", String(port)]);
    expect(await run.ended).toBe(1);
    expect(oneLineOf(run)).toContain(String(port));
    expect(run.out()).toBe("");
  } finally {
    await new Promise((resolve) => server.close(resolve));
  }
});

test("an engine that was demanded and does not answer ends the start with one line", async () => {
  const words = ["start", "--runtime", "docker", "--state", terminal.folder(), "--log-level", "warn", "--port", "0"];
  const run = terminal.type(words, { DOCKER_HOST: `unix://${terminal.folder()}/no-engine.sock` });
  expect(await run.ended).toBe(1);
  expect(oneLineOf(run)).toMatch(/docker|engine/i);
});

test("status tells the one that runs, and that none does", async () => {
  const { state, line, run } = await serve();
  const json = terminal.type(["status", "--json", "--state", state]);
  expect(await json.ended).toBe(0);
  expect(JSON.parse(json.out())).toMatchObject({ running: true, url: line.url, pid: line.pid, runtime: "process", state });
  const text = terminal.type(["status"], { BACKLOT_STATE: state });
  expect(await text.ended).toBe(0);
  expect(text.out()).toContain(line.url);
  for (const { out } of [json, text]) expect(out()).not.toContain(line.token);

  run.child.kill("SIGINT");
  await run.ended;
  const none = terminal.type(["status", "--json", "--state", state]);
  expect(await none.ended).toBe(1);
  expect(JSON.parse(none.out())).toMatchObject({ running: false, state });
});

test("stop ends the one that runs, and is content when none does", async () => {
  const { state, line, run } = await serve();
  const stop = terminal.type(["stop", "--state", state]);
  expect(await stop.ended, stop.err()).toBe(0);
  expect(stop.out()).toContain(String(line.pid));
  expect(await run.ended).toBe(0);
  expect(await answers(line.url)).toBe(false);
  const again = terminal.type(["stop", "--state", state]);
  expect(await again.ended).toBe(0);
  expect(again.out()).toContain("No Backlot runs");
});

test("stop --machines takes the machines along", async () => {
  const { privatePool } = await commandLineGround();
  const { state, line, run } = await serve(undefined, ["--private-pool", privatePool]);
  const api = apiOf(line.url, line.token);
  const wanted = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Correct-horse-1", script_id: 1 };
  const { id } = (await api.post("/v4/cloud/instances", wanted)).body;
  const isRunning = async () => (await api.get(`/v4/cloud/instances/${id}`)).body.status === "running";
  await until(isRunning, { withinMs: 20_000, what: "the machine" });
  const { pid } = (await api.get(`/_backlot/instances/${id}`)).body;
  expect(existsSync(`/proc/${pid}`)).toBe(true);
  const refused = await api.post("/_backlot/stop", { machines: "maybe" });
  expect(refused).toMatchObject({ status: 400, body: { errors: [{ field: "machines" }] } });
  const stop = terminal.type(["stop", "--machines", "--state", state]);
  expect(await stop.ended, stop.err()).toBe(0);
  expect(await run.ended).toBe(0);
  expect(existsSync(`/proc/${pid}`)).toBe(false);
});

test("a file left by a killed one is called stale, and the next start does not mind", async () => {
  const { state, run } = await serve();
  run.child.kill("SIGKILL");
  await run.ended;
  for (const [command, code] of [["status", 1] as const, ["stop", 0] as const]) {
    const told = terminal.type([command, "--state", state]);
    expect(await told.ended).toBe(code);
    expect(told.out()).toContain("stale");
    expect(told.out()).toContain(`backlot start --state ${state} goes on where it was`);
  }
  const { line } = await serve(state);
  expect(await statusOf(line.url, line.token)).toBe(200);
});

test("stop leaves alone whoever answers in the place of a killed one", async () => {
  const { state, line } = await serve();
  const other = terminal.folder();
  const file = JSON.parse(readFileSync(join(state, "running.json"), "utf8"));
  writeFileSync(join(other, "running.json"), JSON.stringify({ ...file, pid: file.pid + 1 }));
  const stop = terminal.type(["stop", "--state", other]);
  expect(await stop.ended).toBe(0);
  expect(stop.out()).toContain("stale");
  expect(stop.out()).toContain(String(line.pid));
  expect(await statusOf(line.url, line.token)).toBe(200);
});

test("state and the token of a start outlive it", async () => {
  const { state, line, run } = await serve();
  const headers = { authorization: `Bearer ${line.token}`, "content-type": "application/json" };
  const made = await fetch(`${line.url}/v4/balancers`, { method: "POST", headers, body: JSON.stringify({ region: "us-east", label: "kept" }) });
  expect(made.status).toBe(200);
  run.child.kill("SIGINT");
  await run.ended;
  const again = await serve(state);
  const list = await fetch(`${again.line.url}/v4/balancers`, { headers }).then((response) => response.json());
  expect(list).toMatchObject({ data: [{ label: "kept" }] });
});
