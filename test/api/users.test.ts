import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiOf, send, startCloud, type TestCloud } from "../support/cloud.js";
import { makeClient, tokensOf } from "../support/oauth.js";
import { until } from "../support/until.js";
import { makeToken, makeUser, password } from "./identity.js";
import { eventsOf, fieldsOf, selfNaming } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

describe("users (contract 14.5)", () => {
  it("an account starts with one who may do everything, and whose token the start printed", async () => {
    const { body } = await cloud.api.get("/v4/account/users");
    expect(body.results).toBe(1);
    expect(body.data[0]).toMatchObject({ username: "backlot", restricted: false, user_type: "default", tfa_enabled: false, password_created: null });
    expect((await cloud.api.get("/v4/profile")).body).toMatchObject({ uid: 1, username: "backlot", restricted: false });
  });

  it("are created, restricted unless said otherwise, read, renamed and deleted, each with its event", async () => {
    const { body, status } = await cloud.api.post("/v4/account/users", { username: "grip-1", email: "grip@example.com" });
    expect(status).toBe(200);
    expect(body).toEqual({
      username: "grip-1",
      email: "grip@example.com",
      restricted: true,
      ssh_keys: [],
      tfa_enabled: false,
      verified_phone_number: null,
      password_created: null,
      last_login: null,
      user_type: "default",
    });
    expect((await cloud.api.get("/v4/account/users/grip-1")).body).toEqual(body);
    const put = await cloud.api.put("/v4/account/users/grip-1", { username: "grip-2", restricted: false });
    expect(put.body).toMatchObject({ username: "grip-2", email: "grip@example.com", restricted: false });
    expect((await cloud.api.get("/v4/account/users/grip-1")).status).toBe(404);
    expect((await cloud.api.del("/v4/account/users/grip-2")).body).toEqual({});
    expect((await cloud.api.get("/v4/account/users/grip-2")).status).toBe(404);
    expect((await eventsOf(cloud, "user", "grip-1")).map(({ action }) => action)).toEqual(["user_create"]);
    expect((await eventsOf(cloud, "user", "grip-2")).map(({ action }) => action)).toEqual(["user_delete", "user_update"]);
    expect((await eventsOf(cloud, "user", "grip-2"))[0]).toMatchObject({
      username: "backlot",
      entity: { id: "grip-2", label: "grip-2", type: "user", url: "/v4/account/users/grip-2" },
    });
  });

  it("every fault at once", async () => {
    const { status, body } = await cloud.api.post("/v4/account/users", { username: "a--b", email: "nowhere", restricted: "no", password: "short" });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["email", "password", "restricted", "username"]);
    expect(selfNaming(body)).toEqual([]);
    expect(fieldsOf((await cloud.api.post("/v4/account/users", {})).body)).toEqual(["email", "username"]);
    const taken = (await cloud.api.post("/v4/account/users", { username: "BACKLOT", email: "also wrong" })).body;
    expect(fieldsOf(taken)).toEqual(["email", "username"]);
  });

  it("one keeps one's tokens when one is renamed, and loses them when one is deleted", async () => {
    const { username } = await makeUser(cloud);
    const api = apiOf(cloud.url, cloud.token);
    const { body } = await api.put("/v4/account/users/backlot", { username: "manager" });
    expect(body.username).toBe("manager");
    expect((await cloud.api.get("/v4/profile")).body.username).toBe("manager");
    expect((await cloud.api.put("/v4/account/users/manager", { username: "backlot" })).status).toBe(200);
    expect((await cloud.api.del(`/v4/account/users/${username}`)).status).toBe(200);
  });

  it("nobody deletes themselves, and the last unrestricted one stays unrestricted", async () => {
    expect((await cloud.api.del("/v4/account/users/backlot")).status).toBe(400);
    const last = await cloud.api.put("/v4/account/users/backlot", { restricted: true });
    expect(last.status).toBe(400);
    expect(fieldsOf(last.body)).toEqual(["restricted"]);
    expect((await cloud.api.get("/v4/account/users/nobody-here")).body).toEqual({ errors: [{ reason: "Not found" }] });
  });

  it("a password is never shown; when it was set is", async () => {
    const { username, password_created, ...rest } = await makeUser(cloud);
    expect(password_created).toMatch(/^\d{4}-\d\d-\d\dT/);
    expect(JSON.stringify(rest)).not.toContain("assword");
    const changed = await cloud.api.put(`/v4/account/users/${username}`, { password: "Another-one-for-the-road-9" });
    expect(JSON.stringify(changed.body)).not.toContain("road");
  });
});

describe("personal access tokens (contract 4.3)", () => {
  it("are whole once, and then their first 16 characters", async () => {
    const { body } = await cloud.api.post("/v4/profile/tokens", { label: "ci", scopes: "volumes:read_only" });
    expect(body).toEqual({
      id: expect.any(Number),
      label: "ci",
      scopes: "volumes:read_only",
      created: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/),
      expiry: null,
      token: expect.stringMatching(/^[0-9a-f]{64}$/),
    });
    const short = { ...body, token: body.token.slice(0, 16) };
    expect((await cloud.api.get(`/v4/profile/tokens/${body.id}`)).body).toEqual(short);
    expect((await cloud.api.get("/v4/profile/tokens")).body.data).toContainEqual(short);
    const renamed = await cloud.api.put(`/v4/profile/tokens/${body.id}`, { label: "cd", scopes: "*", expiry: "2099-01-01T00:00:00" });
    expect(renamed.body).toEqual({ ...short, label: "cd" });
    expect((await cloud.api.del(`/v4/profile/tokens/${body.id}`)).body).toEqual({});
    expect((await send(cloud.url, "GET", "/v4/profile", { Authorization: `Bearer ${body.token}` })).status).toBe(401);
    const actions = (await eventsOf(cloud, "token", body.id)).map(({ action }) => action);
    expect(actions).toEqual(["token_delete", "token_update", "token_create"]);
  });

  it("may not exceed the token that asks; `*` or nothing means the same as that one", async () => {
    const api = apiOf(cloud.url, await makeToken(cloud.api, "account:read_write balancers:read_only"));
    for (const scopes of ["balancers:read_write", "volumes:read_only", "account:read_only linodes:read_only"]) {
      const { status, body } = await api.post("/v4/profile/tokens", { scopes });
      expect(status, scopes).toBe(400);
      expect(fieldsOf(body)).toEqual(["scopes"]);
    }
    for (const scopes of [undefined, null, "*"]) {
      expect((await api.post("/v4/profile/tokens", { scopes })).body.scopes).toBe("account:read_write balancers:read_only");
    }
    expect((await api.post("/v4/profile/tokens", { scopes: "nodebalancers:view,account:read_only" })).status).toBe(200);
    expect((await cloud.api.post("/v4/profile/tokens", {})).body.scopes).toBe("*");
  });

  it("expire", async () => {
    const soon = new Date(Math.ceil(Date.now() / 1000) * 1000 + 2_000).toISOString().slice(0, 19);
    const token = await makeToken(cloud.api, "*", { expiry: soon });
    const api = apiOf(cloud.url, token);
    expect((await api.get("/v4/profile")).status).toBe(200);
    const answer = await until(async () => {
      const refused = await api.get("/v4/profile");
      return refused.status === 401 && refused;
    });
    expect(answer.body).toEqual({ errors: [{ reason: "Invalid Token" }] });
    expect(answer.headers["x-oauth-scopes"]).toBe("unknown");
  });

  it.each([
    [{ label: "" }, ["label"]],
    [{ label: "x".repeat(101) }, ["label"]],
    [{ scopes: "stage:read_only" }, ["scopes"]],
    [{ scopes: "volumes" }, ["scopes"]],
    [{ scopes: "volumes:read_only:read_write" }, ["scopes"]],
    [{ scopes: "constructor:read_only __proto__:read_only" }, ["scopes", "scopes"]],
    [{ scopes: 7, expiry: 7, label: 7 }, ["expiry", "label", "scopes"]],
    [{ expiry: "2001-01-01T00:00:00" }, ["expiry"]],
    [{ expiry: "tomorrow" }, ["expiry"]],
    [{ expiry: "2099-13-01T00:00:00", scopes: "x" }, ["expiry", "scopes"]],
  ])("%j is refused", async (body, fields) => {
    const answer = await cloud.api.post("/v4/profile/tokens", body);
    expect(answer.status).toBe(400);
    expect(fieldsOf(answer.body)).toEqual(fields);
  });

  it("are one's own: another user's are not found", async () => {
    const { body } = await cloud.api.post("/v4/profile/tokens", {});
    const { username } = await makeUser(cloud, { restricted: false });
    const { access_token } = await tokensOf(cloud, await makeClient(cloud), { username, password });
    const other = apiOf(cloud.url, access_token);
    expect((await other.get("/v4/profile/tokens")).body.results).toBe(0);
    for (const verb of ["get", "del"] as const) expect((await other[verb](`/v4/profile/tokens/${body.id}`)).status).toBe(404);
    expect((await other.put(`/v4/profile/tokens/${body.id}`, { label: "mine now" })).status).toBe(404);
  });
});
