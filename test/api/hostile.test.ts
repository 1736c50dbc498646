import { connect, type Socket } from "node:net";
import { afterAll, beforeAll, expect, it } from "vitest";
import { send, startCloud, type TestCloud } from "../support/cloud.js";
import { until } from "../support/until.js";
import { freshLabel, placeOf, rawExchange, readRaw } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

/** Clients of each bad kind, all at once. */
const CROWD = 200;

/** One more client that says `words`, and reads nothing. */
const join = (words: string): Promise<Socket> =>
  new Promise((resolve, reject) => {
    const socket = connect(placeOf(cloud.url), () => {
      socket.write(words);
      resolve(socket);
    });
    socket.once("error", reject);
    socket.pause();
  });

it("slow heads, slow bodies and slow readers, 200 of each at once, do not keep others from their answers", async () => {
  const head = `POST /v4/balancers HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer ${cloud.token}\r\n`;
  const asking = "GET /v4/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n";
  const kinds = [head.slice(0, -9), `${head}Content-Type: application/json\r\nContent-Length: 4000000\r\n\r\n{"label":`, asking.repeat(12)];
  const crowd: Socket[] = [];
  for (const words of kinds) crowd.push(...(await Promise.all(Array.from({ length: CROWD }, () => join(words)))));
  for (let turn = 0; turn < 20; turn += 1) {
    const label = freshLabel("good");
    expect((await cloud.api.post("/v4/balancers", { label, region: "us-east" })).status).toBe(200);
    expect((await cloud.api.get("/v4/balancers", { "X-Filter": JSON.stringify({ label }) })).body.results).toBe(1);
  }
  expect(crowd.filter((socket) => socket.readyState !== "open")).toEqual([]);
  for (const socket of crowd) socket.destroy();
});

it.each([
  ["objects", '{"a":'.repeat(300_000)],
  ["arrays", `{"label":${"[".repeat(2_000_000)}`],
  ["arrays, closed", `{"label":${"[".repeat(1_000_000)}${"]".repeat(1_000_000)}}`],
  ["brackets in a text that never ends", `{"label":"${"[".repeat(3_000_000)}`],
  ["a million members", `{${Array.from({ length: 300_000 }, (_, index) => `"m${index}":1`).join(",")},"label":5}`],
  ["a million elements", `{"label":"x","region":"us-east","tags":[${"0,".repeat(1_000_000)}0]}`],
])("a giant or deep body (%s) is a 400 that fits on a page", async (_what, body) => {
  const answer = await cloud.api.post("/v4/balancers", body);
  expect(answer.status).toBe(400);
  expect(JSON.stringify(answer.body).length).toBeLessThan(20_000);
});

it("whoever has no token is not read: a body of any length is refused at its head", async () => {
  const words = "POST /v4/balancers HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 900000000\r\n\r\n";
  const socket = await join(words);
  const heard = await new Promise<string>((resolve) => socket.once("data", (bytes) => resolve(String(bytes))).resume());
  expect(heard).toMatch(/^HTTP\/1\.1 401 /);
  socket.destroy();
});

it.each([
  ["one field of 100 kB", `X-Big: ${"a".repeat(100_000)}\r\n`],
  ["20,000 fields", "X-Many: 1\r\n".repeat(20_000)],
])("a header bomb (%s) is 431", async (_what, fields) => {
  const answer = readRaw(await rawExchange(placeOf(cloud.url), `GET /v4/regions HTTP/1.1\r\nHost: localhost\r\n${fields}\r\n`));
  expect(answer.status).toBe(431);
});

it("of a flood of connections no more than a thousand are kept, the rest is told so, and it passes", async () => {
  let [gone, told] = [0, 0];
  const clients = await Promise.all(
    Array.from(
      { length: 1_500 },
      () =>
        new Promise<Socket>((resolve) => {
          const socket = connect(placeOf(cloud.url), () => socket.write("GET / HTTP/1.1\r\n"));
          let heard = "";
          socket.on("data", (bytes) => {
            heard += bytes;
          });
          socket.on("error", () => undefined);
          socket.on("close", () => {
            gone += 1;
            if (/^HTTP\/1\.1 503 [\s\S]*"There are 1000 open connections/.test(heard)) told += 1;
          });
          socket.on("connect", () => resolve(socket)).on("close", () => resolve(socket));
        }),
    ),
  );
  await until(() => told > 0 && gone >= 500, { withinMs: 30_000, what: "the end of those beyond the bound" });
  for (const socket of clients) socket.destroy();
  await until(async () => (await send(cloud.url, "GET", "/v4/regions", {})).status === 200);
});
