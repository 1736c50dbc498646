import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { BalancerPlane } from "../../../src/balancer/plane.js";
import { applyOpen, closeOpened, node, spec, startPlane } from "../support.js";
import { answered } from "./answered.js";
import type { Case } from "./cases.js";
import { describeHaproxy, type Haproxy, startHaproxy } from "./haproxy.js";
import { passed } from "./passed.js";
import { refused } from "./refused.js";
import { type Conversation, type Expected, run, ScriptedNode, statuses } from "./wire.js";

const groups: ReadonlyArray<[string, readonly Case[]]> = [
  ["what is refused", refused],
  ["what is passed on", passed],
  ["what is answered", answered],
];

const expectationOf = (each: Case, overrides: Partial<Expected> = {}): Expected => ({
  answers: each.answers,
  closed: each.closed ?? false,
  seen: each.seen ?? each.answers.filter((status) => status >= 200 && status < 400).length,
  cut: each.cut ?? false,
  ...overrides,
});

const judge = (outcome: Conversation, each: Case, expected: Expected, checked: boolean) => {
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

// The cases are only as good as their expectations: another balancer must agree, or the row says why it does not.
describeHaproxy("HAProxy", () => {
  let haproxy: Haproxy;
  beforeAll(async () => {
    haproxy = await startHaproxy(backend);
  });
  afterAll(() => haproxy.close());

  describe.each(groups)("%s", (_group, cases) => {
    test.each(cases.filter((each) => !each.haproxy?.skip))("$rfc: $name", async (each) => {
      const { why, ...overrides } = each.haproxy ?? {};
      const expected = expectationOf(each, overrides);
      judge(await run(haproxy.port, scripted, each, expected), each, expected, why === undefined);
    });
  });
});
