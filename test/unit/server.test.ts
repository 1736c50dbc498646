import { connect, type Socket } from "node:net";
import { afterEach, describe, expect, test } from "vitest";
import { type ApiServer, openServer } from "#backlot/http/server.js";
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

describe("bounds", () => {
  const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

  test.each([
    ["says nothing", ""],
    ["stops in its head", "GET / HTTP/1.1\r\nHo"],
    ["stops in its body", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nno more"],
  ])("a client that %s is told 408 and let go", async (_what, words) => {
    const server = await opened({ headMs: 200, requestMs: 200 });
    server.serve((request, response) => void request.resume().on("end", () => response.end()));
    expect(await heardOf(server.port, words)).toMatch(/^HTTP\/1\.1 408 Request Timeout\r\n[\s\S]*"reason"/);
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
