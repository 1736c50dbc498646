import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { apiOf, type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { hiddenOf, makeClient, type Page, pkce, postForm, redirectUri, tokensOf, Visitor } from "../support/oauth.js";
import { makeUser, password } from "./identity.js";

let cloud: TestCloud;
let login: { username: string; password: string };
/** Logged in once for all: a password costs a fifth of a second to check, which is its point. */
let visitor: Visitor;
beforeAll(async () => {
  cloud = await startCloud();
  login = { username: (await makeUser(cloud, { restricted: false })).username, password };
  visitor = new Visitor(cloud.url);
});
afterAll(() => cloud.close());

const queryOf = (client: Json, more: Record<string, string> = {}): Record<string, string> => ({
  client_id: client.id,
  response_type: "code",
  redirect_uri: client.redirect_uri,
  scope: "balancers:read_only",
  state: "curtain",
  ...more,
});
const allowed = (client: Json, scope = "*"): Promise<Json> => tokensOf(cloud, client, login, scope, visitor);
const codeFor = async (client: Json, more: Record<string, string> = {}): Promise<string> =>
  (await visitor.allow(queryOf(client, more), login)).searchParams.get("code") ?? "";
const exchangeForm = (client: Json, code: string, more: Record<string, string> = {}): Record<string, string> => ({
  grant_type: "authorization_code",
  code,
  client_id: client.id,
  client_secret: client.secret,
  redirect_uri: client.redirect_uri,
  ...more,
});
const exchange = (form: Record<string, string> | string, headers?: Record<string, string>) => postForm(cloud.url, "/oauth/token", form, headers);
const statusWith = async (token: string, path = "/v4/balancers"): Promise<number> => (await apiOf(cloud.url, token).get(path)).status;

describe("a confidential client (contract 4.4)", () => {
  it("consent, code, token: and the token does what was allowed and no more", async () => {
    const client = await makeClient(cloud);
    const to = await visitor.allow(queryOf(client), login);
    expect(`${to.origin}${to.pathname}`).toBe(redirectUri);
    expect([...to.searchParams.keys()].sort()).toEqual(["code", "state"]);
    expect(to.searchParams.get("state")).toBe("curtain");
    const { status, headers, body } = await exchange(exchangeForm(client, to.searchParams.get("code") ?? ""));
    expect(status).toBe(200);
    expect(headers["content-type"]).toBe("application/json");
    expect(headers["cache-control"]).toBe("no-store");
    expect(body).toEqual({
      access_token: expect.stringMatching(/^[0-9a-f]{64}$/),
      refresh_token: expect.stringMatching(/^[0-9a-f]{64}$/),
      token_type: "bearer",
      expires_in: 7200,
      scope: "balancers:read_only",
      scopes: "balancers:read_only",
    });
    const api = apiOf(cloud.url, body.access_token);
    expect((await api.get("/v4/profile")).body.username).toBe(login.username);
    const list = await api.get("/v4/balancers");
    expect(list.status).toBe(200);
    expect(list.headers["x-oauth-scopes"]).toBe("balancers:read_only");
    expect((await api.post("/v4/balancers", {})).status).toBe(401);
    expect((await api.get("/v4/volumes")).status).not.toBe(200);
    expect((await api.get("/v4/profile/tokens")).status).toBe(401);
    expect(await statusWith(body.refresh_token)).toBe(401);
  });

  it("Basic authentication, no grant_type and no redirect_uri are taken too; `scopes` and commas as old clients write them", async () => {
    const client = await makeClient(cloud);
    const { scope: _, ...query } = queryOf(client, { scopes: "linodes:read_only,volumes:read_only" });
    const to = await visitor.allow(query, login);
    const basic = `Basic ${Buffer.from(`${client.id}:${client.secret}`).toString("base64")}`;
    const { status, body } = await exchange({ code: to.searchParams.get("code") ?? "" }, { Authorization: basic });
    expect(status).toBe(200);
    expect(body.scopes).toBe("linodes:read_only volumes:read_only");
    expect(await statusWith(body.access_token, "/v4/cloud/instances")).toBe(200);
  });

  it("a code works once; the second use ends what the first one gave", async () => {
    const client = await makeClient(cloud);
    const code = await codeFor(client);
    const { body } = await exchange(exchangeForm(client, code));
    expect(await statusWith(body.access_token)).toBe(200);
    const again = await exchange(exchangeForm(client, code));
    expect(again.status).toBe(400);
    expect(again.body).toEqual({ error: "invalid_grant", error_description: expect.any(String), errors: [{ reason: expect.any(String) }] });
    expect(await statusWith(body.access_token)).toBe(401);
    expect((await exchange({ ...exchangeForm(client, ""), grant_type: "refresh_token", refresh_token: body.refresh_token })).status).toBe(400);
  });

  it("of two exchanges of one code at once, one succeeds", async () => {
    const client = await makeClient(cloud);
    const code = await codeFor(client);
    const answers = await Promise.all([exchange(exchangeForm(client, code)), exchange(exchangeForm(client, code))]);
    expect(answers.filter(({ status }) => status === 200).length).toBeLessThanOrEqual(1);
  });

  it.each([
    ["a wrong secret", { client_secret: "0".repeat(64) }, "invalid_client"],
    ["no secret", { client_secret: "" }, "invalid_client"],
    ["no secret but a verifier", { client_secret: "", code_verifier: "v".repeat(43) }, "invalid_client"],
    ["another redirect_uri", { redirect_uri: `${redirectUri}/elsewhere` }, "invalid_request"],
    ["a code that was never given", { code: "0".repeat(40) }, "invalid_grant"],
    ["a verifier nobody asked for", { code_verifier: "v".repeat(43) }, "invalid_grant"],
    ["another grant type", { grant_type: "password" }, "unauthorized_client"],
    ["an inherited name as the grant type", { grant_type: "constructor" }, "unsupported_grant_type"],
    ["the client credentials grant", { grant_type: "client_credentials" }, "unauthorized_client"],
  ])("%s is refused", async (_, wrong, error) => {
    const client = await makeClient(cloud);
    const { status, body } = await exchange(exchangeForm(client, await codeFor(client), wrong));
    expect([400, 401]).toContain(status);
    expect(body.error).toBe(error);
    expect(JSON.stringify(body)).not.toContain("access_token");
  });

  it("another client's code is no use, and stays good for its own", async () => {
    const [client, thief] = [await makeClient(cloud), await makeClient(cloud)];
    const code = await codeFor(client);
    expect((await exchange(exchangeForm(thief, code))).body.error).toBe("invalid_grant");
    expect((await exchange(exchangeForm(client, code))).status).toBe(200);
  });

  it("JSON, an empty body and a member given twice are told what is wrong", async () => {
    const client = await makeClient(cloud);
    expect((await exchange(JSON.stringify(exchangeForm(client, "x")), { "Content-Type": "application/json" })).body.error).toBe("invalid_request");
    expect((await exchange("")).body.error).toBe("invalid_request");
    expect((await exchange("code=a&code=b")).body.error_description).toContain("code");
    expect((await exchange({ client_id: client.id })).status).toBe(400);
  });
});

describe("refresh", () => {
  const refresh = (client: Json, token: string, more: Record<string, string> = {}) =>
    exchange({ grant_type: "refresh_token", refresh_token: token, client_id: client.id, client_secret: client.secret, ...more });

  it("gives a new pair; the old access and refresh tokens end", async () => {
    const client = await makeClient(cloud);
    const first = await allowed(client, "balancers:read_only");
    const { status, body: second } = await refresh(client, first.refresh_token);
    expect(status).toBe(200);
    expect(second.scope).toBe("balancers:read_only");
    expect(await statusWith(first.access_token)).toBe(401);
    expect(await statusWith(second.access_token)).toBe(200);
    expect(second.refresh_token).not.toBe(first.refresh_token);
  });

  it("a refresh token used twice ends the whole family: one of the two was a thief", async () => {
    const client = await makeClient(cloud);
    const first = await allowed(client);
    const second = (await refresh(client, first.refresh_token)).body;
    const again = await refresh(client, first.refresh_token);
    expect(again.body.error).toBe("invalid_grant");
    expect(await statusWith(second.access_token)).toBe(401);
    expect((await refresh(client, second.refresh_token)).body.error).toBe("invalid_grant");
  });

  it("may ask for less, and never for more", async () => {
    const client = await makeClient(cloud);
    const first = await allowed(client, "balancers:read_write volumes:read_only");
    expect((await refresh(client, first.refresh_token, { scope: "*" })).body.error).toBe("invalid_scope");
    expect((await refresh(client, first.refresh_token, { scope: "volumes:read_write" })).body.error).toBe("invalid_scope");
    const less = (await refresh(client, first.refresh_token, { scope: "balancers:read_only" })).body;
    expect(less.scope).toBe("balancers:read_only");
    expect((await apiOf(cloud.url, less.access_token).post("/v4/balancers", {})).status).toBe(401);
    const whole = (await refresh(client, less.refresh_token)).body;
    expect(whole.scope).toBe("balancers:read_write volumes:read_only");
  });

  it("another client cannot use it, and does not end it by trying", async () => {
    const [client, thief] = [await makeClient(cloud), await makeClient(cloud)];
    const { refresh_token } = await allowed(client);
    expect((await refresh(thief, refresh_token)).body.error).toBe("invalid_grant");
    expect((await refresh(client, refresh_token)).status).toBe(200);
  });

  it("without the secret there is none", async () => {
    const client = await makeClient(cloud);
    const { refresh_token } = await allowed(client);
    expect((await refresh(client, refresh_token, { client_secret: "" })).body.error).toBe("invalid_client");
    expect((await refresh({ ...client, secret: "f".repeat(64) }, refresh_token)).body.error).toBe("invalid_client");
  });
});

describe("a public client", () => {
  const publicClient = () => makeClient(cloud, { public: true });

  it("proves with PKCE that it asked; it gets no refresh token", async () => {
    const client = await publicClient();
    const { verifier, challenge } = pkce();
    const code = await codeFor(client, { code_challenge: challenge, code_challenge_method: "S256" });
    const { client_secret: _, ...form } = exchangeForm(client, code, { code_verifier: verifier });
    const { status, body } = await exchange(form);
    expect(status).toBe(200);
    expect(body.refresh_token).toBeUndefined();
    expect(body.expires_in).toBe(7200);
    expect(await statusWith(body.access_token)).toBe(200);
  });

  it.each([
    ["a wrong verifier", "w".repeat(43), "invalid_grant"],
    ["a short verifier", "short", "invalid_request"],
  ])("%s spoils the code, so that nobody guesses on", async (_, wrong, error) => {
    const client = await publicClient();
    const { verifier, challenge } = pkce();
    const code = await codeFor(client, { code_challenge: challenge, code_challenge_method: "S256" });
    const { client_secret: __, ...form } = exchangeForm(client, code);
    expect((await exchange({ ...form, code_verifier: wrong })).body.error).toBe(error);
    expect((await exchange({ ...form, code_verifier: verifier })).body.error).toBe("invalid_grant");
  });

  it("no verifier, or a made-up secret, gets nothing", async () => {
    const client = await publicClient();
    const { verifier, challenge } = pkce();
    const code = await codeFor(client, { code_challenge: challenge, code_challenge_method: "S256" });
    const { client_secret: _, ...form } = exchangeForm(client, code);
    expect((await exchange(form)).status).toBeGreaterThanOrEqual(400);
    expect((await exchange({ ...form, client_secret: "guess", code_verifier: verifier })).body.error).toBe("invalid_client");
    expect((await exchange({ ...form, code_verifier: verifier })).status).toBe(200);
  });

  it.each([
    ["no challenge", {}],
    ["a plain one", { code_challenge: "p".repeat(43), code_challenge_method: "plain" }],
    ["one without its method", { code_challenge: "p".repeat(43) }],
    ["one that is no SHA-256", { code_challenge: "short", code_challenge_method: "S256" }],
  ])("%s is sent back before anybody logs in", async (_, more) => {
    const page = await new Visitor(cloud.url).get(`/oauth/authorize?${new URLSearchParams(queryOf(await publicClient(), more))}`);
    expect(page.status).toBe(303);
    expect(new URL(page.headers.location ?? "").searchParams.get("error")).toBe("invalid_request");
  });
});

describe("what /oauth/authorize refuses", () => {
  const ask = (query: Record<string, string> | string): Promise<Page> =>
    new Visitor(cloud.url).get(`/oauth/authorize?${typeof query === "string" ? query : new URLSearchParams(query)}`);

  it("an unknown client and a redirect URI that is not exactly the registered one: on a page, and nobody is sent anywhere", async () => {
    const client = await makeClient(cloud, { redirect_uri: "https://app.example.com/callback" });
    const wrong = [
      "https://app.example.com/callback/more",
      "https://app.example.com/callback?x=1",
      "https://app.example.com/",
      "https://app.example.com.evil.test/callback",
      "HTTPS://app.example.com/callback",
      "https://app.example.com/callback/../callback",
    ].map((uri) => queryOf(client, { redirect_uri: uri }));
    for (const query of [...wrong, queryOf(client, { client_id: "0".repeat(20) }), queryOf(client, { client_id: "" })]) {
      const page = await ask(query);
      expect(page.status).toBe(400);
      expect(page.headers.location).toBeUndefined();
      expect(page.text).toContain("cannot go on");
    }
    const twice = `${new URLSearchParams(queryOf(client))}&redirect_uri=https://evil.test/`;
    expect((await ask(twice)).status).toBe(400);
  });

  it.each([
    ["the implicit flow", { response_type: "token" }, "unsupported_response_type"],
    ["an unknown response type", { response_type: "id_token" }, "unsupported_response_type"],
    ["an unknown scope", { scope: "stage:read_only" }, "invalid_scope"],
    ["no scope", { scope: "" }, "invalid_scope"],
  ])("%s: the application is told, with its state", async (_, more, error) => {
    const client = await makeClient(cloud, { redirect_uri: "https://app.example.com/callback?keep=1" });
    const page = await ask(queryOf(client, more));
    expect(page.status).toBe(303);
    const to = new URL(page.headers.location ?? "");
    expect(to.origin).toBe("https://app.example.com");
    expect(Object.fromEntries(to.searchParams)).toMatchObject({ keep: "1", error, state: "curtain" });
  });

  it("a user who says no: access_denied, and no code", async () => {
    const client = await makeClient(cloud);
    const answer = await visitor.send(await visitor.consentPage(queryOf(client), login), "/oauth/authorize", { decision: "deny" });
    const to = new URL(answer.headers.location ?? "");
    expect(Object.fromEntries(to.searchParams)).toEqual({ error: "access_denied", error_description: expect.any(String), state: "curtain" });
  });

  it("what an application calls itself is text, never markup", async () => {
    const client = await makeClient(cloud, { label: `<script>alert(1)</script>"'&` });
    const page = await ask(queryOf(client, { state: '"><script>' }));
    expect(page.text).not.toContain("<script");
    expect(page.text).toContain("&lt;script&gt;alert(1)");
  });
});

describe("the pages", () => {
  it("carry no script, may not be framed, and their forms lead home or to the application only", async () => {
    const client = await makeClient(cloud);
    const page = await visitor.consentPage(queryOf(client), login);
    expect(page.headers["content-type"]).toBe("text/html; charset=utf-8");
    expect(page.headers["cache-control"]).toBe("no-store");
    expect(page.headers["x-frame-options"]).toBe("DENY");
    expect(page.headers["access-control-allow-origin"]).toBeUndefined();
    const policy = page.headers["content-security-policy"] ?? "";
    expect(policy).toMatch(/^default-src 'none'; style-src 'sha256-/);
    expect(policy).toContain("form-action 'self' http://127.0.0.1:9;");
    expect(policy).toContain("frame-ancestors 'none'");
    expect(page.text).not.toMatch(/<script|javascript:| on\w+=/i);
  });

  it("the cookie is for HTTP and these pages alone, and is another after the login", async () => {
    const client = await makeClient(cloud);
    const newcomer = new Visitor(cloud.url);
    const first = await newcomer.get(`/oauth/authorize?${new URLSearchParams(queryOf(client))}`);
    const before = newcomer.cookie;
    expect(first.headers["set-cookie"]?.[0]).toMatch(/^backlot_session_\d+=[0-9a-f]{64}; Path=\/oauth\/authorize; HttpOnly; SameSite=Lax$/);
    await newcomer.send(first, "/oauth/authorize/login", login);
    expect(newcomer.cookie).not.toBe(before);
    const planted = new Visitor(cloud.url);
    planted.cookie = before;
    expect((await planted.get(`/oauth/authorize?${new URLSearchParams(queryOf(client))}`)).text).toContain('name="password"');
  });

  it("a form from elsewhere does nothing: no token, another's token, another port of this machine, another site", async () => {
    const client = await makeClient(cloud);
    const page = await visitor.consentPage(queryOf(client), login);
    const form = { ...hiddenOf(page.text), decision: "allow" };
    const other = await new Visitor(cloud.url).get(`/oauth/authorize?${new URLSearchParams(queryOf(client))}`);
    const tries: Array<[Record<string, string>, Record<string, string>]> = [
      [{ ...form, form_token: "" }, {}],
      [{ ...form, form_token: hiddenOf(other.text).form_token ?? "" }, {}],
      [form, { Origin: "http://localhost:3000" }],
      [form, { Origin: "null" }],
      [form, { Origin: "https://evil.test" }],
      [form, { "Sec-Fetch-Site": "same-site" }],
      [form, { "Sec-Fetch-Site": "cross-site" }],
    ];
    for (const [members, headers] of tries) {
      const answer = await visitor.post("/oauth/authorize", members, headers);
      expect(answer.status).toBe(403);
      expect(answer.headers.location).toBeUndefined();
    }
    const answer = await visitor.post("/oauth/authorize", form);
    expect(new URL(answer.headers.location ?? "").searchParams.get("code")).toMatch(/^[0-9a-f]{40}$/);
  });

  it("the wrong verb is 405, an unknown path 404, both in JSON", async () => {
    expect((await postForm(cloud.url, "/oauth/nothing", "a=1")).status).toBe(404);
    const answer = await cloud.api.get("/oauth/token");
    expect(answer.status).toBe(405);
    expect(answer.headers.allow).toBe("POST, OPTIONS");
  });
});

describe("the end of tokens", () => {
  it.each(["/oauth/token/expire", "/oauth/revoke"])("%s ends both tokens, with either of them; only for their own client", async (path) => {
    const [client, other] = [await makeClient(cloud), await makeClient(cloud)];
    for (const which of ["access_token", "refresh_token"]) {
      const tokens = await allowed(client);
      const form = (by: Json) => ({ client_id: by.id, client_secret: by.secret, token: tokens[which] });
      expect((await postForm(cloud.url, path, form(other))).status).toBe(200);
      expect(await statusWith(tokens.access_token)).toBe(200);
      expect((await postForm(cloud.url, path, { ...form(client), client_secret: "wrong" })).status).toBe(401);
      expect((await postForm(cloud.url, path, form(client))).body).toEqual({});
      expect(await statusWith(tokens.access_token)).toBe(401);
      expect((await postForm(cloud.url, path, form(client))).status).toBe(200);
    }
  });

  it("/v4/profile/apps shows what was allowed to the one who allowed it; deleting it ends both tokens", async () => {
    const client = await makeClient(cloud, { label: "Prompter", redirect_uri: "https://prompter.example.com/back" });
    const tokens = await allowed(client, "account:read_write");
    const api = apiOf(cloud.url, tokens.access_token);
    const { data } = (await api.get("/v4/profile/apps")).body;
    const app = data.find((entry: Json) => entry.label === "Prompter");
    expect(app).toMatchObject({ scopes: "account:read_write", website: "https://prompter.example.com", thumbnail_url: null });
    expect((await cloud.api.get(`/v4/profile/apps/${app.id}`)).status).toBe(404);
    expect((await cloud.api.del(`/v4/profile/apps/${app.id}`)).status).toBe(404);
    expect((await api.get(`/v4/profile/apps/${app.id}`)).body).toEqual(app);
    expect((await api.del(`/v4/profile/apps/${app.id}`)).status).toBe(200);
    expect(await statusWith(tokens.access_token, "/v4/profile")).toBe(401);
    const form = { grant_type: "refresh_token", refresh_token: tokens.refresh_token, client_id: client.id, client_secret: client.secret };
    expect((await exchange(form)).body.error).toBe("invalid_grant");
  });

  it("a new secret ends the old one at once; deleting the client ends its tokens", async () => {
    const client = await makeClient(cloud);
    const tokens = await allowed(client);
    const { body } = await cloud.api.post(`/v4/account/oauth-clients/${client.id}/reset-secret`);
    expect(body.secret).toMatch(/^[0-9a-f]{64}$/);
    expect((await exchange(exchangeForm(client, await codeFor(client)))).body.error).toBe("invalid_client");
    expect((await exchange(exchangeForm(body, await codeFor(client)))).status).toBe(200);
    await cloud.api.del(`/v4/account/oauth-clients/${client.id}`);
    expect(await statusWith(tokens.access_token)).toBe(401);
  });

  it("a deleted user's tokens end", async () => {
    const leaver = await makeUser(cloud);
    const client = await makeClient(cloud);
    const tokens = await tokensOf(cloud, client, { username: leaver.username, password });
    expect(await statusWith(tokens.access_token)).toBe(200);
    await cloud.api.del(`/v4/account/users/${leaver.username}`);
    expect(await statusWith(tokens.access_token)).toBe(401);
  });
});
