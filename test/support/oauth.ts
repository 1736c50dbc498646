import { createHash, randomBytes } from "node:crypto";
import { type IncomingHttpHeaders, request } from "node:http";
import type { Json, TestCloud } from "./cloud.js";

export interface Page {
  status: number;
  headers: IncomingHttpHeaders;
  text: string;
}

const exchange = (url: string, method: string, path: string, headers: Record<string, string>, body?: string): Promise<Page> =>
  new Promise((resolve, reject) => {
    const outgoing = request(url, { method, path, agent: false, headers }, (incoming) => {
      const chunks: Buffer[] = [];
      incoming.on("data", (chunk: Buffer) => chunks.push(chunk));
      incoming.on("error", reject);
      incoming.on("end", () => resolve({ status: incoming.statusCode ?? 0, headers: incoming.headers, text: Buffer.concat(chunks).toString() }));
    });
    outgoing.on("error", reject);
    outgoing.end(body);
  });

const formHeaders = { "Content-Type": "application/x-www-form-urlencoded" };

/** POST of a form without a cookie, as an application does. */
export const postForm = async (
  url: string,
  path: string,
  form: Record<string, string> | string,
  headers: Record<string, string> = {},
): Promise<{ status: number; headers: IncomingHttpHeaders; body: Json }> => {
  const body = typeof form === "string" ? form : new URLSearchParams(form).toString();
  const page = await exchange(url, "POST", path, { ...formHeaders, ...headers }, body);
  return { status: page.status, headers: page.headers, body: page.text === "" ? undefined : JSON.parse(page.text) };
};

const unescaped = (text: string): string => text.replaceAll("&quot;", '"').replaceAll("&#39;", "'").replaceAll("&lt;", "<").replaceAll("&amp;", "&");

/** The hidden members of a page's first form. */
export const hiddenOf = (text: string): Record<string, string> =>
  Object.fromEntries(
    [...text.slice(0, text.indexOf("</form>")).matchAll(/<input type="hidden" name="([^"]*)" value="([^"]*)">/g)].map((match) => [
      match[1] ?? "",
      unescaped(match[2] ?? ""),
    ]),
  );

/** A person's browser, as far as cookies and forms go. It follows no redirect by itself. */
export class Visitor {
  readonly url: string;
  cookie: string | undefined;

  constructor(url: string) {
    this.url = url;
  }

  #headers(): Record<string, string> {
    return this.cookie === undefined ? {} : { Cookie: this.cookie };
  }

  async #visit(method: string, path: string, headers: Record<string, string>, body?: string): Promise<Page> {
    const page = await exchange(this.url, method, path, { ...this.#headers(), ...headers }, body);
    const set = page.headers["set-cookie"]?.[0];
    if (set !== undefined) this.cookie = set.split(";")[0];
    return page;
  }

  get(path: string): Promise<Page> {
    return this.#visit("GET", path, {});
  }

  post(path: string, form: Record<string, string>, headers: Record<string, string> = {}): Promise<Page> {
    return this.#visit("POST", path, { ...formHeaders, Origin: this.url, ...headers }, new URLSearchParams(form).toString());
  }

  /** Fills in the form of a page that was got and sends it. */
  send(page: Page, path: string, members: Record<string, string>): Promise<Page> {
    return this.post(path, { ...hiddenOf(page.text), ...members });
  }

  /** Goes to the page that asks for consent, logging in on the way. */
  async consentPage(query: Record<string, string>, login: { username: string; password: string }): Promise<Page> {
    const path = `/oauth/authorize?${new URLSearchParams(query)}`;
    const first = await this.get(path);
    if (!first.text.includes('name="password"')) return first;
    const answer = await this.send(first, "/oauth/authorize/login", login);
    if (answer.status !== 303) throw new Error(`login: ${answer.status} ${answer.text}`);
    return this.get(answer.headers.location ?? "");
  }

  /** All the way to the redirect: where the application is told to go on. */
  async allow(query: Record<string, string>, login: { username: string; password: string }): Promise<URL> {
    const answer = await this.send(await this.consentPage(query, login), "/oauth/authorize", { decision: "allow" });
    if (answer.status !== 303) throw new Error(`consent: ${answer.status} ${answer.text}`);
    return new URL(answer.headers.location ?? "");
  }
}

/** RFC 7636: a secret and what is sent of it beforehand. */
export const pkce = (): { verifier: string; challenge: string } => {
  const verifier = randomBytes(32).toString("base64url");
  return { verifier, challenge: createHash("sha256").update(verifier).digest("base64url") };
};

export const redirectUri = "http://127.0.0.1:9/callback";

export const makeClient = async (cloud: TestCloud, more: object = {}): Promise<Json> => {
  const { status, body } = await cloud.api.post("/v4/account/oauth-clients", { label: "Stage door", redirect_uri: redirectUri, ...more });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

/** Consent and exchange in one go: the answer of `/oauth/token`. A visitor who is logged in already need not do so again. */
export const tokensOf = async (
  cloud: TestCloud,
  client: Json,
  login: { username: string; password: string },
  scope = "*",
  visitor = new Visitor(cloud.url),
): Promise<Json> => {
  const query = { client_id: client.id, response_type: "code", redirect_uri: client.redirect_uri, scope, state: "s" };
  const code = (await visitor.allow(query, login)).searchParams.get("code") ?? "";
  const { status, body } = await postForm(cloud.url, "/oauth/token", {
    grant_type: "authorization_code",
    code,
    client_id: client.id,
    client_secret: client.secret,
    redirect_uri: client.redirect_uri,
  });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};
