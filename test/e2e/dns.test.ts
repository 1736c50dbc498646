import { Resolver } from "node:dns/promises";
import { afterEach, expect, test } from "vitest";
import { firstLine, openTerminal } from "../support/command-line.js";
import { until } from "../support/until.js";

const terminal = openTerminal();
afterEach(() => terminal.close());

const start = (state: string, ...more: string[]) =>
  terminal.type(["start", "--port", "0", "--runtime", "process", "--log-level", "warn", "--state", state, ...more]);
const dns = async (...words: string[]) => {
  const run = terminal.type(["dns", ...words]);
  return { code: await run.ended, out: run.out(), err: run.err() };
};

test("start shows where names are answered, and backlot dns how to ask there", async () => {
  const state = terminal.folder();
  const run = start(state, "--dns-port", "0");
  await until(() => run.out().includes("Ctrl-C"), { withinMs: 20_000, what: "the whole greeting" });
  const [, address, port] = /names {4}(\S+) port (\d+)/.exec(run.out()) ?? [];
  const [, token] = /token {4}(\S+)/.exec(run.out()) ?? [];
  const [, url] = /serves at (\S+)/.exec(run.out()) ?? [];
  const made = await fetch(`${url}/v4/domains`, {
    method: "POST",
    headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
    body: JSON.stringify({ type: "master", domain: "typed.example", soa_email: "a@b.test" }),
  });
  expect(made.status).toBe(200);
  const resolver = new Resolver();
  resolver.setServers([`${address}:${port}`]);
  expect((await resolver.resolveSoa("typed.example")).nsname).toBe("ns1.backlot.test");
  const said = await dns("--state", state);
  expect(said.code).toBe(0);
  expect(said.out).toContain(`${address} port ${port}, over UDP and TCP: backlot.test, typed.example.`);
  expect(said.out).toContain(`dig @${address} -p ${port} typed.example ANY`);
});

test("without one that runs, or without names, it says so; undoing needs none", async () => {
  const state = terminal.folder();
  expect(await dns("--state", state)).toMatchObject({ code: 1, err: expect.stringContaining("No Backlot runs") });
  const run = start(state, "--dns-port", "off", "--json");
  await firstLine(run);
  expect(await dns("--state", state)).toMatchObject({ code: 1, err: expect.stringContaining("--dns-port off") });
  expect(await dns("--undo", "--state", terminal.folder())).toMatchObject({ code: 0, out: expect.stringMatching(/backlot/) });
});
