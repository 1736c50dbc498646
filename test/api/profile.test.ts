import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { send, startCloud, type TestCloud } from "../support/cloud.js";
import { makeClient } from "../support/oauth.js";
import { createInstance, eventsOf, fieldsOf } from "./world.js";

let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

const key = (name: string): string => `ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBacklotBacklotBacklotBacklotBacklotBackl0t ${name}`;

describe("profile (contract 14.7)", () => {
  it("shows every member, and changes what may change", async () => {
    const before = (await cloud.api.get("/v4/profile")).body;
    expect(before).toMatchObject({ timezone: "GMT", lish_auth_method: "password_keys", authorized_keys: null, authentication_type: "password" });
    expect(before.referrals).toEqual({ code: "", url: "", total: 0, completed: 0, pending: 0, credit: 0 });
    const change = { email: "new@example.com", timezone: "Europe/Oslo", email_notifications: false, authorized_keys: [key("a")] };
    const after = (await cloud.api.put("/v4/profile", { ...before, ...change })).body;
    expect(after).toEqual({ ...before, ...change });
    expect((await cloud.api.put("/v4/profile", { authorized_keys: null })).body.authorized_keys).toBeNull();
    expect((await eventsOf(cloud, "profile", before.uid))[0]).toMatchObject({ action: "profile_update", entity: { url: "/v4/profile" } });
  });

  it("every fault at once", async () => {
    const wrong = { email: "x", timezone: "Mars/Olympus", email_notifications: 1, lish_auth_method: "shout", authorized_keys: ["nonsense"] };
    const { status, body } = await cloud.api.put("/v4/profile", wrong);
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["authorized_keys[0]", "email", "email_notifications", "lish_auth_method", "timezone"]);
  });

  it("preferences are the user's own JSON, spelled as they left it", async () => {
    expect((await cloud.api.get("/v4/profile/preferences")).body).toEqual({});
    const own = { camelCase: { snake_case: [1, null, { "with space": "linode" }] }, linode_id: 1, constructor: "x" };
    expect((await cloud.api.put("/v4/profile/preferences", own)).body).toEqual(own);
    expect((await cloud.api.get("/v4/profile/preferences")).body).toEqual(own);
    expect((await cloud.api.put("/v4/profile/preferences", { much: "x".repeat(70_000) })).status).toBe(400);
    expect((await cloud.api.put("/v4/profile/preferences", {})).body).toEqual({});
  });

  it("what cannot be real here says so: telephone and security questions; devices are none", async () => {
    for (const path of ["phone-number", "phone-number/verify", "security-questions"]) {
      const { status, body } = await cloud.api.post(`/v4/profile/${path}`, {});
      expect(status, path).toBe(400);
      expect(body.errors[0].reason, path).toMatch(/Backlot/);
    }
    expect((await cloud.api.get("/v4/profile/devices")).body.results).toBe(0);
    expect((await cloud.api.get("/v4/profile/devices/1")).status).toBe(404);
  });
});

describe("public keys", () => {
  it("are kept, renamed, shown with the user and forgotten, each with its event", async () => {
    const { body } = await cloud.api.post("/v4/profile/sshkeys", { label: "laptop", ssh_key: key("me@laptop") });
    expect(body).toEqual({ id: expect.any(Number), label: "laptop", ssh_key: key("me@laptop"), created: expect.any(String) });
    expect((await cloud.api.put(`/v4/profile/sshkeys/${body.id}`, { label: "desk", ssh_key: key("other") })).body).toEqual({
      ...body,
      label: "desk",
    });
    expect((await cloud.api.get("/v4/account/users/backlot")).body.ssh_keys).toEqual(["desk"]);
    const found = await cloud.api.get("/v4/profile/sshkeys", { "X-Filter": '{"label":"desk"}' });
    expect(found.body.data).toEqual([{ ...body, label: "desk" }]);
    expect((await cloud.api.del(`/v4/profile/sshkeys/${body.id}`)).body).toEqual({});
    expect((await cloud.api.get(`/v4/profile/sshkeys/${body.id}`)).status).toBe(404);
    expect((await eventsOf(cloud, "user_ssh_key", body.id)).map(({ action }) => action)).toEqual([
      "user_ssh_key_delete",
      "user_ssh_key_update",
      "user_ssh_key_add",
    ]);
    expect(fieldsOf((await cloud.api.post("/v4/profile/sshkeys", { label: "", ssh_key: "-----BEGIN" })).body)).toEqual(["label", "ssh_key"]);
  });

  it("an instance that names a user gets that user's keys", async () => {
    await cloud.api.post("/v4/profile/sshkeys", { label: "laptop", ssh_key: key("deployed") });
    const nobody = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12", root_pass: "Curtain-7-Call", authorized_users: ["nobody"] };
    const refused = await cloud.api.post("/v4/cloud/instances", nobody);
    expect(fieldsOf(refused.body)).toEqual(["authorized_users[0]"]);
    await createInstance(cloud, { booted: false, authorized_users: ["backlot"] });
    const journals = readdirSync(cloud.state).filter((name) => name.startsWith("journal."));
    const stored = journals.flatMap((name) => readFileSync(join(cloud.state, name), "utf8").split("\n"));
    expect(stored.some((line) => line.includes("rootPassHash") && line.includes(key("deployed")))).toBe(true);
  });
});

describe("OAuth clients (contract 4.5)", () => {
  const png = Buffer.concat([Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]), Buffer.from("a picture, as far as we can tell")]);
  const picture = (id: string, body: Buffer, type = "image/png") =>
    send(cloud.url, "PUT", `/v4/account/oauth-clients/${id}/thumbnail`, { Authorization: `Bearer ${cloud.token}`, "Content-Type": type }, body);

  it("are registered, read, changed and removed, each with its event; the secret shows once", async () => {
    const client = await makeClient(cloud, { label: "Prompter" });
    expect(client).toEqual({
      id: expect.stringMatching(/^[0-9a-f]{20}$/),
      label: "Prompter",
      redirect_uri: "http://127.0.0.1:9/callback",
      public: false,
      secret: expect.stringMatching(/^[0-9a-f]{64}$/),
      status: "active",
      thumbnail_url: null,
    });
    const path = `/v4/account/oauth-clients/${client.id}`;
    const shown = { ...client, secret: "<REDACTED>" };
    expect((await cloud.api.get(path)).body).toEqual(shown);
    const changed = await cloud.api.put(path, { label: "Souffleur", public: true, redirect_uri: "com.example.app:/back" });
    expect(changed.body).toEqual({ ...shown, label: "Souffleur", redirect_uri: "com.example.app:/back" });
    expect((await cloud.api.post(`${path}/reset-secret`)).body.secret).toMatch(/^[0-9a-f]{64}$/);
    expect((await cloud.api.del(path)).body).toEqual({});
    expect((await cloud.api.get(path)).status).toBe(404);
    expect((await eventsOf(cloud, "oauth_client", client.id)).map(({ action }) => action)).toEqual([
      "oauth_client_delete",
      "oauth_client_secret_reset",
      "oauth_client_update",
      "oauth_client_create",
    ]);
  });

  it("a public one has no secret", async () => {
    const client = await makeClient(cloud, { public: true });
    expect(client).toMatchObject({ public: true, secret: "<REDACTED>" });
    expect((await cloud.api.post(`/v4/account/oauth-clients/${client.id}/reset-secret`)).status).toBe(400);
  });

  it.each([
    "javascript:alert(1)",
    "data:text/html,x",
    "/callback",
    "https://",
    "https://app.example.com/#part",
    "https://me:secret@app.example.com/",
    "https://app.example.com/a b",
    `https://app.example.com/${"x".repeat(2_000)}`,
    7,
  ])("%s is no place to be sent back to", async (redirect_uri) => {
    const { status, body } = await cloud.api.post("/v4/account/oauth-clients", { label: "x", redirect_uri });
    expect(status).toBe(400);
    expect(fieldsOf(body)).toEqual(["redirect_uri"]);
  });

  it("have a picture, which everybody may see", async () => {
    const { id } = await makeClient(cloud);
    const path = `/v4/account/oauth-clients/${id}/thumbnail`;
    expect((await send(cloud.url, "GET", path, {})).status).toBe(404);
    expect((await picture(id, Buffer.from("GIF89a"))).status).toBe(400);
    expect((await picture(id, png, "image/gif")).status).toBe(415);
    expect((await picture(id, Buffer.concat([png, Buffer.alloc(300 * 1024)]))).status).toBe(400);
    expect((await picture(id, png)).body).toEqual({});
    expect((await cloud.api.get(`/v4/account/oauth-clients/${id}`)).body.thumbnail_url).toBe(path);
    const answer = await fetch(cloud.url + path);
    expect(answer.headers.get("content-type")).toBe("image/png");
    expect(Buffer.from(await answer.arrayBuffer()).equals(png)).toBe(true);
  });
});
