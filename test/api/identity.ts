import { routes } from "#backlot/resources/index.js";
import { type Api, apiOf, type Json, type TestCloud } from "../support/cloud.js";
import { freshLabel } from "./world.js";

/** A new personal access token of the caller; whole. */
export const makeToken = async (api: Api, scopes?: string, more: object = {}): Promise<string> => {
  const { status, body } = await api.post("/v4/profile/tokens", { label: freshLabel("token"), ...(scopes === undefined ? {} : { scopes }), ...more });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.token;
};

/** Requests with a token of fewer rights. */
export const withScopes = async (cloud: TestCloud, scopes: string): Promise<Api> => apiOf(cloud.url, await makeToken(cloud.api, scopes));

export const password = "Footlights-and-Fog-3";

export const makeUser = async (cloud: TestCloud, more: object = {}): Promise<Json> => {
  const username = freshLabel("extra");
  const { status, body } = await cloud.api.post("/v4/account/users", { username, email: `${username}@example.com`, password, ...more });
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body;
};

/** What stands in the place of every parameter but those that are given. */
const nobody = "999999";

/** A route's path with parameters filled in. */
export const pathOf = (path: string, values: Record<string, string | number> = {}): string =>
  path.replace(/[:*](\w+)/g, (_, name: string) => String(values[name] ?? nobody));

/** Every route as a line of a table, so that a new one falls in by itself. */
export const routeTable = routes.map((route) => ({
  method: route.method,
  path: route.path,
  name: `${route.method} ${route.path}`,
  scope: route.scope,
}));

export const call = (api: Api, method: string, path: string, body: unknown = {}) =>
  method === "GET" ? api.get(path) : method === "DELETE" ? api.del(path) : method === "PUT" ? api.put(path, body) : api.post(path, body);
