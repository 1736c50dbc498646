import { connect, type Socket } from "node:net";
import { afterEach, expect, test } from "vitest";
import { type ApiServer, openServer } from "#backlot/http/server.js";

const servers: ApiServer[] = [];
afterEach(async () => {
  await Promise.all(servers.splice(0).map((server) => server.close()));
});

const opened = async (): Promise<ApiServer> => {
  const server = await openServer("127.0.0.1", 0);
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
