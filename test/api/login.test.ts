import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { codeAt, stepOf } from "#backlot/resources/profile/two-factor.js";
import { apiOf, type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { makeClient, type Page, tokensOf, Visitor } from "../support/oauth.js";
import { makeToken, makeUser, password } from "./identity.js";
import { events, eventsOf } from "./world.js";

let cloud: TestCloud;
let ask: string;
beforeAll(async () => {
  cloud = await startCloud({ speed: 1 });
  const client = await makeClient(cloud);
  ask = `/oauth/authorize?${new URLSearchParams({ client_id: client.id, response_type: "code", scope: "*", state: "s" })}`;
});
afterAll(() => cloud.close());

const logIn = async (username: string, secret: string, visitor = new Visitor(cloud.url)): Promise<Page> =>
  visitor.send(await visitor.get(ask), "/oauth/authorize/login", { username, password: secret });
const loginsOf = async (username: string): Promise<Json[]> =>
  (await cloud.api.get("/v4/account/logins")).body.data.filter((entry: Json) => entry.username === username);

describe("logging in", () => {
  it("is recorded, good and bad, for the account and for oneself; the user shows the last", async () => {
    const { username } = await makeUser(cloud);
    expect((await logIn(username, "not this one")).status).toBe(401);
    expect((await logIn(username, password)).status).toBe(303);
    const logins = await loginsOf(username);
    expect(logins.map(({ status, ip, restricted }) => ({ status, ip, restricted }))).toEqual([
      { status: "successful", ip: "127.0.0.1", restricted: true },
      { status: "failed", ip: "127.0.0.1", restricted: true },
    ]);
    expect(logins[0].datetime).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d$/);
    expect((await cloud.api.get(`/v4/account/logins/${logins[0].id}`)).body).toEqual(logins[0]);
    expect((await cloud.api.get(`/v4/profile/logins/${logins[0].id}`)).status).toBe(404);
    const { last_login } = (await cloud.api.get(`/v4/account/users/${username}`)).body;
    expect(last_login).toEqual({ login_datetime: logins[0].datetime, status: "successful" });
  });

  it("a name that nobody has is answered alike, and not kept: people type passwords there", async () => {
    const { username } = await makeUser(cloud);
    const wrong = await logIn(username, "not this one");
    const nobody = await logIn("hunter2-by-mistake", "not this one");
    expect([nobody.status, nobody.text.replaceAll("hunter2-by-mistake", "")]).toEqual([
      wrong.status,
      wrong.text.replaceAll(username, "").replace(/name="form_token" value="\w+"/, /name="form_token" value="\w+"/.exec(nobody.text)?.[0] ?? ""),
    ]);
    expect(JSON.stringify((await cloud.api.get("/v4/account/logins")).body)).not.toContain("hunter2");
  });

  it("after five failures the name waits, even for the right password; others do not", async () => {
    const [slow, other] = [await makeUser(cloud), await makeUser(cloud)];
    const tries = await Promise.all(Array.from({ length: 7 }, (_, index) => logIn(slow.username, `guess number ${index}`)));
    expect(tries.map(({ status }) => status).sort()).toEqual([401, 401, 401, 401, 401, 429, 429]);
    const right = await logIn(slow.username.toUpperCase(), password);
    expect(right.status).toBe(429);
    const seconds = Number(right.headers["retry-after"]);
    expect(seconds).toBeGreaterThan(800);
    expect(seconds).toBeLessThanOrEqual(900);
    expect(right.text).toMatch(/Try again in 1[45] minutes/);
    expect((await loginsOf(slow.username)).length).toBe(5);
    expect((await logIn(other.username, password)).status).toBe(303);
  });

  it("without a password a full-rights token of one's own does, and no other; with one, none does", async () => {
    expect((await logIn("backlot", cloud.token)).status).toBe(303);
    const { username } = await makeUser(cloud, { password: undefined, restricted: false });
    expect((await logIn(username, cloud.token)).status).toBe(401);
    expect((await logIn("backlot", await makeToken(cloud.api, "account:read_write"))).status).toBe(401);
    expect((await cloud.api.put("/v4/account/users/backlot", { password })).status).toBe(200);
    expect((await logIn("backlot", cloud.token)).status).toBe(401);
    expect((await logIn("backlot", password)).status).toBe(303);
  });
});

describe("two factor authentication (RFC 6238)", () => {
  it("computes what the RFC's own table says", () => {
    const secret = "GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ"; // "12345678901234567890"
    const table: Array<[seconds: number, code: string]> = [
      [59, "287082"],
      [1111111109, "081804"],
      [1111111111, "050471"],
      [1234567890, "005924"],
      [2000000000, "279037"],
      [20000000000, "353130"],
    ];
    for (const [seconds, code] of table) expect(codeAt(secret, stepOf(seconds * 1000)), String(seconds)).toBe(code);
  });

  it("is turned on with a code, asked for at the login, used once, and turned off", async () => {
    const { username } = await makeUser(cloud, { restricted: false });
    const visitor = new Visitor(cloud.url);
    await logIn(username, password, visitor);
    const grant = (await visitor.send(await visitor.get(ask), "/oauth/authorize", { decision: "allow" })).headers.location ?? "";
    expect(grant).toContain("code=");

    const client = await makeClient(cloud);
    const api = await tokenApi(client, username);
    expect((await api.post("/v4/profile/tfa-enable-confirm", { tfa_code: "000000" })).status).toBe(400);
    const { secret } = (await api.post("/v4/profile/tfa-enable")).body;
    expect(secret).toMatch(/^[A-Z2-7]{32}$/);
    expect((await api.get("/v4/profile")).body.two_factor_auth).toBe(false);
    const now = stepOf(Date.now());
    const wrong = await api.post("/v4/profile/tfa-enable-confirm", { tfa_code: codeAt(secret, now + 100) });
    expect(wrong.body.errors[0].field).toBe("tfa_code");
    const confirmed = codeAt(secret, now);
    const { scratch } = (await api.post("/v4/profile/tfa-enable-confirm", { tfa_code: confirmed })).body;
    expect(scratch).toMatch(/^[0-9a-f]{16}$/);
    expect((await api.get("/v4/profile")).body.two_factor_auth).toBe(true);
    expect((await eventsOf(cloud, "profile", (await api.get("/v4/profile")).body.uid)).map(({ action }) => action)).toContain("tfa_enabled");

    const other = new Visitor(cloud.url);
    expect((await logIn(username, password, other)).status).toBe(303);
    const asked = await other.get(ask);
    expect(asked.text).toContain("authenticator");
    expect((await other.send(asked, "/oauth/authorize", { decision: "allow" })).headers.location).toBeUndefined();
    expect((await other.send(asked, "/oauth/authorize/code", { code: confirmed })).status).toBe(401);
    const next = codeAt(secret, now + 1);
    expect((await other.send(asked, "/oauth/authorize/code", { code: next })).status).toBe(303);
    expect((await other.get(ask)).text).toContain('value="allow"');
    expect((await loginsOf(username)).map(({ status }) => status).slice(0, 2)).toEqual(["successful", "failed"]);

    const third = new Visitor(cloud.url);
    await logIn(username, password, third);
    const again = await third.get(ask);
    expect((await third.send(again, "/oauth/authorize/code", { code: next })).status).toBe(401);
    expect((await third.send(again, "/oauth/authorize/code", { code: scratch })).status).toBe(303);
    const fourth = new Visitor(cloud.url);
    await logIn(username, password, fourth);
    expect((await fourth.send(await fourth.get(ask), "/oauth/authorize/code", { code: scratch })).status).toBe(401);

    expect((await api.post("/v4/profile/tfa-disable")).status).toBe(200);
    const last = new Visitor(cloud.url);
    await logIn(username, password, last);
    expect((await last.get(ask)).text).toContain('value="allow"');
  });

  const tokenApi = async (client: Json, username: string) => apiOf(cloud.url, (await tokensOf(cloud, client, { username, password })).access_token);
});

describe("what is kept of secrets", () => {
  it("no event and no answer shows one", async () => {
    const client = await makeClient(cloud);
    const seen = JSON.stringify([await events(cloud), await cloud.api.get("/v4/account/users"), await cloud.api.get("/v4/account/oauth-clients")]);
    for (const secret of [password, client.secret, cloud.token, "scrypt"]) expect(seen).not.toContain(secret);
  });
});
