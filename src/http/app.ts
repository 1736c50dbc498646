import { randomUUID } from "node:crypto";
import express, { type NextFunction, type Request, type Response } from "express";
import { plainAddress } from "../kernel/addresses.js";
import { Fault, notFound, type Problem } from "../kernel/fault.js";
import type { BodySchema } from "../kernel/field.js";
import { exhausted } from "../kernel/remedy.js";
import type { Call, Caller, Listing, Route } from "../kernel/route.js";
import { snake } from "../kernel/snake.js";
import type { Cloud } from "../resources/cloud.js";
import { scopeWords } from "../resources/tokens/scopes.js";
import { acceptedScope, callerOf, invalidToken, isAllowed } from "./auth.js";
import { bodyLimitBytes, bytesOf, parseBody } from "./body.js";
import { dialectOf, doorOf } from "./dialects/dialect.js";
import { selected } from "./filter.js";
import { cloudOf, requireGranted, requireReferences, restrictedUser, visible } from "./grants.js";
import { requestFault } from "./origin.js";
import { envelope, type Page, pageOf } from "./paging.js";
import { type Allowance, openRateLimits, type RateLimits } from "./rate-limit.js";
import { camelKeys, snakeKeys } from "./spelling.js";
import { errorBody, statusOf } from "./status.js";

export interface Log {
  error(details: object, message: string): void;
}

const specVersion = "4.0.0";

/** Contract 7.1. The content type is exact: official clients compare it for equality, and express would add a charset. */
const answer = (res: Response, status: number, body: unknown): void => {
  const dialect = dialectOf(res);
  const bytes = Buffer.from(JSON.stringify(dialect.said(body)));
  for (const name of ["X-OAuth-Scopes", "X-Accepted-OAuth-Scopes"]) {
    const scopes = res.getHeader(name);
    if (scopes !== undefined) res.setHeader(name, dialect.scopes(String(scopes)));
  }
  res.statusCode = status;
  res.setHeader("Content-Type", "application/json");
  res.setHeader("Content-Length", bytes.length);
  res.end(bytes);
};

/**
 * Contract 7.1. `Retry-After` stands on every answer (contract, decision 5): seconds until the window ends where calls are counted, and 0
 * where they are not, since clients that are told "busy" wait that long.
 */
const sayAllowance = (res: Response, clock: Cloud["clock"], { limit, remaining, resetMs }: Allowance, enforced: boolean): void => {
  res.setHeader("X-RateLimit-Limit", limit);
  res.setHeader("X-RateLimit-Remaining", remaining);
  res.setHeader("X-RateLimit-Reset", Math.ceil(resetMs / 1000));
  res.setHeader("Retry-After", enforced ? Math.max(1, Math.ceil((resetMs - clock.now()) / 1000)) : 0);
};

const commonHeaders = (_req: Request, res: Response, next: NextFunction): void => {
  res.setHeader("X-Request-Id", randomUUID());
  res.setHeader("X-Spec-Version", specVersion);
  res.setHeader("X-OAuth-Scopes", "unknown");
  res.setHeader("X-Accepted-OAuth-Scopes", "*");
  res.setHeader("Cache-Control", "max-age=0, no-cache, no-store");
  res.setHeader("Vary", "Authorization, X-Filter");
  res.setHeader("X-Content-Type-Options", "nosniff");
  res.setHeader("X-Frame-Options", "DENY");
  res.setHeader("Content-Security-Policy", "default-src 'none'");
  next();
};

/** What lets pages of any origin read an answer. No credentials: a token is sent by who has it, and there is no cookie to add. */
const crossOriginHeaders = {
  "Access-Control-Allow-Origin": "*",
  "Access-Control-Allow-Methods": "HEAD, GET, OPTIONS, POST, PUT, DELETE",
  "Access-Control-Allow-Headers": "Authorization, Origin, X-Requested-With, Content-Type, Accept, X-Filter",
  "Access-Control-Expose-Headers":
    "X-OAuth-Scopes, X-Accepted-OAuth-Scopes, X-Request-Id, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset, Retry-After",
};

const queryOf = (req: Request): { query: Record<string, string | undefined>; problems: Problem[]; names: string[] } => {
  const parameters = new URL(req.url, "http://localhost").searchParams;
  const names = [...new Set(parameters.keys())];
  const problems = names.filter((name) => parameters.getAll(name).length > 1).map((name) => ({ reason: "Given more than once.", field: name }));
  return { query: Object.fromEntries(names.map((name) => [name, parameters.get(name) ?? undefined])), problems, names };
};

const keyInQuery: Problem = {
  reason: "Credentials in the query string are not supported; send the header Authorization: Bearer TOKEN.",
  field: "api_key",
};

/** Description section 1: no query parameters but the listing ones; section 5: no credentials there. */
const queryProblems = (names: readonly string[], allowed: readonly string[]): Problem[] =>
  names
    .filter((name) => !allowed.includes(name))
    .map((name) =>
      name === "api_key"
        ? keyInQuery
        : { reason: `Not accepted in the query string; only ${allowed.join(" and ")} are. Send it in the JSON body.`, field: name },
    );

const authorize = (cloud: Cloud, route: Route<never>, req: Request, res: Response): Caller | undefined => {
  res.setHeader("X-Accepted-OAuth-Scopes", acceptedScope(route.scope, route.method));
  const caller = callerOf(cloud, req.headers.authorization);
  if (caller) res.setHeader("X-OAuth-Scopes", scopeWords(caller.scopes).join(" "));
  if (route.scope === null) return caller;
  // Who comes from version 3 has no header yet, and learns here where the key goes now.
  if (!caller) throw queryOf(req).names.includes("api_key") ? new Fault("unauthenticated", [keyInQuery]) : invalidToken();
  if (!isAllowed(caller, route.scope, route.method)) {
    throw new Fault("unauthenticated", [{ reason: "Your OAuth token is not authorized to use this endpoint." }]);
  }
  return caller;
};

/** Path parameters: whole numbers unless the route calls them texts. What is no number names nothing, so it is not found. */
const pathParameters = (route: Route<never>, req: Request) => {
  const params: Record<string, number> = {};
  const texts: Record<string, string> = {};
  for (const [name, value] of Object.entries(req.params as Record<string, string | string[]>)) {
    const text = Array.isArray(value) ? value.join("/") : value;
    if (route.textParams?.includes(name)) texts[name] = text;
    else if (/^[1-9]\d{0,14}$/.test(text)) params[name] = Number(text);
    else throw notFound();
  }
  return { params, texts };
};

/** The body and its problems; the rules are asked too when there are others (`known`) already, and a field is told once. */
const checkedBody = <C>(
  route: Route<C>,
  call: Call<C, undefined>,
  known: number,
  req: Request,
  heard: (body: unknown) => unknown,
): { body: unknown; problems: readonly Problem[] } => {
  const schema: BodySchema<unknown> = route.body ?? anyBody;
  const raw = Buffer.isBuffer(req.body) ? req.body : Buffer.alloc(0);
  if (route.takes !== undefined) return { body: bytesOf(raw, req.headers["content-type"], route.takes), problems: [] };
  const { body, problems, flagged } = schema.parse(camelKeys(heard(parseBody(raw, req.headers["content-type"])), schema.verbatim));
  if (problems.length + known === 0 || !route.rules) return { body, problems };
  const isTold = (field = ""): boolean => [...flagged].some((at) => field === at || field.startsWith(`${at}.`) || field.startsWith(`${at}[`));
  const broken = route.rules({ ...call, body }, flagged).filter(({ field }) => !isTold(field));
  return { body, problems: [...problems, ...broken] };
};

/** Runs `check`; the problems it throws join `problems` when there are some already. */
const collecting = <T>(problems: Problem[], check: () => T): T | undefined => {
  try {
    return check();
  } catch (error) {
    if (!(error instanceof Fault) || problems.length === 0 || error.kind !== "invalid") throw error;
    problems.push(...error.problems);
    return undefined;
  }
};

const answerList = (listing: Listing, problems: Problem[], page: Page, req: Request, res: Response): void => {
  const header = req.headers["x-filter"];
  const rows = collecting(problems, () => selected(listing, Array.isArray(header) ? header.join(",") : header, dialectOf(res).heard));
  if (problems.length > 0 || !rows) throw new Fault("invalid", problems);
  answer(res, 200, snakeKeys(envelope(listing, rows, page)));
};

const answerPng = (res: Response, bytes: Buffer): void => {
  res.statusCode = 200;
  res.setHeader("Content-Type", "image/png");
  res.setHeader("Content-Length", bytes.length);
  res.end(bytes);
};

/** Answers one request: parameters, header and body are checked together, so that all problems come at once. */
const serve = async <C>(cloud: Cloud, route: Route<C>, context: C, caller: Caller | undefined, req: Request, res: Response): Promise<void> => {
  const restricted = restrictedUser(cloud, caller);
  const parameters = pathParameters(route, req);
  if (restricted) requireGranted(cloud, restricted, route as Route<never>, parameters);
  const { query, problems, names } = queryOf(req);
  const { page, problems: pageProblems } = pageOf(query, dialectOf(res).pageSize);
  problems.push(...queryProblems(names, ["page", "page_size", ...(route.query ?? [])]), ...pageProblems);
  const remoteAddress = plainAddress(req.socket.remoteAddress);
  const own = restricted && (context as unknown) === cloud ? (cloudOf(cloud, restricted) as C) : context;
  const call = { cloud: own, ...parameters, query, body: undefined, caller, remoteAddress };
  const { verbatim = [] } = route.body ?? {};
  const untouched = verbatim === "all" ? [] : verbatim.map(snake);
  const { heard, named } = dialectOf(res);
  const understood = (body: unknown): unknown => named(`${route.method} ${route.path}`, heard(body, untouched));
  const checked = collecting(problems, () => checkedBody(route, call, problems.length, req, understood));
  problems.push(...(checked?.problems ?? []));
  if (restricted) requireReferences(cloud, restricted, checked?.body);
  // A list is only read, so its filter is judged even when something else is wrong.
  if (problems.length > 0 && route.answers !== "list") throw new Fault("invalid", problems);
  const result = await route.run({ ...call, body: checked?.body });
  if (route.answers === "list") {
    const listing = result as Listing;
    answerList(restricted ? visible(cloud, restricted, route as Route<never>, listing) : listing, problems, page, req, res);
  } else if (route.answers === "png") answerPng(res, result as Buffer);
  else if (route.nothing !== undefined && result === undefined) res.writeHead(204).end();
  else answer(res, 200, route.answers === "empty" ? {} : route.verbatimAnswer ? result : snakeKeys(result));
};

/** For routes that take no members: whatever JSON object comes is ignored, as unknown members are (contract section 3). */
const anyBody = { parse: () => ({ body: {}, problems: [], flagged: new Set() }), verbatim: [] } as unknown as BodySchema<unknown>;

const faultOf = (error: unknown): Fault | undefined => {
  if (error instanceof Fault) return error;
  // What express and its body reader throw: their `type` and `status` say what it was.
  const { type, status } = error as { type?: string; status?: number };
  if (type === "entity.too.large") return new Fault("too-large", [{ reason: `The body is larger than ${bodyLimitBytes} bytes.` }]);
  if (type === "encoding.unsupported") return new Fault("unsupported-type", [{ reason: "This content encoding is not supported." }]);
  if (status !== undefined && status >= 400 && status < 500) return new Fault("invalid", [{ reason: "The request could not be read." }]);
  return exhausted(error);
};

export interface Mounted<C> {
  routes: readonly Route<C>[];
  context: C;
}

export interface Door {
  /** Name or address that the API is bound to. */
  host: string;
  /** The port that speaks the public vendor's spelling on every path; undefined when there is none. */
  publicPort: number | undefined;
  rateLimit: boolean;
  /** Pages of other origins may read answers and change things. */
  crossOrigin: boolean;
}

/** RFC 6750 section 3: what a 401 asks for, and what was wrong with the token that came. */
const challenge = (req: Request): string => `Bearer realm="Backlot"${req.headers.authorization === undefined ? "" : ', error="invalid_token"'}`;

/** Limits count by token, or by address on public paths (contract 7.2). */
const takeCall = (limits: RateLimits, cloud: Cloud, enforced: boolean, route: Route<never>, req: Request, res: Response): void => {
  const caller = res.locals.caller as Caller | undefined;
  const allowance = limits.take(caller ? `${caller.username} ${caller.tokenId}` : `from ${req.socket.remoteAddress}`, route);
  sayAllowance(res, cloud.clock, allowance, enforced);
  if (allowance.refused) throw new Fault("too-many", [{ reason: "Too many requests" }]);
};

/** What each path serves, paths in the order of their first route. */
const byPath = (mounts: ReadonlyArray<Mounted<never>>): Map<string, Array<{ route: Route<never>; context: never }>> => {
  const paths = new Map<string, Array<{ route: Route<never>; context: never }>>();
  for (const { routes, context } of mounts) for (const route of routes) paths.set(route.path, [...(paths.get(route.path) ?? []), { route, context }]);
  return paths;
};

/** The whole API as an express application. Every answer is JSON, whatever went wrong. */
export const createApp = (cloud: Cloud, log: Log, door: Door, mounts: ReadonlyArray<Mounted<never>>): express.Express => {
  const limits = openRateLimits(cloud.clock, door.rateLimit);
  const app = express();
  app.disable("x-powered-by");
  app.disable("etag");
  app.enable("case sensitive routing");
  app.set("query parser", false);
  app.use(doorOf(door.publicPort));
  app.use(commonHeaders);
  app.use((req, res, next) => {
    sayAllowance(res, cloud.clock, limits.untaken(), door.rateLimit);
    // The pages under /oauth/authorize know a person by a cookie, and are nobody else's to read.
    if (door.crossOrigin && !req.path.startsWith("/oauth/authorize")) res.setHeaders(new Map(Object.entries(crossOriginHeaders)));
    next(requestFault(req, door));
  });
  const readRaw = express.raw({ type: () => true, limit: bodyLimitBytes });
  for (const [path, served] of byPath(mounts)) {
    // One express route for all methods of a path: each compiles its pattern, and every request is tried against all of them.
    const at = app.route(path);
    for (const { route, context } of served) {
      const verb = route.method.toLowerCase() as "get" | "post" | "put" | "delete";
      at[verb](
        (req, res, next) => {
          res.locals.verbatim = (route.body as BodySchema<unknown> | undefined)?.verbatim;
          res.locals.caller = authorize(cloud, route, req, res);
          takeCall(limits, cloud, door.rateLimit, route, req, res);
          next();
        },
        readRaw,
        (req, res) => serve(cloud, route, context, res.locals.caller as Caller | undefined, req, res),
      );
    }
    const methods = served.map(({ route }) => route.method);
    const allowed = [...methods, ...(methods.includes("GET") ? ["HEAD"] : []), "OPTIONS"].join(", ");
    at.all((_req, res, next) => {
      res.locals.allowed ??= allowed; // a later path may fit too, and have the method
      next();
    });
  }
  app.use((req, res, next) => {
    if (res.locals.allowed === undefined) return next();
    res.setHeader("Allow", res.locals.allowed);
    if (req.method !== "OPTIONS") throw new Fault("method-not-allowed", [{ reason: "Method Not Allowed" }]);
    answer(res, 200, {});
  });
  let oauth: Promise<express.Router> | undefined;
  app.use("/oauth", async (req, res, next) => {
    oauth ??= import("./oauth/routes.js").then(({ oauthRouter }) => oauthRouter(cloud)); // not at the start: few ever ask
    (await oauth)(req, res, next);
  });
  app.use(() => {
    throw notFound();
  });
  app.use((error: unknown, req: Request, res: Response, _next: NextFunction) => {
    if (res.headersSent) return void res.destroy();
    const fault = faultOf(error);
    if (fault) {
      if (fault.kind === "unauthenticated") res.setHeader("WWW-Authenticate", challenge(req));
      if (fault.kind === "unavailable") log.error({ requestId: res.getHeader("X-Request-Id"), cause: fault.cause ?? fault }, fault.message);
      return answer(res, statusOf[fault.kind], errorBody(fault.problems, res.locals.verbatim));
    }
    const requestId = res.getHeader("X-Request-Id");
    log.error({ requestId, method: req.method, path: req.path, err: error }, "a request failed for a reason of ours");
    answer(res, 500, { errors: [{ reason: `Something failed inside Backlot; its log says more under request id ${String(requestId)}.` }] });
  });
  return app;
};
