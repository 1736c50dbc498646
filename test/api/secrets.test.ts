import { chmodSync, mkdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type Json, startCloud, type TestCloud } from "../support/cloud.js";
import { leaks, type SecretAccount, walkSecretAccount } from "../support/secrets.js";

let account: SecretAccount | undefined;
let cloud: TestCloud;
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(async () => {
  account?.remove();
  await cloud.close();
});

it("no secret of an account shows in an answer, a log, the state, a command line or an environment", async () => {
  account = await walkSecretAccount("process");
  await account.stop();
  expect(account.secrets.size).toBeGreaterThan(15);
  // What was looked at is there: an empty place hides everything.
  expect(account.heard.get("log")).toMatch(/"msg":"serving"/);
  expect([...account.heard.keys()].filter((place) => place.endsWith("state.json after the stop"))).toHaveLength(1);
  expect([...account.heard.keys()].some((place) => place.endsWith("/cmdline"))).toBe(true);
  const onOldKeys = [...account.heard].filter(([place]) => place.includes("?api_key="));
  expect(onOldKeys.map(([, text]) => text.includes("Credentials in the query string"))).toEqual([true, true]);
  expect(leaks(account)).toEqual([]);
});

it.each([
  ["/v4/profile/tokens", ["token", "hash"]],
  ["/v4/account/oauth-clients", ["secret", "secret_hash"]],
  ["/v4/account/users", ["password", "password_hash", "two_factor"]],
  ["/v4/cloud/instances", ["root_pass", "root_pass_hash", "script_data", "authorized_keys"]],
  ["/v4/balancers/1/configs", ["ssl_key", "ssl_cert"]],
])("X-Filter on %s does not see %j", async (path, names) => {
  if (path.includes("balancers")) await cloud.api.post("/v4/balancers", { region: "us-east", label: "filtered" });
  for (const name of names) {
    for (const filter of [{ [name]: "a" }, { [name]: { "+contains": "a" } }, { "+order_by": name }, { "+or": [{ [name]: null }] }] as Json[]) {
      const { status, body } = await cloud.api.get(path, { "X-Filter": JSON.stringify(filter) });
      expect([status, body.errors?.[0]?.field], `${path} ${name}`).toEqual([400, "X-Filter"]);
    }
  }
});

it("a state folder that was opened to others, and what a crash left in it, are for their owner only after the next start", async () => {
  const first = await startCloud();
  await first.close({ keepState: true });
  // As a copy of it may be: with the folders of machines, and the word for `backlot stop` of one that was killed.
  for (const name of ["machines", "disks", "images", "volumes"]) mkdirSync(join(first.state, name), { recursive: true });
  const running = join(first.state, "running.json");
  writeFileSync(running, "{}");
  chmodSync(running, 0o644);
  chmodSync(first.state, 0o755);
  const again = await startCloud({ state: first.state });
  try {
    expect([statSync(first.state).mode & 0o777, statSync(running).mode & 0o777]).toEqual([0o700, 0o600]);
  } finally {
    await again.close();
  }
});
