import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { absentCollections } from "#backlot/resources/absent/absent.js";
import { routes } from "#backlot/resources/index.js";
import { type Api, apiOf, send, startCloud, type TestCloud } from "../support/cloud.js";
import { call, makeToken, pathOf, routeTable, withScopes } from "./identity.js";

let cloud: TestCloud;
const apis = new Map<string, Api>();
/** One token for each set of scopes. */
const holding = async (scopes: string): Promise<Api> => {
  const known = apis.get(scopes) ?? (await withScopes(cloud, scopes));
  apis.set(scopes, known);
  return known;
};
beforeAll(async () => {
  cloud = await startCloud();
});
afterAll(() => cloud.close());

/** Contract 4.2: the word of a path's first part. */
const words: Array<[prefix: string, word: string]> = [
  ["/v4/account/events", "events"],
  ["/v4/account", "account"],
  ["/v4/balancers", "balancers"],
  ["/v4/cloud/instances", "instances"],
  ["/v4/cloud/scripts", "scripts"],
  ["/v4/domains", "domains"],
  ["/v4/images", "images"],
  ["/v4/networking", "ips"],
  ["/v4/profile", "account"],
  ["/v4/tags", "account"],
  ["/v4/volumes", "volumes"],
];

/** Contract 4.1, 4.2 and 17: what does not follow from method and path. `null`: no token; `*`: any token. */
const exceptions: Record<string, string[] | "*" | null> = {
  "GET /v4/profile": "*",
  "GET /v4/profile/grants": "*",
  "GET /v4/account/maintenance": "*",
  "GET /v4/account/oauth-clients/:clientId/thumbnail": null,
  "POST /v4/account/events/:eventId/seen": ["events:read_only"],
  "POST /v4/account/events/:eventId/read": ["events:read_only"],
  "POST /v4/volumes/:volumeId/attach": ["volumes:read_write", "instances:read_write"],
  "POST /v4/volumes/:volumeId/detach": ["volumes:read_write", "instances:read_write"],
  "POST /v4/images": ["images:read_write", "instances:read_only"],
  "POST /v4/networking/ipv4/assign": ["ips:read_write", "instances:read_write"],
  "POST /v4/networking/ipv4/share": ["ips:read_write", "instances:read_write"],
};
/** Lists that are there so that clients go on: each says its own word, most of them of things that do not exist here. */
const absent = new Map(absentCollections.map(({ path, scope }) => [`GET ${path}`, scope]));
/** Lists that are answered without a token (description 5.5), and what stands in them; price lists too (contract 4.1). */
const isCatalogue = (name: string): boolean =>
  /^GET \/v4\/(regions|images|cloud\/(types|kernels|scripts)|maintenance\/policies)(\/|$)/.test(name) || /^GET \/v4\/.*\/(types|prices)$/.test(name);

const expected = ({ method, path, name }: { method: string; path: string; name: string }): string[] | "*" | null => {
  if (name in exceptions) return exceptions[name] ?? null;
  if (absent.has(name)) {
    const scope = absent.get(name) ?? null;
    return scope === null ? null : scope === "any" ? "*" : [`${scope}:read_only`];
  }
  if (isCatalogue(name)) return null;
  const word = words.find(([prefix]) => path === prefix || path.startsWith(`${prefix}/`))?.[1];
  if (word === undefined) throw new Error(`${name}: say in this test which scope it wants`);
  return [`${word}:${method === "GET" ? "read_only" : "read_write"}`];
};

/** The public vendor's words for the same. */
const vendor: Record<string, string> = { instances: "linodes", balancers: "nodebalancers", scripts: "stackscripts" };
const inVendorWords = (scopes: string[]): string => scopes.map((scope) => scope.replace(/^\w+(?=:)/, (word) => vendor[word] ?? word)).join(" ");

const refusal = { errors: [{ reason: "Your OAuth token is not authorized to use this endpoint." }] };

describe("every route of the table", () => {
  it("is enough of them", () => expect(routes.length).toBeGreaterThan(60));

  it.each(routeTable)("$name", async (route) => {
    const wanted = expected(route);
    const path = pathOf(route.path);
    const bare = await send(cloud.url, route.method, path, {});
    if (wanted === null) {
      expect(bare.status).not.toBe(401);
      expect(bare.headers["x-accepted-oauth-scopes"]).toBe("*");
      return;
    }
    expect(bare.status).toBe(401);
    const accepted = wanted === "*" ? "*" : wanted.join(",");
    expect(bare.headers["x-accepted-oauth-scopes"]).toBe(accepted);
    expect(bare.headers["x-oauth-scopes"]).toBe("unknown");

    if (wanted === "*") return expect((await call(await holding("longview:read_only"), route.method, path)).status).not.toBe(401);
    const others = words.map(([, word]) => word).filter((word) => !wanted.some((scope) => scope.startsWith(`${word}:`)));
    const insufficient = [
      [...new Set(others)].map((word) => `${word}:read_write`).join(" "),
      ...wanted.flatMap((scope) =>
        scope.endsWith(":read_write") ? [wanted.join(" ").replace(scope, scope.replace("read_write", "read_only"))] : [],
      ),
      ...(wanted.length > 1 ? wanted.map((scope) => wanted.filter((other) => other !== scope).join(" ")) : []),
    ];
    for (const scopes of insufficient) {
      const answer = await call(await holding(scopes), route.method, path);
      expect(answer.status, scopes).toBe(401);
      expect(answer.body, scopes).toEqual(refusal);
      expect(answer.headers["x-oauth-scopes"]).toBe(scopes);
      expect(answer.headers["x-accepted-oauth-scopes"]).toBe(accepted);
    }
    for (const scopes of [wanted.join(" "), inVendorWords(wanted), wanted.join(" ").replaceAll("read_only", "read_write")]) {
      const answer = await call(await holding(scopes), route.method, path);
      expect(answer.status, scopes).not.toBe(401);
      expect(answer.status, scopes).toBeLessThan(500);
    }
  });
});

describe("our own endpoints", () => {
  it("want a full-rights token: every word at once is not enough", async () => {
    const all = [...new Set(words.map(([, word]) => word))].map((word) => `${word}:read_write`).join(" ");
    expect((await (await holding(all)).get("/_backlot/instances/1")).status).toBe(401);
    expect((await cloud.api.get("/_backlot/instances/1")).status).toBe(404);
  });
});

describe("spellings of scopes (contract 2.3, 2.5, 4.2)", () => {
  it.each([
    ["instances:view", true, false],
    ["linodes:modify", true, true],
    ["linodes:create", true, true],
    ["linodes:delete", true, true],
    ["linodes:*", true, true],
    ["cloud:read_only", true, false],
    ["volumes:read_only,linodes:read_only", true, false],
    ["longview:read_write object_storage:read_only", false, false],
  ])("%s reads instances: %s, writes them: %s", async (scopes, reads, writes) => {
    const api = apiOf(cloud.url, await makeToken(cloud.api, scopes));
    expect((await api.get("/v4/cloud/instances")).status).toBe(reads ? 200 : 401);
    expect((await api.post("/v4/cloud/instances", {})).status).toBe(writes ? 400 : 401);
  });

  it("reads back in the words of the path it was asked on, one space between", async () => {
    const asked = { label: "spelt", scopes: "linodes:read_only,  volumes:read_only" };
    const { body, headers } = await cloud.api.post("/v4/profile/tokens", asked);
    expect(body.scopes).toBe("instances:read_only volumes:read_only");
    expect(headers["x-oauth-scopes"]).toBe("*");
    const api = apiOf(cloud.url, body.token);
    expect((await api.get("/v4/cloud/instances")).headers["x-oauth-scopes"]).toBe("instances:read_only volumes:read_only");
    expect((await api.get("/v4/linode/instances")).headers["x-oauth-scopes"]).toBe("linodes:read_only volumes:read_only");
    const mixed = await cloud.api.post("/v4/profile/tokens", {
      label: "mixed",
      scopes: "linodes:view instances:read_only volumes:modify,tokens:view",
    });
    const { headers: said } = await apiOf(cloud.url, mixed.body.token).get("/v4/cloud/instances");
    expect(said["x-oauth-scopes"]).toBe("instances:read_only volumes:read_write account:read_only");
    expect((await cloud.api.post("/v4beta/profile/tokens", asked)).body.scopes).toBe("linodes:read_only volumes:read_only");
  });
});
