import { expect } from "vitest";
import { type Case, chunks, get, raw } from "./cases.js";

const H = "Host: a";

/** Requests that two readers could understand differently, or nobody: 400 and the end of the connection. Name, section, bytes. */
const bad: Array<[name: string, rfc: string, say: string, haproxy?: Case["haproxy"]]> = [
  ["two Host fields", "9112 3.2", raw("GET / HTTP/1.1", H, "Host: b")],
  [
    "two equal Host fields",
    "9112 3.2",
    raw("GET / HTTP/1.1", H, H),
    { answers: [200], closed: false, seen: 1, why: "takes equal ones as one; the RFC says 400" },
  ],
  ["no Host field", "9112 3.2", raw("GET / HTTP/1.1", "X: y"), { answers: [200], closed: false, seen: 1, why: "does not insist; the RFC says 400" }],
  ["a Host with a list", "9112 3.2", raw("GET / HTTP/1.1", "Host: a, b"), { answers: [200], closed: false, seen: 1, why: "does not look into Host" }],
  ["a Host with a path", "9112 3.2", raw("GET / HTTP/1.1", "Host: a/b"), { answers: [200], closed: false, seen: 1, why: "does not look into Host" }],
  [
    "a Host with user information",
    "9112 3.2",
    raw("GET / HTTP/1.1", "Host: u@a"),
    { answers: [200], closed: false, seen: 1, why: "does not look into Host" },
  ],
  [
    "a Host with a space inside",
    "9112 3.2",
    raw("GET / HTTP/1.1", "Host: a b"),
    { answers: [200], closed: false, seen: 1, why: "does not look into Host" },
  ],
  ["no target", "9112 3", raw("GET HTTP/1.1", H)],
  ["a space in the target", "9112 3.2", raw("GET /a b HTTP/1.1", H)],
  ["a target without a slash", "9112 3.2", raw("GET a HTTP/1.1", H), { answers: [200], closed: false, seen: 1, why: "passes any target" }],
  ["a star for a GET", "9112 3.2.4", raw("GET * HTTP/1.1", H), { answers: [200], closed: false, seen: 1, why: "passes any star" }],
  ["bytes beyond ASCII in the target", "9112 3.2", raw("GET /\xe4 HTTP/1.1", H)],
  ["a control byte in the target", "9112 3.2", raw("GET /\x01 HTTP/1.1", H)],
  ["a NUL in the target", "9112 3.2", raw("GET /\0 HTTP/1.1", H)],
  ["no version", "9112 2.3", raw("GET /", H)],
  ["HTTP/0.9", "9112 2.3", "GET /\r\n\r\n"],
  ["a version of letters", "9112 2.3", raw("GET / HTTP/x.y", H)],
  ["a lower-case protocol name", "9112 2.3", raw("GET / http/1.1", H)],
  ["a version with three digits", "9112 2.3", raw("GET / HTTP/1.10", H)],
  ["a space before the colon", "9112 5.1", raw("GET / HTTP/1.1", H, "X-A : b")],
  ["a field without a colon", "9112 5.1", raw("GET / HTTP/1.1", H, "nonsense")],
  ["a field without a name", "9112 5.1", raw("GET / HTTP/1.1", H, ": b")],
  ["a space before the first field", "9112 2.2", raw("GET / HTTP/1.1", ` ${H}`)],
  [
    "a folded field",
    "9112 5.2",
    raw("GET / HTTP/1.1", H, "X-A: b", "  c"),
    { answers: [200], closed: false, seen: 1, why: "joins the lines, the other choice of section 5.2" },
  ],
  ["a space in a field name", "9110 5.1", raw("GET / HTTP/1.1", H, "X A: b")],
  ["a control byte in a field name", "9110 5.1", raw("GET / HTTP/1.1", H, "X\x01A: b")],
  ["a bracket in a field name", "9110 5.1", raw("GET / HTTP/1.1", H, "X[A]: b")],
  ["a byte beyond ASCII in a field name", "9110 5.1", raw("GET / HTTP/1.1", H, "X\xe4: b")],
  [
    "a NUL in a field value",
    "9110 5.5",
    raw("GET / HTTP/1.1", H, "X-A: b\0c"),
    { answers: [200], closed: false, seen: 1, why: "refuses CR and LF only" },
  ],
  [
    "a control byte in a field value",
    "9110 5.5",
    raw("GET / HTTP/1.1", H, "X-A: b\x01c"),
    { answers: [200], closed: false, seen: 1, why: "refuses CR and LF only" },
  ],
  ["a bare CR in a field value", "9110 5.5", raw("GET / HTTP/1.1", H, "X-A: b\rc")],
  [
    "a bare LF that ends a field",
    "9112 2.2",
    "GET / HTTP/1.1\r\nHost: a\nX-A: b\r\n\r\n",
    { answers: [200], closed: false, seen: 1, why: "takes a bare LF as a line's end, as section 2.2 allows" },
  ],
  [
    "only bare LFs",
    "9112 2.2",
    "GET / HTTP/1.1\nHost: a\n\n",
    { answers: [200], closed: false, seen: 1, why: "takes a bare LF as a line's end, as section 2.2 allows" },
  ],
  [
    "a bare LF in the empty line",
    "9112 2.2",
    "GET / HTTP/1.1\r\nHost: a\r\n\n",
    { answers: [200], closed: false, seen: 1, why: "takes a bare LF as a line's end, as section 2.2 allows" },
  ],
  ["bytes that are TLS", "9112 3", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"],
  ["the preface of HTTP/2", "9113 3.4", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", { skip: true, why: "speaks HTTP/2 here" }],
  [
    "a length and chunks",
    "9112 6.1",
    `${raw("POST / HTTP/1.1", H, "Content-Length: 5", "Transfer-Encoding: chunked")}0\r\n\r\n`,
    { answers: [200], closed: true, seen: 1, why: "drops the length, the other choice of section 6.1" },
  ],
  [
    "chunks and a length",
    "9112 6.1",
    `${raw("POST / HTTP/1.1", H, "Transfer-Encoding: chunked", "Content-Length: 5")}0\r\n\r\n`,
    { answers: [200], closed: true, seen: 1, why: "drops the length, the other choice of section 6.1" },
  ],
  ["two lengths", "9112 6.3", `${raw("POST / HTTP/1.1", H, "Content-Length: 5", "Content-Length: 6")}hello!`],
  [
    "two equal lengths",
    "9112 6.3",
    `${raw("POST / HTTP/1.1", H, "Content-Length: 5", "Content-Length: 5")}hello`,
    { answers: [200], closed: false, seen: 1, why: "takes equal ones as one, the other choice of section 6.3" },
  ],
  ["a list of lengths", "9112 6.3", `${raw("POST / HTTP/1.1", H, "Content-Length: 5, 6")}hello!`],
  [
    "a list of equal lengths",
    "9112 6.3",
    `${raw("POST / HTTP/1.1", H, "Content-Length: 5, 5")}hello`,
    { answers: [200], closed: false, seen: 1, why: "takes equal ones as one, the other choice of section 6.3" },
  ],
  ["a length with a sign", "9110 8.6", `${raw("POST / HTTP/1.1", H, "Content-Length: +5")}hello`],
  ["a negative length", "9110 8.6", `${raw("POST / HTTP/1.1", H, "Content-Length: -5")}hello`],
  ["a length in hex", "9110 8.6", `${raw("POST / HTTP/1.1", H, "Content-Length: 0x5")}hello`],
  ["a length with a fraction", "9110 8.6", `${raw("POST / HTTP/1.1", H, "Content-Length: 5.0")}hello`],
  ["an empty length", "9110 8.6", raw("POST / HTTP/1.1", H, "Content-Length: ")],
  [
    "a length beyond 64 bits",
    "9110 8.6",
    `${raw("POST / HTTP/1.1", H, "Content-Length: 18446744073709551617")}h`,
    { skip: true, why: "waits for the body" },
  ],
  ["a length with a space inside", "9110 8.6", `${raw("POST / HTTP/1.1", H, "Content-Length: 1 0")}hello`],
  [
    "chunks in HTTP/1.0",
    "9112 6.1",
    `${raw("POST / HTTP/1.0", H, "Transfer-Encoding: chunked")}0\r\n\r\n`,
    { answers: [200], closed: true, seen: 1, why: "takes them and closes, the other choice of section 6.1" },
  ],
];

/** Bodies that are no chunked bodies. */
const badChunks: Array<[name: string, say: string, haproxy?: Case["haproxy"]]> = [
  ["a size that is no number", "x\r\nhi\r\n0\r\n\r\n"],
  ["an empty size", "\r\nhi\r\n0\r\n\r\n"],
  ["a size with a sign", "+2\r\nhi\r\n0\r\n\r\n"],
  ["a size with 0x", "0x2\r\nhi\r\n0\r\n\r\n"],
  ["a space before a size", " 2\r\nhi\r\n0\r\n\r\n"],
  [
    "a space after a size",
    "2 \r\nhi\r\n0\r\n\r\n",
    { answers: [200], closed: false, seen: 1, why: "takes the white space that old senders pad with" },
  ],
  ["a size beyond 64 bits", "10000000000000002\r\nhi\r\n0\r\n\r\n"],
  ["a bare LF after a size", "2\nhi\r\n0\r\n\r\n", { answers: [200], closed: false, seen: 1, why: "takes a bare LF" }],
  ["a bare CR after a size", "2\rhi\r\n0\r\n\r\n"],
  ["data longer than its size", "2\r\nhis\r\n0\r\n\r\n"],
  ["no CRLF after the data", "2\r\nhi0\r\n\r\n"],
  ["a bare LF after the data", "2\r\nhi\n0\r\n\r\n", { answers: [200], closed: false, seen: 1, why: "takes a bare LF" }],
  ["a NUL in a chunk extension", "2;a\0b\r\nhi\r\n0\r\n\r\n", { answers: [200], closed: false, seen: 1, why: "does not look into extensions" }],
  ["a bare LF in a chunk extension", "2;a\nhi\r\n0\r\n\r\n", { answers: [200], closed: false, seen: 1, why: "takes a bare LF" }],
  ["a trailer without a colon", "2\r\nhi\r\n0\r\nnonsense\r\n\r\n"],
];

const refusal = (status: number) => ({
  answers: [status],
  closed: true as const,
  seen: 0,
});

const hasReason: Case["check"] = ({ answers, text }) => {
  expect(answers.at(-1)?.line).toMatch(/^HTTP\/1\.1 4|5/);
  expect(text.toLowerCase()).toContain("connection: close");
};

export const refused: readonly Case[] = [
  ...bad.map(
    ([name, rfc, say, haproxy]): Case => ({ name, rfc, say, ...refusal(400), check: hasReason, lane: "careful", ...(haproxy ? { haproxy } : {}) }),
  ),
  ...badChunks.map(
    ([name, body, haproxy]): Case => ({
      name: `chunks: ${name}`,
      rfc: "9112 7.1",
      say: chunks(body),
      ...refusal(400),
      check: ({ answers, raw: sent }) => {
        expect(answers).toHaveLength(1);
        // What the node was sent is no whole request, so it cannot be taken for one.
        expect(sent).not.toMatch(/\r\n0\r\n\r\n/);
      },
      ...(haproxy ? { haproxy } : {}),
    }),
  ),
  {
    name: "an unknown method",
    rfc: "9110 9.1",
    say: raw("BREW / HTTP/1.1", H),
    ...refusal(400),
    lane: "careful",
    haproxy: { answers: [200], closed: false, seen: 1, why: "passes methods that nobody registered" },
  },
  {
    name: "a method in lower case",
    rfc: "9110 9.1",
    say: raw("get / HTTP/1.1", H),
    ...refusal(400),
    lane: "careful",
    haproxy: { answers: [200], closed: false, seen: 1, why: "passes methods that nobody registered" },
  },
  {
    name: "CONNECT",
    rfc: "9110 9.3.6",
    say: raw("CONNECT a:443 HTTP/1.1", "Host: a:443"),
    ...refusal(501),
    lane: "careful",
    haproxy: { skip: true, why: "opens a tunnel to the node" },
  },
  {
    name: "a major version of 2",
    rfc: "9110 2.5",
    say: raw("GET / HTTP/2.0", H),
    ...refusal(505),
    lane: "careful",
    haproxy: { answers: [200], closed: false, seen: 1, why: "takes it for 1.1" },
  },
  {
    name: "a coding besides chunked",
    rfc: "9112 6.1",
    say: `${raw("POST / HTTP/1.1", H, "Transfer-Encoding: gzip, chunked")}0\r\n\r\n`,
    ...refusal(501),
    lane: "careful",
    haproxy: { answers: [422], why: "says 422" },
  },
  {
    name: "chunked named twice",
    rfc: "9112 6.1",
    say: `${raw("POST / HTTP/1.1", H, "Transfer-Encoding: chunked, chunked")}0\r\n\r\n`,
    ...refusal(400),
    lane: "careful",
  },
  {
    name: "two fields of chunked",
    rfc: "9112 6.1",
    say: `${raw("POST / HTTP/1.1", H, "Transfer-Encoding: chunked", "Transfer-Encoding: chunked")}0\r\n\r\n`,
    ...refusal(400),
    lane: "careful",
  },
  {
    name: "a coding that hides chunked",
    rfc: "9112 6.1",
    say: `${raw("POST / HTTP/1.1", H, "Transfer-Encoding: xchunked")}0\r\n\r\n`,
    ...refusal(501),
    lane: "careful",
    haproxy: { answers: [400], seen: 0, why: "says 400" },
  },
  {
    name: "chunked in quotes",
    rfc: "9112 6.1",
    say: `${raw("POST / HTTP/1.1", H, 'Transfer-Encoding: "chunked"')}0\r\n\r\n`,
    ...refusal(501),
    lane: "careful",
    haproxy: { answers: [400], seen: 0, why: "says 400" },
  },
  {
    name: "an unknown expectation",
    rfc: "9110 10.1.1",
    say: raw("GET / HTTP/1.1", H, "Expect: tea"),
    ...refusal(417),
    lane: "careful",
    haproxy: { answers: [200], closed: false, seen: 1, why: "leaves it to the node" },
  },
  {
    name: "a head of 70 kB",
    rfc: "9110 5.4",
    say: raw("GET / HTTP/1.1", H, `X: ${"x".repeat(70_000)}`),
    ...refusal(431),
    lane: "careful",
    haproxy: { answers: [400], seen: 0, why: "says 400" },
  },
  {
    name: "a target of 70 kB",
    rfc: "9112 3",
    say: raw(`GET /${"x".repeat(70_000)} HTTP/1.1`, H),
    ...refusal(431),
    lane: "careful",
    haproxy: { answers: [400], seen: 0, why: "says 400" },
  },
  {
    name: "a good request, then nonsense",
    rfc: "9112 9.3.2",
    say: `${get()}NONSENSE\r\n\r\n`,
    answers: [200, 400],
    closed: true,
    seen: 1,
    lane: "careful",
  },
  {
    name: "a good request, then one with two lengths",
    rfc: "9112 6.3",
    say: `${get() + raw("POST / HTTP/1.1", H, "Content-Length: 1", "Content-Length: 2")}x`,
    answers: [200, 400],
    closed: true,
    seen: 1,
    lane: "careful",
  },
  {
    name: "a request hidden in a body of chunks",
    rfc: "9112 11.2",
    say: chunks("0\r\n\r\nGET /hidden HTTP/1.1\r\nHost: a\r\nX: y\r\n\r\n"),
    answers: [200, 200],
    check: ({ seen }) => expect(seen[1]?.line).toBe("GET /hidden HTTP/1.1"),
  },
];
