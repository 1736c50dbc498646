import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { applyOpen, closeOpened, node, spec, startPlane } from "../support.js";
import { describeHaproxy, type Haproxy, startHaproxy } from "./haproxy.js";
import { type Conversation, type Message, type NodeScript, run, ScriptedNode, statuses, valuesOf } from "./wire.js";

// Generated conversations through both lanes and HAProxy. The lanes must not differ; where HAProxy does, the conversation has a trait for
// which `docs/balancer.md` says why. A seed is all that is needed to see one again.
const SEEDS = 150;

/** Mulberry32: small, and the same everywhere. */
const dice = (seed: number) => {
  let state = seed;
  const next = (): number => {
    state = (state + 0x6d2b79f5) | 0;
    let value = Math.imul(state ^ (state >>> 15), 1 | state);
    value = (value + Math.imul(value ^ (value >>> 7), 61 | value)) ^ value;
    return ((value ^ (value >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (count: number): number => Math.floor(next() * count);
  return { below, chance: (share: number) => next() < share, pick: <T>(list: readonly T[]): T => list[below(list.length)] as T };
};
type Dice = ReturnType<typeof dice>;

interface Generated {
  say: string[];
  node: NodeScript;
  /** What HAProxy may see in another way. */
  traits: string[];
}

/** Faults of a request: trait, and what is done to its lines. The trait is empty where everybody refuses. */
const faults: ReadonlyArray<[trait: string, spoil: (lines: string[]) => string[]]> = [
  ["", (lines) => [...lines, "Host: b.example"]],
  ["host", (lines) => lines.filter((line) => !line.startsWith("Host"))],
  ["host", (lines) => lines.map((line) => (line.startsWith("Host") ? "Host: a b" : line))],
  ["", (lines) => [...lines, "X-Bad : 1"]],
  ["", (lines) => [...lines, "no colon"]],
  ["fold", (lines) => [...lines, "X-Fold: 1", " 2"]],
  ["", (lines) => [...lines, "Content-Length: 1x"]],
  ["", (lines) => [...lines, "Content-Length: 1", "Content-Length: 2"]],
  ["equal lengths", (lines) => [...lines.filter((line) => !/^(Content-Length|Transfer)/.test(line)), "Content-Length: 0", "Content-Length: 0"]],
  [
    "length and chunks",
    (lines) => [...lines.filter((line) => !/^(Content-Length|Transfer)/.test(line)), "Content-Length: 0", "Transfer-Encoding: chunked"],
  ],
  ["codings", (lines) => [...lines.filter((line) => !/^(Content-Length|Transfer)/.test(line)), "Transfer-Encoding: gzip"]],
  ["", (lines) => [...lines, "X[1]: 1"]],
  ["control bytes", (lines) => [...lines, "X-Bell: \x07"]],
  ["bare LF", (lines) => [...lines, "X-Lf: 1\nX-More: 2"]],
  ["", (lines) => [(lines[0] ?? "").replace("HTTP/1.1", "HTTP/1.x"), ...lines.slice(1)]],
];

const names = ["Accept", "User-Agent", "X-Trace", "X-A", "Cookie", "X-Forwarded-For", "Cache-Control", "Authorization"];
const hops = ["Connection: keep-alive", "Connection: X-Hop", "X-Hop: 1", "Keep-Alive: timeout=3", "TE: trailers", "Proxy-Connection: x"];

const bodyOf = (roll: Dice): { fields: string[]; body: string; fault: boolean } => {
  const text = "abcdefgh".repeat(roll.below(40));
  if (roll.chance(0.5)) return { fields: [`Content-Length: ${text.length}`], body: text, fault: false };
  let body = "";
  for (let at = 0; at < text.length; ) {
    const size = Math.min(text.length - at, 1 + roll.below(60));
    body += `${size.toString(16)}${roll.chance(0.1) ? ";x=1" : ""}\r\n${text.slice(at, at + size)}\r\n`;
    at += size;
  }
  const fault = roll.chance(0.08);
  return { fields: ["Transfer-Encoding: chunked"], body: `${body}${fault ? "zz" : "0"}\r\n\r\n`, fault };
};

const requestOf = (roll: Dice, traits: string[]): { text: string; ends: boolean } => {
  const method = roll.pick(["GET", "GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "PROPFIND"]);
  const target = roll.pick(["/", "/a//b", "/?x=1&y=%20", "/a/../b", `/${"p".repeat(roll.below(300))}`, "/a;b=c,d"]);
  let lines = [`${method} ${target} HTTP/1.1`, "Host: a.example"];
  for (let count = roll.below(6); count > 0; count--)
    lines.push(`${roll.pick(names)}:${roll.pick([" ", "", "  "])}v${roll.below(99)}${roll.pick(["", " "])}`);
  if (roll.chance(0.2)) lines.push(roll.pick(hops));
  const withBody = roll.chance(method === "GET" || method === "HEAD" ? 0.1 : 0.6);
  const { fields, body, fault } = withBody ? bodyOf(roll) : { fields: [], body: "", fault: false };
  lines.push(...fields);
  let ends = fault;
  if (roll.chance(0.2)) {
    const [trait, spoil] = roll.pick(faults);
    traits.push(trait);
    lines = spoil(lines);
    ends = true;
  }
  if (roll.chance(0.08)) {
    lines.push("Connection: close");
    ends = true;
  }
  return { text: `${lines.join("\r\n")}\r\n\r\n${body}`, ends };
};

const answerOf = (roll: Dice, traits: string[]): string => {
  const fields = roll.chance(0.4) ? `X-Answer: ${roll.below(9)}\r\nSet-Cookie: a=${roll.below(9)}\r\n` : "";
  const text = "z".repeat(roll.below(3_000));
  const status = roll.pick(["200 OK", "200 ", "201 Made", "404 Not Found", "301 Moved", "500 Oops", "204 None", "304 Same"]);
  if (/^(204|304)/.test(status)) return `HTTP/1.1 ${status}\r\n${fields}\r\n`;
  const kind = roll.below(10);
  if (kind < 6) return `HTTP/1.1 ${status}\r\n${fields}Content-Length: ${text.length}\r\n\r\n${text}`;
  if (kind < 9) {
    const half = text.length >> 1;
    const parts = [text.slice(0, half), text.slice(half)].filter((part) => part !== "").map((part) => `${part.length.toString(16)}\r\n${part}\r\n`);
    return `HTTP/1.1 ${status}\r\n${fields}Transfer-Encoding: chunked\r\n\r\n${parts.join("")}0\r\n\r\n`;
  }
  traits.push("malformed answers");
  return roll.pick([
    `HTTP/1.1 ${status}\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n`,
    "HTTP/1.1 200 OK\r\nX : 1\r\nContent-Length: 0\r\n\r\n",
    "junk\r\n\r\n",
  ]);
};

const generate = (seed: number): Generated => {
  const roll = dice(seed);
  const traits: string[] = [];
  let text = "";
  const count = 1 + roll.below(3);
  const answers: string[] = [];
  for (let index = 0; index < count; index++) {
    const request = requestOf(roll, traits);
    text += request.text;
    answers.push(answerOf(roll, traits));
    if (request.ends) break;
  }
  const pieces: string[] = [];
  if (roll.chance(0.25)) {
    const at = roll.below(text.length);
    pieces.push(text.slice(0, at), text.slice(at));
  } else pieces.push(text);
  return { say: pieces.filter((piece) => piece !== ""), node: { answers }, traits };
};

/** Fields that a balancer sets for its own connections, or adds. */
const OWN = new Set([
  "connection",
  "keep-alive",
  "date",
  "transfer-encoding",
  "content-length",
  "x-forwarded-port",
  "te",
  "proxy-connection",
  "x-hop",
  "cache-control",
  "content-type",
  "x-backlot-reason",
]);
const fieldsOf = (fields: ReadonlyArray<[string, string]>): string[] =>
  fields.flatMap(([name, value]) => (OWN.has(name.toLowerCase()) ? [] : [`${name.toLowerCase()}: ${value}`])).sort();

/** A page of the balancer itself: ours has a reason, HAProxy's begins like this. */
const isOwnPage = (answer: Message): boolean => valuesOf(answer, "x-backlot-reason").length > 0 || answer.body.startsWith("<html><body><h1>");

/** What must be the same, whoever stands between. */
const essence = (outcome: Conversation) => ({
  statuses: statuses(outcome),
  bodies: outcome.answers.map((answer) => (isOwnPage(answer) ? "" : answer.body)),
  fields: outcome.answers.map((answer) => fieldsOf(answer.fields)),
  closed: outcome.closed,
  seen: outcome.seen.map((request) => ({
    line: request.line,
    body: request.body,
    fields: fieldsOf(request.fields).filter((each) => !each.startsWith("x-forwarded-for")),
  })),
  forwarded: outcome.seen.map((request) => valuesOf(request, "x-forwarded-for").join(", ")),
});

const scripted = new ScriptedNode();
let backend = 0;
let fast = 0;
let careful = 0;
beforeAll(async () => {
  backend = await scripted.open();
  fast = await applyOpen(startPlane(), spec([node(1, backend)]));
  careful = await applyOpen(startPlane({ fastLane: false }), spec([node(1, backend)]));
});
afterAll(closeOpened);

/** The careful lane's outcome tells how many answers there are to wait for at the others. */
const outcomes = new Map<number, Conversation>();
const carefully = async (seed: number): Promise<Conversation> => {
  const known = outcomes.get(seed);
  if (known) return known;
  const outcome = await run(careful, scripted, generate(seed), {
    answers: generate(seed).node.answers?.map(() => 200) ?? [],
    closed: false,
    cut: false,
  });
  outcomes.set(seed, outcome);
  return outcome;
};
const likewise = async (port: number, seed: number): Promise<Conversation> => {
  const { answers, closed } = await carefully(seed);
  return run(port, scripted, generate(seed), { answers: answers.map(() => 200), closed, cut: false });
};

const seeds = Array.from({ length: SEEDS }, (_, index) => index + 1);

describe("both lanes give the same", () => {
  test.each(seeds)("seed %i", async (seed) => {
    const expected = essence(await carefully(seed));
    expect(essence(await likewise(fast, seed))).toEqual(expected);
  });
});

/** Traits of which HAProxy 2.6 thinks otherwise: the table in docs/balancer.md. */
const explained = new Set(["host", "fold", "equal lengths", "length and chunks", "codings", "control bytes", "bare LF"]);

describeHaproxy("HAProxy gives the same, or the difference is explained", () => {
  let haproxy: Haproxy;
  beforeAll(async () => {
    haproxy = await startHaproxy(backend);
  });
  afterAll(() => haproxy.close());

  test.each(seeds.filter((seed) => !generate(seed).traits.some((trait) => explained.has(trait))))("seed %i", async (seed) => {
    const expected = essence(await carefully(seed));
    expect(essence(await likewise(haproxy.port, seed))).toEqual(expected);
  });
});
