import { type ChildProcess, spawn } from "node:child_process";
import { readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import type { Config } from "#backlot/index.js";
import { makePair } from "../balancer/support.js";
import { type Answer, type Json, send, testConfig } from "./cloud.js";
import { type Page, postForm, Visitor } from "./oauth.js";
import { until } from "./until.js";

interface Secret {
  value: string;
  /** Calls whose answer hands it over, once, to who asked. */
  handedOverBy: readonly string[];
  /** The state needs it as it is: a hash would not serve. */
  kept: boolean;
}

/** A whole account whose secrets are told apart from everything else. */
export interface SecretAccount {
  owner: string;
  secrets: Map<string, Secret>;
  /** Everything that was heard, by where. */
  heard: Map<string, string>;
  /** Stops it with its machines; the logs are whole then. */
  stop(): Promise<void>;
  /** Removes the state. */
  remove(): void;
}

const texts = (folder: string): Array<[string, string]> =>
  readdirSync(folder, { recursive: true, encoding: "utf8" }).flatMap((name): Array<[string, string]> => {
    const path = join(folder, name);
    return statSync(path, { throwIfNoEntry: false })?.isFile() ? [[path, readFileSync(path, "latin1")]] : [];
  });

/** Command lines and environments of every process that may be read. */
const processTexts = (): Array<[string, string]> =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
    .flatMap((pid) =>
      ["cmdline", "environ"].flatMap((file): Array<[string, string]> => {
        try {
          return [[`/proc/${pid}/${file}`, readFileSync(`/proc/${pid}/${file}`, "latin1").replaceAll("\0", " ")]];
        } catch {
          return []; // it ended, or is not ours to read
        }
      }),
    );

/** The spellings in which a secret would still be one. */
const spellings = (value: string): string[] => [
  value,
  encodeURIComponent(value),
  JSON.stringify(value).slice(1, -1),
  Buffer.from(value).toString("base64").replace(/=+$/, ""),
];

/** Where a secret shows though it must not; each a line. */
export const leaks = ({ secrets, heard }: SecretAccount): string[] =>
  [...secrets].flatMap(([name, { value, handedOverBy, kept }]) =>
    [...heard].flatMap(([place, text]) => {
      if (kept && place.startsWith("state ")) return [];
      if (handedOverBy.some((call) => place.startsWith(`answer ${call}`))) return [];
      return spellings(value).some((spelling) => text.includes(spelling)) ? [`${name} shows in ${place}`] : [];
    }),
  );

const startChild = async (config: Config, log: (text: string) => void): Promise<{ child: ChildProcess; url: string; token: string }> => {
  const path = fileURLToPath(new URL("../api/restart-child.mjs", import.meta.url));
  const child = spawn(process.execPath, [path], { stdio: ["pipe", "pipe", "pipe"] });
  // A test that fails or takes too long leaves before it has stopped it.
  process.once("exit", () => child.kill("SIGKILL"));
  child.stderr?.on("data", (bytes) => log(String(bytes)));
  child.stdin?.end(JSON.stringify(config));
  for await (const line of createInterface({ input: child.stdout ?? process.stdin })) return { ...JSON.parse(line), child };
  throw new Error(`the child ended with ${child.exitCode}`);
};

/**
 * Runs through an account on a Backlot of its own that logs all it can: users, tokens, OAuth, second factor, instances, certificates, and
 * mistakes with each of them. `look` is asked what else can be seen of it while its machines run.
 */
export const walkSecretAccount = async (
  runtime: Config["runtime"],
  look: (owner: string) => Promise<Array<[string, string]>> = async () => [],
): Promise<SecretAccount> => {
  const config = await testConfig({ runtime, logLevel: "debug" });
  const heard = new Map<string, string>();
  const secrets = new Map<string, Secret>();
  let log = "";
  const { child, url, token } = await startChild(config, (text) => {
    log += text;
  });
  const keep = (name: string, value: string, handedOverBy: readonly string[] = [], kept = false): string => {
    secrets.set(name, { value, handedOverBy, kept });
    return value;
  };
  const hear = (call: string, answer: Answer | Page): void => {
    const body = "text" in answer ? answer.text : JSON.stringify(answer.body);
    heard.set(`answer ${call} (${heard.size})`, `${JSON.stringify(answer.headers)}\n${body}`);
  };
  const ask = async (method: string, path: string, body?: unknown, more: Record<string, string> = {}): Promise<Answer> => {
    const answer = await send(url, method, path, { Authorization: `Bearer ${token}`, ...more }, body);
    hear(`${method} ${path}`, answer);
    return answer;
  };
  const made = async (path: string, body: unknown): Promise<Json> => {
    const { status, body: answer } = await ask("POST", path, body);
    if (status !== 200) throw new Error(`${path}: ${JSON.stringify(answer)}`);
    return answer;
  };
  keep("the start's token", token);
  const { owner } = (await ask("GET", "/_backlot/health")).body;

  // People, tokens, applications.
  const password = keep("a password", "Trapdoor-Velvet-81");
  await made("/v4/account/users", { username: "prompter", email: "prompter@example.com", restricted: false, password });
  await ask("POST", "/v4/account/users", { username: "x", email: "no", password: keep("a password beside mistakes", "Gallery-Ladder-27") });
  keep("a token", (await made("/v4/profile/tokens", { label: "limelight" })).token, ["POST /v4/profile/tokens"]);
  keep("a second factor's key", (await made("/v4/profile/tfa-enable", {})).secret, ["POST /v4/profile/tfa-enable"], true);
  const redirect = "http://127.0.0.1:9/callback";
  const client = await made("/v4/account/oauth-clients", { label: "usher", redirect_uri: redirect });
  keep("a client's secret", client.secret, ["POST /v4/account/oauth-clients"]);
  const visitor = new Visitor(url);
  const query = { client_id: client.id, response_type: "code", redirect_uri: redirect, scope: "*", state: "s" };
  const first = await visitor.get(`/oauth/authorize?${new URLSearchParams(query)}`);
  const wrong = { username: "prompter", password: keep("a wrong password", "Curtain-Pulley-44") };
  hear("login", await visitor.send(first, "/oauth/authorize/login", wrong));
  const consent = await visitor.consentPage(query, { username: "prompter", password });
  hear("consent", consent);
  const allowed = await visitor.send(consent, "/oauth/authorize", { decision: "allow" });
  hear("redirect", allowed);
  const code = keep("a code", new URL(allowed.headers.location ?? "").searchParams.get("code") ?? "", ["redirect"]);
  const form = { grant_type: "authorization_code", code, client_id: client.id, redirect_uri: redirect };
  const guessed = await postForm(url, "/oauth/token", { ...form, client_secret: keep("a wrong secret", "5e1f".repeat(16)) });
  hear("wrong secret", guessed);
  const granted = await postForm(url, "/oauth/token", { ...form, client_secret: client.secret });
  hear("grant", granted);
  keep("an access token", granted.body.access_token, ["grant"]);
  keep("a refresh token", granted.body.refresh_token, ["grant"]);
  await ask("GET", "/v4/profile", undefined, { Authorization: `Bearer ${keep("a token nobody has", "Orchestra-Pit-Token-90")}` });
  // As version 3 was told who asks; where nobody need say it, and where somebody must.
  const oldKey = keep("a key of version 3", "Backdrop-Key-73");
  await ask("GET", `/v4/regions?api_key=${oldKey}`);
  hear(`GET /v4/profile?api_key=${oldKey}`, await send(url, "GET", `/v4/profile?api_key=${oldKey}`, {}));

  // Instances.
  const place = { region: "us-east", type: "g6-nanode-1", image: "cloud/debian12" };
  const instance = await made("/v4/cloud/instances", { ...place, label: "stage", root_pass: keep("a root password", "Rigging-Sandbag-58") });
  const path = `/v4/cloud/instances/${instance.id}`;
  const statusIs = (wanted: string) =>
    until(async () => (await send(url, "GET", path, { Authorization: `Bearer ${token}` })).body.status === wanted, {
      withinMs: 60_000,
      what: wanted,
    });
  await statusIs("running");
  await ask("POST", "/v4/cloud/instances", { ...place, label: "weak", root_pass: keep("a weak root password", "footlightsandfogmachines") });
  await ask("POST", "/v4/cloud/instances", `{"label":"broken","root_pass":${keep("a root password in broken JSON", "Sk8-Fly")}}`);
  for (const [where, text] of processTexts()) heard.set(where, text);
  for (const [where, text] of await look(owner)) heard.set(where, text);
  await ask("POST", `${path}/shutdown`, {});
  await statusIs("offline");
  await ask("POST", `${path}/password`, { root_pass: keep("a new root password", "Winch-Counterweight-36") });
  const events = () => send(url, "GET", "/v4/account/events", { Authorization: `Bearer ${token}` });
  const isReset = ({ action, status }: Json): boolean => action === "password_reset" && status === "finished";
  await until(async () => (await events()).body.data.some(isReset), { withinMs: 60_000, what: "the new password" });
  await made(`${path}/rebuild`, { image: "cloud/debian12", root_pass: keep("a rebuilt root password", "Scrim-Cyclorama-19") });
  await statusIs("running");
  for (const [where, text] of processTexts()) heard.set(`${where} of the rebuilt one`, text);
  for (const [where, text] of await look(owner)) heard.set(`${where} of the rebuilt one`, text);

  // Certificates.
  const pair = makePair("stage.test");
  keep("a private key", pair.key.split("\n")[5] ?? "", [], true);
  const balancer = await made("/v4/balancers", { region: "us-east", label: "front" });
  const configs = `/v4/balancers/${balancer.id}/configs`;
  await made(configs, { port: 20_443, protocol: "https", ssl_cert: pair.cert, ssl_key: pair.key });
  await ask("POST", configs, { port: 20_444, protocol: "https", ssl_cert: pair.key, ssl_key: pair.cert });
  await ask("POST", configs, { port: 20_445, protocol: "https", ssl_cert: makePair("other.test").cert, ssl_key: pair.key });
  await ask("PUT", `${configs}/1`, { ssl_cert: makePair("third.test").cert, ssl_key: `${pair.key.slice(0, -200)}` });

  // All that can be asked, and filters on what cannot.
  const lists = ["account/users", "account/oauth-clients", "account/events", "account/logins", "account/notifications", "profile/tokens"];
  for (const list of [...lists, "profile/apps", "profile/logins", "cloud/instances", "balancers"]) await ask("GET", `/v4/${list}`);
  for (const one of ["profile", "account", "account/settings", path.slice(4), `${path.slice(4)}/disks`, configs.slice(4), `${configs.slice(4)}/1`])
    await ask("GET", `/v4/${one}`.replace("//", "/"));
  for (const ours of ["capabilities", "health", "stats", "costs", "dns", `instances/${instance.id}`]) await ask("GET", `/_backlot/${ours}`);

  return {
    owner,
    secrets,
    heard,
    stop: async () => {
      for (const [where, text] of texts(config.state)) heard.set(`state ${where}`, text);
      for (const { id } of (await ask("GET", "/v4/cloud/instances")).body.data) await ask("DELETE", `/v4/cloud/instances/${id}`);
      await until(async () => (await ask("GET", "/v4/cloud/instances")).body.results === 0, { withinMs: 60_000, what: "no instance" });
      const ended = new Promise((resolve) => child.once("exit", resolve));
      await ask("POST", "/_backlot/stop", {});
      await ended;
      heard.set("log", log);
      for (const [where, text] of texts(config.state)) heard.set(`state ${where} after the stop`, text);
    },
    remove: () => {
      child.kill("SIGKILL");
      rmSync(config.state, { recursive: true, force: true });
    },
  };
};
