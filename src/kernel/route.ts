import type { Problem } from "./fault.js";
import type { BodySchema } from "./field.js";

export type Method = "GET" | "POST" | "PUT" | "DELETE";

/** Who calls: the token and the user behind it. */
export interface Caller {
  /** Row of a personal access token; 0 for any other kind of token. */
  tokenId: number;
  userId: number;
  username: string;
  /** Space separated scope words, `*` for everything (contract 4.2). */
  scopes: string;
}

/** What a route's function is given: everything already checked. */
export interface Call<C, B> {
  cloud: C;
  /** Path parameters; numbers unless the route lists them in `texts`. */
  params: Record<string, number>;
  texts: Record<string, string>;
  /** Query parameters the route declares; undefined when absent. */
  query: Record<string, string | undefined>;
  body: B;
  /** Undefined only on public routes that were called without a token. */
  caller: Caller | undefined;
  /** Where the request came from; IPv4 as such, not mapped into IPv6. */
  remoteAddress: string;
}

/** Rows to list: `http` filters, orders and pages them, and makes views of one page only. */
export interface Listing<R = unknown> {
  rows: readonly R[];
  view(row: R): unknown;
  /** Names (ours) that `X-Filter` may use. */
  filterable: readonly string[];
  /** The value a filter compares. */
  fieldValue(row: R, name: string): unknown;
}

/** One line of a resource's routes: data, not a router. `C` is the cloud the functions work on. */
// biome-ignore lint/suspicious/noExplicitAny: a table of routes holds bodies of every type; each route checks its own.
export interface Route<C, B = any> {
  method: Method;
  /** Native path with `:name` parameters, e.g. `/v4/balancers/:balancerId`; `*name` takes the rest, slashes included. */
  path: string;
  /** Parameters that are texts (slugs, addresses); all others are positive whole numbers. */
  textParams?: readonly string[];
  /** Query parameters it takes. None under `/v4`, where only `page` and `page_size` exist (description section 1). */
  query?: readonly string[];
  /**
   * Scope word; GET wants `word:read_only`, the rest `word:read_write`, unless the level stands behind the word. A list: all of them are
   * needed. `any`: whatever the token holds. `*`: a full-rights token. `null`: no token needed.
   */
  scope: string | readonly string[] | null;
  summary: string;
  body?: BodySchema<B>;
  /** The body is bytes of this media type, not JSON; `run` gets them as a Buffer. */
  takes?: "image/png";
  /** `array`: a bare list without the envelope. `png`: `run` gives the bytes of an image. */
  answers: "list" | "one" | "empty" | "array" | "png";
  /** When `run` gives undefined the answer is 204 without a body; says when that is. */
  nothing?: string;
  /** True when the answer is already in wire spelling, as catalogue entries are. */
  verbatimAnswer?: boolean;
  /** Name of the view's schema in the OpenAPI document. */
  shows?: string;
  /**
   * What the rules say of a body that has other problems already, so that all are told at once: `body` holds what is well formed,
   * `flagged` names the rest. Reads only. `run` applies the same rules again, in its commit.
   */
  rules?(call: Call<C, Partial<B>>, flagged: ReadonlySet<string>): readonly Problem[];
  run(call: Call<C, B>): unknown;
}

/** Keeps the body's type inside one route while the table stays plain. */
export const route = <C, B>(entry: Route<C, B>): Route<C> => entry;
