import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BalancerPlane } from "../../../src/balancer/plane.js";
import { until } from "../../support/until.js";
import { applyOpen, closeOpened, node, spec, startPlane } from "../support.js";
import { answered } from "./answered.js";
import type { Case } from "./cases.js";
import { passed } from "./passed.js";
import { refused } from "./refused.js";
import { converse, messagesIn, type Outcome, ScriptedNode, statuses } from "./wire.js";

const groups: ReadonlyArray<[string, readonly Case[]]> = [
  ["what is refused", refused],
  ["what is passed on", passed],
  ["what is answered", answered],
];

const methodsIn = (say: string): string[] => [...say.matchAll(/(?:^|[^\w/])([A-Z]+) \S* HTTP\/1/g)].map((found) => found[1] ?? "");

const run = async (port: number, scripted: ScriptedNode, each: Case, expected: Expected): Promise<Outcome & { stillOpen: boolean }> => {
  scripted.play(each.node ?? {});
  const pieces = typeof each.say === "string" ? [each.say] : each.say;
  const methods = methodsIn(pieces.join(""));
  const wanted = expected.cut ? expected.answers.length - 1 : expected.answers.length;
  const { text, closed, stillOpen } = await converse(port, pieces, { wanted, closing: expected.closed, methods, half: each.half ?? false });
  const all = messagesIn(text, { kind: "answer", methods, closed });
  const isInterim = (line: string) => /^HTTP\/1\.1 1(?!01)/.test(line);
  return {
    answers: all.filter(({ line }) => !isInterim(line)),
    interim: all.filter(({ line }) => isInterim(line)),
    text,
    closed,
    stillOpen,
    seen: [...scripted.seen],
    raw: scripted.raw,
  };
};

interface Expected {
  answers: readonly number[];
  closed: boolean;
  seen: number;
  cut: boolean;
}

const expectationOf = (each: Case, overrides: Partial<Expected> = {}): Expected => ({
  answers: each.answers,
  closed: each.closed ?? false,
  seen: each.seen ?? each.answers.filter((status) => status >= 200 && status < 400).length,
  cut: each.cut ?? false,
  ...overrides,
});

const judge = (outcome: Outcome & { stillOpen: boolean }, each: Case, expected: Expected, checked: boolean) => {
  expect(statuses(outcome)).toEqual(expected.answers);
  expect({ closed: outcome.closed, stillOpen: outcome.stillOpen }).toEqual({ closed: expected.closed, stillOpen: !expected.closed && !each.half });
  expect(outcome.seen.length).toBe(expected.seen);
  expect(outcome.answers.map(({ complete }) => complete)).toEqual(
    expected.answers.map((_, index, { length }) => !expected.cut || index < length - 1),
  );
  if (checked) each.check?.(outcome);
};

const scripted = new ScriptedNode();
let backend = 0;
beforeAll(async () => {
  backend = await scripted.open();
});
afterAll(closeOpened);

describe.each([
  ["both lanes", true],
  ["the careful lane alone", false],
])("%s", (_name, fastLane) => {
  let plane: BalancerPlane;
  let port = 0;
  beforeAll(async () => {
    plane = startPlane({ fastLane });
    port = await applyOpen(plane, spec([node(1, backend)]));
  });

  const handedOver = async (): Promise<number> => (await plane.counters())["config:1"]?.handedOver ?? 0;

  describe.each(groups)("%s", (_group, cases) => {
    test.each(cases)("$rfc: $name", async (each) => {
      const before = await handedOver();
      judge(await run(port, scripted, each, expectationOf(each)), each, expectationOf(each), true);
      expect((await handedOver()) - before).toBe(fastLane && each.lane === "careful" ? 1 : 0);
    });
  });
});

/** A port nobody has, for a program that cannot be told to take any. */
const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const { port } = server.address() as { port: number };
      server.close((error) => (error ? reject(error) : resolve(port)));
    });
  });

const hasHaproxy = spawnSync("haproxy", ["-v"]).status === 0;
if (!hasHaproxy) console.warn("SKIPPED: the conformance cases over HAProxy. Run `sudo apt-get install haproxy`, then the tests again.");

// The cases are only as good as their expectations: another balancer must agree, or the row says why it does not.
describe.runIf(hasHaproxy || process.env.BACKLOT_REQUIRE_HAPROXY === "1")("HAProxy", () => {
  let program: ChildProcess | undefined;
  let port = 0;
  const folder = mkdtempSync(join(tmpdir(), "backlot-haproxy-"));
  beforeAll(async () => {
    port = await freePort();
    const lines = [
      "global",
      "  nbthread 1",
      "  maxconn 1000",
      "defaults",
      "  mode http",
      "  timeout connect 5s",
      "  timeout client 30s",
      "  timeout server 30s",
      "  option forwardfor",
      "frontend front",
      `  bind 127.0.0.1:${port}`,
      "  http-request set-header X-Forwarded-Proto http",
      "  default_backend back",
      "backend back",
      `  server one 127.0.0.1:${backend}`,
    ];
    writeFileSync(join(folder, "haproxy.cfg"), `${lines.join("\n")}\n`);
    program = spawn("haproxy", ["-db", "-f", join(folder, "haproxy.cfg")], { stdio: "ignore" });
    await until(async () => (await converse(port, [], { wanted: 0, closing: false, methods: ["GET"], half: false })).stillOpen);
  });
  afterAll(() => {
    program?.kill("SIGKILL");
    rmSync(folder, { recursive: true, force: true });
  });

  describe.each(groups)("%s", (_group, cases) => {
    test.each(cases.filter((each) => !each.haproxy?.skip))("$rfc: $name", async (each) => {
      const { why, ...overrides } = each.haproxy ?? {};
      const expected = expectationOf(each, overrides);
      judge(await run(port, scripted, each, expected), each, expected, why === undefined);
    });
  });
});
