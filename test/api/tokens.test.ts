import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { send, startCloud, type TestCloud } from "../support/cloud.js";
import { createBalancer, createInstance } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const filesIn = (folder: string): string[] =>
  readdirSync(folder, { withFileTypes: true }).flatMap((entry) =>
    entry.isDirectory() ? filesIn(join(folder, entry.name)) : [join(folder, entry.name)],
  );

describe("tokens (description 5, contract 4.1)", () => {
  it.each([
    [{}],
    [{ Authorization: "" }],
    [{ Authorization: "Bearer" }],
    [{ Authorization: "Bearer " }],
    [{ Authorization: `Bearer ${"0".repeat(64)}` }],
    [{ Authorization: "Basic YmFja2xvdDpiYWNrbG90" }],
    [{ Authorization: "Bearer a b" }],
    [{ Authorization: `Bearer ${"x".repeat(600)}` }],
    [{ "X-Api-Key": "whatever" }],
  ])("%j is 401 on everything that needs one", async (headers) => {
    for (const [method, path] of [
      ["GET", "/v4/balancers"],
      ["POST", "/v4/balancers"],
      ["PUT", "/v4/balancers/1"],
      ["DELETE", "/v4/balancers/1"],
      ["GET", "/v4/cloud/instances"],
      ["GET", "/v4/networking/ips"],
      ["GET", "/v4/account/events"],
      ["GET", "/_backlot/instances/1"],
      ["GET", "/_backlot/dial?address=1&port=1"],
      ["GET", "/_backlot/nodes/1/probes"],
      ["POST", "/_backlot/instances/1/kill"],
      ["POST", "/_backlot/stop"],
    ] as const) {
      const answer = await send(cloud.url, method, path, headers as Record<string, string>);
      expect(answer.status, path).toBe(401);
      expect(answer.headers["x-oauth-scopes"]).toBe("unknown");
      expect(answer.body).toEqual({ errors: [{ reason: "Invalid Token" }] });
    }
    expect((await cloud.api.get("/v4/balancers")).body.results).toBe(0);
  });

  it("the token itself, without its scheme, is no credential; nor is it one in the query", async () => {
    expect((await send(cloud.url, "GET", "/v4/balancers", { Authorization: cloud.token })).status).toBe(401);
    const inQuery = await send(cloud.url, "GET", `/v4/balancers?api_key=${cloud.token}`, {});
    expect(inQuery.status).toBe(401);
    expect(inQuery.headers["x-oauth-scopes"]).toBe("unknown");
    expect(inQuery.body.errors).toEqual([{ reason: expect.stringMatching(/Authorization: Bearer/), field: "api_key" }]);
    expect((await send(cloud.url, "GET", "/v4/balancers", { Authorization: `${cloud.token.slice(0, 63)}` })).status).toBe(401);
  });

  it("the scheme's case does not matter", async () => {
    const { status, headers } = await send(cloud.url, "GET", "/v4/balancers", { Authorization: `bearer ${cloud.token}` });
    expect(status).toBe(200);
    expect(headers["x-oauth-scopes"]).toBe("*");
  });

  it("a wrong token is wrong on public lists too, where none is fine", async () => {
    expect((await send(cloud.url, "GET", "/v4/regions", { Authorization: "Bearer wrong" })).status).toBe(401);
    expect((await send(cloud.url, "GET", "/v4/regions", {})).status).toBe(200);
    expect((await cloud.api.get("/v4/regions")).headers["x-oauth-scopes"]).toBe("*");
  });

  it("the token is 64 hex digits and a chosen one is taken as it is", async () => {
    expect(cloud.token).toMatch(/^[0-9a-f]{64}$/);
    const other = await startCloud({ token: "chosen-by-hand" });
    expect((await send(other.url, "GET", "/v4/balancers", { Authorization: "Bearer chosen-by-hand" })).status).toBe(200);
    expect((await send(other.url, "GET", "/v4/balancers", { Authorization: `Bearer ${cloud.token}` })).status).toBe(401);
    await other.close();
  });
});

describe("what lies on the disk", () => {
  it("holds neither the token nor a root password, in files that only their owner may read", async () => {
    const rootPass = "Limelight-4711";
    await createBalancer(cloud);
    await createInstance(cloud, { root_pass: rootPass, booted: false });
    const before = filesIn(cloud.state);
    await cloud.close({ keepState: true });
    const after = filesIn(cloud.state);
    expect(before.length).toBeGreaterThan(0);
    expect(after.length).toBeGreaterThan(0);
    for (const path of after) {
      const bytes = readFileSync(path, "latin1");
      expect(bytes.includes(cloud.token), path).toBe(false);
      expect(bytes.includes(rootPass), path).toBe(false);
      expect(statSync(path).mode & 0o077, path).toBe(0);
    }
    const hashed = after.some((path) => /[0-9a-f]{64}/.test(readFileSync(path, "latin1")));
    expect(hashed).toBe(true);
    expect(after.some((path) => readFileSync(path, "latin1").includes("$6$"))).toBe(true);

    const again = await startCloud({ state: cloud.state });
    expect((await send(again.url, "GET", "/v4/balancers", { Authorization: `Bearer ${cloud.token}` })).status).toBe(200);
    cloud = again;
  });

  it("while it runs, its files are closed to others too, and hold no token but the control token", async () => {
    for (const path of filesIn(cloud.state)) {
      expect(statSync(path).mode & 0o077, path).toBe(0);
      expect(readFileSync(path, "latin1").includes(cloud.token), path).toBe(false);
    }
  });
});
