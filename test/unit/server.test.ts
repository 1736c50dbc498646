import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { defaultLimits as balancerLimits } from "#backlot/balancer/limits.js";
import { type ApiServer, defaultLimits, openServer } from "#backlot/http/server.js";
import { heldOn } from "../support/connections.js";
import { until } from "../support/until.js";

const servers: ApiServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const opened = async (limits: Parameters<typeof openServer>[2] = {}): Promise<ApiServer> => {
  const server = await openServer("127.0.0.1", 0, limits);
  servers.push(server);
  return server;
};

/** Says something and resolves with the connection when an answer began. */
const asked = (port: number, words: string): Promise<{ socket: Socket; heard: string }> =>
  new Promise((resolve, reject) => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true }, () => socket.write(words));
    socket.once("data", (chunk) => resolve({ socket, heard: String(chunk) }));
    socket.on("error", reject);
  });

test("until it serves, every request is answered 503 in JSON", async () => {
  const server = await opened();
  const before = await fetch(server.url);
  expect([before.status, before.headers.get("content-type")]).toEqual([503, "application/json"]);
  expect(await before.json()).toEqual({ errors: [{ reason: "Backlot is starting." }] });
  server.serve((_request, response) => response.end("now"));
  expect(await (await fetch(server.url)).text()).toBe("now");
});

test("a CONNECT client that stays does not keep the server from closing, and one that resets ends nothing", async () => {
  const server = await opened();
  const words = "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n";
  const resetting = await asked(server.port, words);
  expect(resetting.heard).toMatch(/^HTTP\/1\.1 405 /);
  resetting.socket.resetAndDestroy();
  // Gone before it is answered: the answer's own write fails.
  for (let count = 0; count < 5; count += 1)
    await new Promise<void>((resolve) => {
      const socket = connect({ port: server.port, host: "127.0.0.1" }, () => socket.write(words, () => socket.resetAndDestroy()));
      socket.on("error", () => undefined).on("close", () => resolve());
    });
  const staying = await asked(server.port, words);
  const gone = new Promise((resolve) => staying.socket.once("end", resolve));
  await server.close();
  await gone;
  staying.socket.destroy();
  await expect(fetch(server.url)).rejects.toThrow();
});

/** Says something, reads on, and resolves with all that was heard when the connection is gone. */
const heardOf = (port: number, words: string): Promise<string> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1" }, () => socket.write(words));
    let heard = "";
    socket.on("data", (bytes) => {
      heard += bytes.toString("latin1");
    });
    socket.on("error", () => undefined);
    socket.on("close", () => resolve(heard));
  });

test("the bounds in force are those that docs/reliability.md tells", () => {
  const s = (ms: number): string => `${ms / 1000} s`;
  const [api, balancer] = [defaultLimits, balancerLimits];
  const told = [
    `a request's head ${s(api.headMs)} at the API and ${s(balancer.headMs)} at a balancer`,
    `a TLS handshake ${s(balancer.handshakeMs)}`,
    `a whole request ${s(api.requestMs)} at the API`,
    `the next bytes of a body ${s(balancer.bodyMs)} at a balancer`,
    `an answer that is not taken ${s(api.readMs)} at the API and ${s(balancer.readMs)} at a balancer`,
  ];
  const text = readFileSync(new URL("../../docs/reliability.md", import.meta.url), "utf8").replaceAll("\n", " ");
  expect(text).toContain(`Bounds, in real time: ${told.join(", ")}.`);
});

describe("bounds", () => {
  const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

  test.each([
    ["says nothing", "", { headMs: 200 }],
    ["stops in its head", "GET / HTTP/1.1\r\nHo", { headMs: 200 }],
    // Node has no bound on a head that is longer than the one on a request.
    ["stops in its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nno more", { headMs: 200, requestMs: 200 }],
  ])("a client that %s is told 408 and let go", async (_what, words, limits) => {
    const server = await opened(limits);
    server.serve((request, response) => void request.resume().on("end", () => response.end()));
    expect(await heardOf(server.port, words)).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*"reason"/);
  });

  test.each([
    ["says nothing", "", 408],
    ["stops in its head", "GET / HTTP/1.1\r\nHo", 408],
    ["stops in its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nno more", 408],
    ["expects what nobody knows", "GET / HTTP/1.1\r\nHost: a\r\nExpect: wonders\r\n\r\n", 417],
    ["says what is no HTTP", "\0\r\n\r\n", 400],
    ["asks for a tunnel", "CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n", 405],
  ])("a client that %s, is told so and stays, is let go", async (_what, words, status) => {
    const server = await opened({ headMs: 200, requestMs: 200 });
    server.serve((request, response) => void request.resume().on("end", () => response.end()));
    const { socket, heard } = await asked(server.port, words);
    expect(heard).toContain(`HTTP/1.1 ${status} `);
    await until(() => heldOn(server.port) === 0);
    socket.destroy();
  });

  test("a client that takes nothing of its answer is cut off, one that waits for an answer is not", async () => {
    const server = await opened({ readMs: 200 });
    let answerLater = (): void => {};
    server.serve((request, response) => {
      if (request.url === "/big") response.end(Buffer.alloc(64_000_000));
      else answerLater = () => response.end("late");
    });
    const late = heardOf(server.port, "GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    const reader = connect({ port: server.port, host: "127.0.0.1" }).on("error", () => undefined);
    reader.pause();
    const closed = new Promise((resolve) => reader.once("close", resolve));
    reader.write("GET /big HTTP/1.1\r\nHost: a\r\n\r\n");
    // A paused socket hears of the end only by writing.
    const writing = setInterval(() => reader.write(GET), 20);
    await closed;
    clearInterval(writing);
    answerLater();
    expect(await late).toMatch(/late$/);
  });

  test("a pipeline is answered in turn, the next request once the one before is over, and no further than 33 ahead", async () => {
    const server = await opened();
    let [open, most, count] = [0, 0, 0];
    server.serve((_request, response) => {
      open += 1;
      most = Math.max(most, open);
      const said = `<${count++}>`;
      setImmediate(() => {
        open -= 1;
        response.end(said);
      });
    });
    const heard = await heardOf(server.port, GET.repeat(500));
    expect(most).toBe(1);
    expect([...heard.matchAll(/<(\d+)>/g)].map(([, number]) => Number(number))).toEqual(Array.from({ length: 33 }, (_, index) => index));
  });

  test("connections beyond the bound are told so, those within it are served, and their end makes room", async () => {
    const server = await opened({ connections: 2 });
    server.serve((_request, response) => response.end("served"));
    const held = [await asked(server.port, GET), await asked(server.port, GET)];
    for (const { heard } of held) expect(heard).toMatch(/served$/);
    expect(await heardOf(server.port, GET)).toMatch(/^HTTP\/1\.1 503 [\s\S]*as many as there may be/);
    const gone = new Promise((resolve) => held[0]?.socket.once("close", resolve));
    held[0]?.socket.destroy();
    await gone;
    await until(async () => (await heardOf(server.port, `${GET.slice(0, -2)}Connection: close\r\n\r\n`)).endsWith("served"));
    held[1]?.socket.destroy();
  });
});
