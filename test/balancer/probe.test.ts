import { spawn } from "node:child_process";
import { createServer } from "node:http";
import { connect } from "node:net";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { openMatcher } from "#backlot/balancer/matching.js";
import { startProbe } from "#backlot/balancer/probe.js";
import type { ProbeSpec } from "../../src/balancer/probe.js";
import { until } from "../support/until.js";
import { closeLater, closeOpened, listen, rawBackend } from "./support.js";

const matcher = openMatcher();
const start = (spec: ProbeSpec) => startProbe(spec, matcher);
const probe = (spec: ProbeSpec) => start(spec).result;

afterEach(closeOpened);
afterAll(() => matcher.close());

const check = (port: number, more: Partial<ProbeSpec> = {}): ProbeSpec => ({
  kind: "http",
  host: "127.0.0.1",
  port,
  path: "/health",
  body: "",
  timeoutMs: 5_000,
  ...more,
});
const refusedPort = async (): Promise<number> => {
  const backend = await rawBackend(() => undefined);
  await new Promise<void>((resolve) => backend.server.close(() => resolve()));
  return backend.port;
};
/** Answers with the status in the path; `/body` with a text. */
const web = async (body: string) =>
  listen(
    createServer((req, res) => {
      const status = Number(req.url?.slice(1)) || 200;
      res.writeHead(status, { Location: "/500" });
      res.end(body);
    }),
  );

describe("connection", () => {
  test("an accepted connection is good, and is closed again", async () => {
    const backend = await rawBackend(() => undefined);
    expect(await probe(check(backend.port, { kind: "connection" }))).toEqual({ ok: true, reason: "connected", durationMs: expect.any(Number) });
    await until(() => backend.accepted() === 1 && backend.open.size === 0);
  });

  test("a refused one is bad", async () => {
    expect(await probe(check(await refusedPort(), { kind: "connection" }))).toMatchObject({ ok: false, reason: "connection refused" });
  });

  test("one that is never accepted is bad after the timeout", async () => {
    // A stopped process with a full backlog: the kernel answers no further connection.
    const script = "const s=require('net').createServer();s.listen({port:0,host:'127.0.0.1',backlog:1},()=>console.log(s.address().port))";
    const child = spawn(process.execPath, ["-e", script], { stdio: ["ignore", "pipe", "inherit"] });
    closeLater(() => void child.kill("SIGKILL"));
    const port = Number(await new Promise<string>((resolve) => child.stdout.once("data", (chunk) => resolve(String(chunk)))));
    child.kill("SIGSTOP");
    for (let count = 0; count < 4; count++) {
      const socket = connect(port, "127.0.0.1").on("error", () => undefined);
      closeLater(() => void socket.destroy());
    }
    const answer = await until(async () => {
      const result = await probe(check(port, { kind: "connection", timeoutMs: 200 }));
      return result.ok ? false : result;
    });
    expect(answer.reason).toBe("no answer within 200 ms");
  });
});

describe("http", () => {
  test.each([200, 204, 301, 302, 399])("%i is good, and no redirect is followed", async (status) => {
    expect(await probe(check(await web("hi"), { path: `/${status}` }))).toMatchObject({ ok: true, reason: `answered ${status}` });
  });
  test.each([400, 404, 500, 503])("%i is bad", async (status) => {
    expect(await probe(check(await web("hi"), { path: `/${status}` }))).toMatchObject({ ok: false, reason: `answered ${status}` });
  });

  test("says which host it asks", async () => {
    const backend = await rawBackend((socket) => socket.write("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"));
    await probe(check(backend.port, { path: "/a?b=c" }));
    await probe(check(backend.port, { hostHeader: "shop.example" }));
    expect(backend.received[0]).toMatch(/^GET \/a\?b=c HTTP\/1\.1\r\n/);
    expect(backend.received[0]).toContain(`\r\nHost: 127.0.0.1:${backend.port}\r\n`);
    expect(backend.received[1]).toContain("\r\nHost: shop.example\r\n");
    await until(() => backend.open.size === 0);
  });

  test.each([
    ["refused", undefined, "connection refused"],
    ["closed at once", (socket: { end(text?: string): void }) => socket.end(), "connection closed without an answer"],
    ["something else", (socket: { end(text?: string): void }) => socket.end("SSH-2.0-x\r\n"), "answered with something that is not HTTP"],
    ["silent", () => undefined, "no answer within 300 ms"],
    ["dripping", (socket: { write(text: string): void }) => void socket.write("HTTP/1.1 200"), "no answer within 300 ms"],
    [
      "an upgrade",
      (socket: { write(text: string): void }) => void socket.write("HTTP/1.1 101 X\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n"),
      "answered 101",
    ],
  ])("%s is bad and says so", async (_name, behave, reason) => {
    const backend = behave ? await rawBackend(behave as never) : undefined;
    expect(await probe(check(backend?.port ?? (await refusedPort()), { timeoutMs: 300 }))).toMatchObject({ ok: false, reason });
    await until(() => (backend?.open.size ?? 0) === 0);
  });

  test("a path that cannot be sent is bad, not thrown", async () => {
    expect(await probe(check(await web("hi"), { path: "/a b" }))).toMatchObject({ ok: false, reason: expect.stringContaining("cannot be made") });
  });
});

describe("http_body", () => {
  const body = (source: string, text: string, path = "/200") =>
    web(text).then((port) => probe(check(port, { kind: "http_body", body: source, path })));

  test("matches", async () => expect(await body("^all .* well$", "all is well")).toMatchObject({ ok: true, reason: "the body matches" }));
  test("does not match", async () => expect(await body("ok", "ill")).toMatchObject({ ok: false, reason: "the body does not match" }));
  test("the status counts too", async () => expect(await body("ok", "ok", "/500")).toMatchObject({ ok: false, reason: "answered 500" }));
  test("only the first 16,384 bytes are looked at, and an endless body ends the probe", async () => {
    expect(await body("needle", `${"x".repeat(16_378)}needle`)).toMatchObject({ ok: true });
    expect(await body("needle", `${"x".repeat(16_379)}needle`)).toMatchObject({ ok: false });
    const endless = await rawBackend((socket) => {
      socket.write("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n");
      const more = () => {
        while (!socket.destroyed && socket.write("y".repeat(65_536)));
      };
      socket.on("drain", more);
      more();
    });
    expect(await probe(check(endless.port, { kind: "http_body", body: "y{100}" }))).toMatchObject({ ok: true });
    await until(() => endless.open.size === 0);
  });
  test("a body that comes too slowly is bad", async () => {
    const backend = await rawBackend((socket) => void socket.write("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok"));
    const result = await probe(check(backend.port, { kind: "http_body", body: "ok", timeoutMs: 200 }));
    expect(result).toMatchObject({ ok: false, reason: "no answer within 200 ms" });
  });
  test("a regular expression that backtracks for ever is stopped", async () => {
    expect(await body("^(a+)+$", `${"a".repeat(60)}b`)).toMatchObject({ ok: false, reason: "the body could not be matched within 50 ms" });
  });
  test("twenty of them hold nobody up but each other", async () => {
    const port = await web(`${"a".repeat(60)}b`);
    // Turns of this thread from the first verdict to the last: were it the one that matches, there would be one or two for each. Between any two there
    // may be none, when a busy machine lets this thread wait for longer than a match takes.
    let turns = 0;
    const turn = () => {
      turns++;
      counting = setImmediate(turn);
    };
    let counting = setImmediate(turn);
    const at: number[] = [];
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        expect(await probe(check(port, { kind: "http_body", body: "^(a+)+$" }))).toMatchObject({
          ok: false,
          reason: expect.stringContaining("50 ms"),
        });
        at.push(turns);
      }),
    );
    clearImmediate(counting);
    expect((at.at(-1) ?? 0) - (at[0] ?? 0)).toBeGreaterThan(20 * at.length);
  });
  test("one that is slow on many texts lets another have its turn after one of them", async () => {
    const own = openMatcher();
    const order: string[] = [];
    const asked = (source: string) => own.match(source, `${"a".repeat(60)}b`).then(() => order.push(source));
    await Promise.all([...Array.from({ length: 5 }, () => asked("^(a+)+$")), asked("b$"), asked("b$")]);
    expect(order.slice(0, 4)).toEqual(["^(a+)+$", "b$", "^(a+)+$", "b$"]);
    await own.close();
  });
  test("a thread that is gone is a reason, and closing ends what waits", async () => {
    const own = openMatcher();
    const first = own.match("^(a+)+$", `${"a".repeat(60)}b`);
    const second = own.match("a", "a");
    await own.close();
    expect(await first).toMatchObject({ ok: false, reason: expect.stringContaining("lost") });
    expect(await second).toMatchObject({ ok: false });
    expect(await own.match("a", "a")).toEqual({ ok: false, reason: "the check was stopped" });
  });
  test("an invalid one is a reason", async () => {
    expect(await body("(", "x")).toMatchObject({ ok: false, reason: expect.stringMatching(/^invalid regular expression/) });
  });
  test("what it matched is not kept, and it cannot reach out of its box", async () => {
    expect(await body("x", "x")).toMatchObject({ ok: true });
    expect(await body("x", "y")).toMatchObject({ ok: false });
  });
});

test("checks that follow each other have nothing of each other, however one ended", async () => {
  const good = await web("hi");
  const silent = await rawBackend(() => undefined);
  const late = await rawBackend((socket) => void socket.write(`HTTP/1.1 200 OK\r\nContent-Length: 9000000\r\n\r\n${"x".repeat(9_000_000)}`));
  const broken = await rawBackend((socket) => void socket.end("HTTP/1.1 2"));
  const interim = await rawBackend((socket) => void socket.write("HTTP/1.1 103 Early Hints\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n"));
  const refused = await refusedPort();
  const kinds: ReadonlyArray<readonly [ProbeSpec, boolean, string]> = [
    [check(good, { path: "/200" }), true, "answered 200"],
    [check(good, { path: "/503" }), false, "answered 503"],
    [check(good, { kind: "connection" }), true, "connected"],
    [check(late.port), true, "answered 200"],
    [check(broken.port), false, "connection closed without an answer"],
    [check(interim.port), true, "answered 204"],
    [check(refused), false, "connection refused"],
    [check(refused, { kind: "connection" }), false, "connection refused"],
    [check(silent.port, { timeoutMs: 20 }), false, "no answer within 20 ms"],
  ];
  // Each kind after each other one, and after itself.
  for (const [first] of kinds) {
    for (const [second, ok, reason] of kinds) {
      await probe(first);
      expect(await probe(second)).toMatchObject({ ok, reason });
    }
  }
  await until(() => silent.open.size + late.open.size + broken.open.size + interim.open.size === 0);
});

test("a stopped probe is a failed one, and its connection is gone", async () => {
  const backend = await rawBackend(() => undefined);
  const running = start(check(backend.port));
  await until(() => backend.open.size === 1);
  running.stop();
  expect(await running.result).toMatchObject({ ok: false, reason: "the check was stopped" });
  expect(running.stopped).toBe(true);
  await until(() => backend.open.size === 0);
});
