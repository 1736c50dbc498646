import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { send, startCloud, type TestCloud } from "../support/cloud.js";
import { freshLabel, placeOf, rawExchange, readRaw } from "./world.js";

let cloud: TestCloud;
let limited: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
  limited = await startCloud({ rateLimit: true, speed: 1 });
});
afterAll(async () => {
  await cloud.close();
  await limited.close();
});

describe("headers that every answer has (contract 7.1)", () => {
  const wanted = [
    "x-request-id",
    "x-spec-version",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "retry-after",
    "content-type",
    "content-security-policy",
    "x-content-type-options",
    "x-frame-options",
  ];

  it.each([
    ["GET", "/v4/regions", 200],
    ["HEAD", "/v4/regions", 200],
    ["OPTIONS", "/v4/regions", 200],
    ["GET", "/v4/balancers/999", 404],
    ["GET", "/nowhere", 404],
    ["DELETE", "/v4/regions", 405],
    ["POST", "/v4/balancers", 400],
  ])("%s %s", async (method, path, status) => {
    const answer = await send(cloud.url, method, path, { Authorization: `Bearer ${cloud.token}` });
    expect(answer.status).toBe(status);
    for (const name of wanted) expect(answer.headers[name], name).toBeDefined();
    expect(answer.headers["content-type"]).toBe("application/json");
    expect(answer.headers["retry-after"]).toBe("0");
    expect(answer.headers["x-request-id"]).toMatch(/^[0-9a-f-]{36}$/);
    if (method === "HEAD") expect(answer.body).toBeUndefined();
  });

  it.each([
    "nonsense\r\n\r\n",
    "CONNECT a:1 HTTP/1.1\r\nHost: localhost\r\n\r\n",
    "GET / HTTP/1.1\r\nHost: localhost\r\nExpect: x\r\nConnection: close\r\n\r\n",
  ])("bytes that never reach the application: %j", async (bytes) => {
    const ids = [];
    for (let count = 0; count < 2; count += 1) ids.push(readRaw(await rawExchange(placeOf(cloud.url), bytes)).headers.get("x-request-id"));
    expect(ids[0]).toMatch(/^[0-9a-f-]{36}$/);
    expect(ids[1]).not.toBe(ids[0]);
  });

  it("a 401 says what it wants (RFC 6750 section 3), and nothing else does", async () => {
    const challengeOf = async (headers: Record<string, string>) =>
      (await send(cloud.url, "GET", "/v4/balancers", headers)).headers["www-authenticate"];
    expect(await challengeOf({})).toBe('Bearer realm="Backlot"');
    expect(await challengeOf({ Authorization: "Bearer wrong" })).toBe('Bearer realm="Backlot", error="invalid_token"');
    expect(await challengeOf({ Authorization: `Bearer ${cloud.token}` })).toBeUndefined();
  });
});

describe("--rate-limit (contract 7.2)", () => {
  const ask = (body: object, headers = { Authorization: `Bearer ${limited.token}` }) =>
    send(limited.url, "POST", "/v4/cloud/instances", headers, body);

  it("counts down, refuses with 429, says when to come back, and lets everything else through", async () => {
    const first = await ask({});
    expect(first.status).toBe(400);
    expect([first.headers["x-ratelimit-limit"], first.headers["x-ratelimit-remaining"]]).toEqual(["20", "19"]);
    for (let count = 0; count < 19; count += 1) expect((await ask({})).status).toBe(400);
    const refused = await ask({ region: "us-east", type: "g6-nanode-1" });
    expect([refused.status, refused.body]).toEqual([429, { errors: [{ reason: "Too many requests" }] }]);
    expect(refused.headers["x-ratelimit-remaining"]).toBe("0");
    const waitS = Number(refused.headers["retry-after"]);
    expect(waitS).toBeGreaterThan(0);
    expect(waitS).toBeLessThanOrEqual(15);
    expect(Number(refused.headers["x-ratelimit-reset"])).toBeGreaterThan(Date.now() / 1000 - 1);
    expect((await limited.api.get("/v4/cloud/instances")).body.results).toBe(0);
    expect((await limited.api.post("/v4/balancers", { region: "us-east", label: freshLabel() })).status).toBe(200);
    expect((await limited.api.post("/v4/linode/instances", {})).status).toBe(429);
  });

  it("public paths count by address", async () => {
    const images = () => send(limited.url, "GET", "/v4/images", {});
    for (let count = 0; count < 20; count += 1) expect((await images()).status).toBe(200);
    expect((await images()).status).toBe(429);
    expect((await limited.api.get("/v4/images")).status).toBe(200);
  });
});

describe("null is absent (contract, decision 8)", () => {
  it("inside members too", async () => {
    const { status, body } = await cloud.api.post("/v4/cloud/instances", {
      region: "us-east",
      type: "g6-nanode-1",
      tags: null,
      root_pass: null,
      script_id: null,
      authorized_keys: null,
      backups: { schedule: { day: null, window: null } },
      alerts: { cpu: 50, io: null },
    });
    expect([status, body.alerts.cpu, body.alerts.io]).toEqual([200, 50, 10_000]);
    const put = await cloud.api.put(`/v4/cloud/instances/${body.id}`, { backups: { schedule: null }, tags: null, watchdog_enabled: null });
    expect([put.status, put.body.watchdog_enabled]).toEqual([200, true]);
  });

  it("but a required member that is null is missing, nested or not", async () => {
    const { status, body } = await cloud.api.post("/v4/networking/ips/assign", {
      region: null,
      assignments: [{ address: null, cloud_id: null }],
    });
    expect(status).toBe(400);
    expect(body.errors.map((error: { field: string }) => error.field).sort()).toEqual([
      "assignments[0].address",
      "assignments[0].cloud_id",
      "region",
    ]);
    for (const error of body.errors) expect(error.reason).toBe("A value is required.");
  });
});
