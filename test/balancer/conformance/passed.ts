import { expect } from "vitest";
import { ask, type Case, chunks, get, post, raw } from "./cases.js";
import { ok, valuesOf } from "./wire.js";

/** What a node is sent. */
const field =
  (name: string, ...values: string[]): NonNullable<Case["check"]> =>
  ({ seen }) =>
    expect(valuesOf(seen[0], name)).toEqual(values);
const line =
  (text: string): NonNullable<Case["check"]> =>
  ({ seen }) =>
    expect(seen[0]?.line).toBe(text);

const targets: Array<[name: string, target: string, method?: string, lane?: "careful"]> = [
  ["a plain path", "/a/b"],
  ["doubled slashes", "//a//b"],
  ["a query", "/a?b=c&d=%20e?f"],
  ["an empty query", "/a?"],
  ["dots, not resolved", "/a/../b/./c"],
  ["percent signs, not decoded", "/%2e%2E/%00%zz"],
  ["marks that are allowed in a path", "/!$&'()*+,;=:@-._~"],
  ["marks that are not, but common", '/a"b<c>d\\e^f`g{h|i}'],
  ["an absolute URL", "http://test.example/a?b", "GET", "careful"],
  ["a star for OPTIONS", "*", "OPTIONS", "careful"],
];

const hopByHop: Array<[name: string, fields: string[], gone: string[]]> = [
  ["Connection: close", ["Connection: close"], ["close"]],
  ["Keep-Alive", ["Connection: keep-alive", "Keep-Alive: timeout=5"], ["keep-alive"]],
  ["a field that Connection names", ["Connection: X-Private", "X-Private: 1"], ["x-private"]],
  ["two fields that Connection names", ["Connection: X-A, x-b", "X-A: 1", "X-B: 2"], ["x-a", "x-b"]],
  ["fields named by two Connection fields", ["Connection: X-A", "X-A: 1", "Connection: X-B", "X-B: 2"], ["x-a", "x-b"]],
  ["a named field that stands before Connection", ["X-A: 1", "Connection: X-A"], ["x-a"]],
];

export const passed: readonly Case[] = [
  ...targets.map(
    ([name, target, method = "GET", lane]): Case => ({
      name: `target: ${name}`,
      rfc: "9112 3.2",
      say: ask(method, target),
      answers: [200],
      check: line(`${method} ${target} HTTP/1.1`),
      ...(lane ? { lane } : {}),
    }),
  ),
  ...["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"].map(
    (method): Case => ({
      name: `${method} without a body`,
      rfc: "9110 9.3",
      say: ask(method, "/"),
      answers: [200],
      check: ({ seen, answers }) => {
        expect(seen[0]?.line).toBe(`${method} / HTTP/1.1`);
        expect(seen[0]?.body).toBe("");
        expect(answers[0]?.body).toBe(method === "HEAD" ? "" : "hi");
        expect(valuesOf(seen[0], "transfer-encoding")).toEqual([]);
      },
    }),
  ),
  ...["PROPFIND", "TRACE", "PURGE"].map(
    (method): Case => ({
      name: `${method}, a rarer method`,
      rfc: "9110 9.1",
      say: ask(method, "/"),
      answers: [200],
      lane: "careful",
      check: line(`${method} / HTTP/1.1`),
    }),
  ),
  ...["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "GET"].flatMap((method): Case[] => [
    {
      name: `${method} with a length`,
      rfc: "9112 6.3",
      say: ask(method, "/", ["Content-Length: 5"], "hello"),
      answers: [200],
      check: ({ seen }) => expect([seen.length, seen[0]?.body]).toEqual([1, "hello"]),
    },
    {
      name: `${method} with chunks`,
      rfc: "9112 7.1",
      say: ask(method, "/", ["Transfer-Encoding: chunked"], "3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n"),
      answers: [200],
      check: ({ seen }) => expect([seen.length, seen[0]?.body]).toEqual([1, "hello"]),
    },
  ]),
  {
    name: "DELETE with chunks that hold a request is one request",
    rfc: "9112 11.2",
    say: ask("DELETE", "/", ["Transfer-Encoding: chunked"], "21\r\nGET /hidden HTTP/1.1\r\nHost: a\r\n\r\n\r\n0\r\n\r\n"),
    answers: [200],
    check: ({ seen }) => expect(seen.map((each) => each.line)).toEqual(["DELETE / HTTP/1.1"]),
  },
  ...hopByHop.map(
    ([name, fields, gone]): Case => ({
      name: `${name} stays here`,
      rfc: "9110 7.6.1",
      say: get("/", ...fields),
      answers: [200],
      ...(fields.includes("Connection: close") ? { closed: true as const } : {}),
      check: ({ seen }) => {
        for (const each of gone) expect(valuesOf(seen[0], each)).toEqual([]);
        expect(valuesOf(seen[0], "connection").join()).not.toMatch(/close|x-/i);
      },
      ...(/names|named/.test(name) || name === "Keep-Alive" ? { haproxy: { why: "keeps what Connection names and Keep-Alive" } } : {}),
    }),
  ),
  {
    name: "TE stays here",
    rfc: "9110 10.1.4",
    say: get("/", "TE: gzip", "Connection: TE"),
    answers: [200],
    check: field("te"),
    haproxy: { why: "keeps TE" },
  },
  {
    name: "Proxy-Connection stays here",
    rfc: "9112 C.2.2",
    say: get("/", "Proxy-Connection: keep-alive"),
    answers: [200],
    check: field("proxy-connection"),
    haproxy: { why: "keeps it" },
  },
  {
    name: "Host cannot be named away",
    rfc: "9110 7.6.1",
    say: get("/", "Connection: Host"),
    answers: [200],
    lane: "careful",
    check: field("host", "test.example"),
  },
  {
    name: "Content-Length cannot be named away",
    rfc: "9110 7.6.1",
    say: post("hello", "Connection: Content-Length"),
    answers: [200],
    lane: "careful",
    check: ({ seen }) => expect(seen[0]?.body).toBe("hello"),
  },
  {
    name: "repeated fields keep their order",
    rfc: "9110 5.3",
    say: get("/", "X-A: 1", "X-B: x", "X-A: 2"),
    answers: [200],
    check: field("x-a", "1", "2"),
  },
  { name: "an empty field value", rfc: "9110 5.5", say: get("/", "X-A:"), answers: [200], check: field("x-a", "") },
  { name: "white space around a value", rfc: "9112 5.1", say: get("/", "X-A: \t b \t"), answers: [200], check: field("x-a", "b") },
  { name: "a value without a space before it", rfc: "9112 5.1", say: get("/", "X-A:b"), answers: [200], check: field("x-a", "b") },
  { name: "a tab inside a value", rfc: "9110 5.5", say: get("/", "X-A: b\tc"), answers: [200], check: field("x-a", "b\tc") },
  { name: "bytes beyond ASCII in a value", rfc: "9110 5.5", say: get("/", "X-A: \xe4\xff"), answers: [200], check: field("x-a", "\xe4\xff") },
  {
    name: "every mark of a token in a field name",
    rfc: "9110 5.6.2",
    say: get("/", "!#$%&'*+-.^_`|~09aZ: 1"),
    answers: [200],
    check: field("!#$%&'*+-.^_`|~09aZ", "1"),
  },
  {
    name: "200 fields",
    rfc: "9110 5.4",
    say: get("/", ...Array.from({ length: 200 }, (_, index) => `X-${index}: ${index}`)),
    answers: [200],
    check: field("x-199", "199"),
    haproxy: { answers: [400], closed: true, seen: 0, why: "takes 101 fields" },
  },
  {
    name: "a value of 8 kB",
    rfc: "9110 5.4",
    say: get("/", `X-A: ${"x".repeat(8_000)}`),
    answers: [200],
    check: ({ seen }) => expect(valuesOf(seen[0], "x-a")[0]).toHaveLength(8_000),
  },
  {
    name: "a head of 30 kB",
    rfc: "9110 5.4",
    say: get("/", `X-A: ${"x".repeat(30_000)}`),
    answers: [200],
    lane: "careful",
    check: ({ seen }) => expect(valuesOf(seen[0], "x-a")[0]).toHaveLength(30_000),
    haproxy: { answers: [400], closed: true, seen: 0, why: "has a buffer of 16 kB" },
  },
  { name: "X-Forwarded-For is made", rfc: "7239 4", say: get(), answers: [200], check: field("x-forwarded-for", "127.0.0.1") },
  {
    name: "X-Forwarded-For is continued",
    rfc: "7239 4",
    say: get("/", "X-Forwarded-For: 9.9.9.9", "X-Forwarded-For: 8.8.8.8"),
    answers: [200],
    check: ({ seen }) => expect(valuesOf(seen[0], "x-forwarded-for").join(", ")).toBe("9.9.9.9, 8.8.8.8, 127.0.0.1"),
  },
  {
    name: "X-Forwarded-Proto cannot be forged",
    rfc: "7239 8.1",
    say: get("/", "X-Forwarded-Proto: https"),
    answers: [200],
    check: field("x-forwarded-proto", "http"),
  },
  {
    name: "a Host with a port",
    rfc: "9112 3.2",
    say: "GET / HTTP/1.1\r\nHost: test.example:8080\r\n\r\n",
    answers: [200],
    check: field("host", "test.example:8080"),
  },
  {
    name: "a Host that is an IPv6 address",
    rfc: "9112 3.2",
    say: "GET / HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
    answers: [200],
    check: field("host", "[::1]:80"),
  },
  {
    name: "a Host in capitals is kept",
    rfc: "9112 3.2",
    say: "GET / HTTP/1.1\r\nHOST: Test.Example\r\n\r\n",
    answers: [200],
    check: field("host", "Test.Example"),
  },
  { name: "an empty Host", rfc: "9112 3.2", say: "GET / HTTP/1.1\r\nHost:\r\n\r\n", answers: [200], lane: "careful", check: field("host", "") },
  {
    name: "an absolute URL overrides Host",
    rfc: "9112 3.2.2",
    say: "GET http://other.example/a HTTP/1.1\r\nHost: test.example\r\n\r\n",
    answers: [200],
    lane: "careful",
    check: field("host", "other.example"),
    haproxy: { answers: [400], closed: true, seen: 0, why: "insists that they agree" },
  },
  { name: "an empty line before the request", rfc: "9112 2.2", say: `\r\n${get()}`, answers: [200], lane: "careful" },
  {
    name: "an empty line after a body",
    rfc: "9112 2.2",
    say: `${post("hello")}\r\n${get("/next")}`,
    answers: [200, 200],
    lane: "careful",
    check: ({ seen }) => expect(seen[1]?.line).toBe("GET /next HTTP/1.1"),
  },
  {
    name: "HTTP/1.0",
    rfc: "9112 9.3",
    say: raw("GET / HTTP/1.0", "Host: a"),
    answers: [200],
    closed: true,
    lane: "careful",
    check: line("GET / HTTP/1.1"),
    haproxy: { why: "passes the version" },
  },
  { name: "HTTP/1.0 without Host", rfc: "9112 3.2", say: raw("GET / HTTP/1.0"), answers: [200], closed: true, lane: "careful" },
  {
    name: "HTTP/1.0 that asks for a kept connection",
    rfc: "9112 9.3",
    say: raw("GET / HTTP/1.0", "Host: a", "Connection: keep-alive"),
    answers: [200],
    lane: "careful",
    check: ({ answers }) => expect(valuesOf(answers[0], "connection").join().toLowerCase()).toBe("keep-alive"),
  },

  { name: "an empty body with a length", rfc: "9110 8.6", say: post(""), answers: [200], check: field("content-length", "0") },
  {
    name: "a length with leading zeros",
    rfc: "9110 8.6",
    say: ask("POST", "/", ["Content-Length: 005"], "hello"),
    answers: [200],
    check: ({ seen }) => expect(seen[0]?.body).toBe("hello"),
  },
  {
    name: "a body that comes after its head",
    rfc: "9112 6",
    say: [ask("POST", "/", ["Content-Length: 5"]), "he", "llo"],
    answers: [200],
    check: ({ seen }) => expect(seen[0]?.body).toBe("hello"),
  },
  {
    name: "a body of 1 MB",
    rfc: "9112 6",
    say: post("x".repeat(1_000_000)),
    answers: [200],
    check: ({ seen }) => expect(seen[0]?.body).toHaveLength(1_000_000),
  },
  {
    name: "empty chunked body",
    rfc: "9112 7.1",
    say: chunks("0\r\n\r\n"),
    answers: [200],
    check: ({ seen }) => expect([seen[0]?.body, seen[0]?.complete]).toEqual(["", true]),
  },
  {
    name: "sizes in capitals",
    rfc: "9112 7.1",
    say: chunks(`A\r\n${"x".repeat(10)}\r\n0\r\n\r\n`),
    answers: [200],
    check: ({ seen }) => expect(seen[0]?.body).toHaveLength(10),
  },
  {
    name: "sizes with leading zeros",
    rfc: "9112 7.1",
    say: chunks("0005\r\nhello\r\n000\r\n\r\n"),
    answers: [200],
    check: ({ seen }) => expect(seen[0]?.body).toBe("hello"),
  },
  {
    name: "chunk extensions are ignored",
    rfc: "9112 7.1.1",
    say: chunks('5;a=b;c="d"\r\nhello\r\n0;e\r\n\r\n'),
    answers: [200],
    check: ({ seen, raw: sent }) => {
      expect(seen[0]?.body).toBe("hello");
      expect(sent).not.toContain(";a=b");
    },
  },
  {
    name: "trailers that were not announced are dropped",
    rfc: "9110 6.5.1",
    say: chunks("5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n"),
    answers: [200],
    check: ({ seen }) => expect([seen[0]?.body, seen[0]?.trailers]).toEqual(["hello", ""]),
    haproxy: { why: "passes them" },
  },
  {
    name: "announced trailers",
    rfc: "9110 6.5",
    say: chunks("5\r\nhello\r\n0\r\nX-Sum: 7\r\n\r\n", "Trailer: X-Sum"),
    answers: [200],
    lane: "careful",
    check: ({ seen }) => expect(seen[0]?.body).toBe("hello"),
  },
  {
    name: "chunks that arrive byte by byte",
    rfc: "9112 7.1",
    say: [ask("POST", "/", ["Transfer-Encoding: chunked"]), ..."5;x=y\r\nhello\r\n0\r\nT: 1\r\n\r\n"],
    answers: [200],
    check: ({ seen }) => expect(seen[0]?.body).toBe("hello"),
  },
  { name: "a head that arrives in two pieces", rfc: "9112 2.2", say: ["GET / HTTP/1.1\r\nHo", "st: a\r\n\r\n"], answers: [200], lane: "careful" },
  {
    name: "100 chunks",
    rfc: "9112 7.1",
    say: chunks(`${"1\r\nx\r\n".repeat(100)}0\r\n\r\n`),
    answers: [200],
    check: ({ seen }) => expect(seen[0]?.body).toBe("x".repeat(100)),
  },

  {
    name: "two requests at once",
    rfc: "9112 9.3.2",
    say: get("/1") + get("/2"),
    node: { answers: [ok("one"), ok("two")] },
    answers: [200, 200],
    check: ({ answers }) => expect(answers.map((each) => each.body)).toEqual(["one", "two"]),
  },
  {
    name: "ten requests at once",
    rfc: "9112 9.3.2",
    say: Array.from({ length: 10 }, (_, index) => get(`/${index}`)).join(""),
    answers: Array.from({ length: 10 }, () => 200),
    check: ({ seen }) => expect(seen.map((each) => each.line.split(" ")[1])).toEqual(Array.from({ length: 10 }, (_, index) => `/${index}`)),
  },
  {
    name: "a body, then a request",
    rfc: "9112 9.3.2",
    say: post("hello") + get("/2"),
    answers: [200, 200],
    check: ({ seen }) => expect(seen.map((each) => each.body)).toEqual(["hello", ""]),
  },
  {
    name: "chunks, then a request",
    rfc: "9112 9.3.2",
    say: chunks("5\r\nhello\r\n0\r\n\r\n") + get("/2"),
    answers: [200, 200],
    check: ({ seen }) => expect(seen.map((each) => each.body)).toEqual(["hello", ""]),
  },
  {
    name: "HEAD, then GET",
    rfc: "9112 9.3.2",
    say: ask("HEAD", "/") + get("/2"),
    answers: [200, 200],
    check: ({ answers }) => expect(answers.map((each) => each.body)).toEqual(["", "hi"]),
  },
  {
    name: "a plain request, then one that is not",
    rfc: "9112 9.3.2",
    say: get("/1") + ask("PROPFIND", "/2") + get("/3"),
    answers: [200, 200, 200],
    lane: "careful",
    check: ({ seen }) => expect(seen.map((each) => each.line.split(" ")[0])).toEqual(["GET", "PROPFIND", "GET"]),
  },
  {
    name: "what follows Connection: close is not answered",
    rfc: "9112 9.6",
    say: get("/1", "Connection: close") + get("/2"),
    answers: [200],
    closed: true,
  },
  {
    name: "Connection: Close in capitals, among others",
    rfc: "9110 7.6.1",
    say: get("/", "Connection: keep-alive, CLOSE"),
    answers: [200],
    closed: true,
  },
  {
    name: "a client that half-closes gets its answer",
    rfc: "9112 9.6",
    say: get(),
    half: true,
    answers: [200],
    closed: true,
    haproxy: { closed: false, why: "leaves the connection to the client" },
  },
  {
    name: "a client that half-closes in the middle of its body",
    rfc: "9112 8",
    say: ask("POST", "/", ["Content-Length: 10"], "hello"),
    half: true,
    answers: [400],
    closed: true,
    seen: 0,
    haproxy: { skip: true, why: "closes without a word" },
  },
  {
    name: "a client that half-closes in the middle of its head",
    rfc: "9112 8",
    say: "GET / HTTP/1.1\r\nHost:",
    half: true,
    answers: [400],
    closed: true,
    seen: 0,
    lane: "careful",
  },
];
