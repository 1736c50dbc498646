import { randomBytes } from "node:crypto";
import type { NextFunction, Request, Response } from "express";
import * as table from "./public-spelling.js";

/** One spelling of the API at the door. Inside there is only ours. */
export interface Dialect {
  /** Bounds of `page_size`. */
  pageSize: { min: number; max: number };
  /** A parsed body, or a parsed `X-Filter`, as we spell it. `verbatim`: members (wire names) whose content is the caller's own. */
  heard(value: unknown, verbatim?: readonly string[]): unknown;
  /** A body as we spell it, with a name for what only they may leave out. `request`: method and path of our route. */
  named(request: string, body: unknown): unknown;
  /** An answer as they spell it. */
  said(value: unknown): unknown;
  /** Scope words as they spell them. */
  scopes(text: string): string;
}

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** The table, read in one direction. */
const direction = (from: 0 | 1) => {
  const to = from === 0 ? 1 : 0;
  const mapOf = (pairs: ReadonlyArray<readonly [string, string]>) => new Map(pairs.map((pair) => [pair[from], pair[to]]));
  const members = mapOf(table.members);
  const listMembers = mapOf(table.listMembers);
  const scopes = mapOf(table.scopeWords);
  const reasons = mapOf(table.reasons);
  const wordsIn = new Map<string, Map<string, string>>();
  for (const { in: names, pairs } of table.words) {
    for (const name of names) wordsIn.set(name, new Map([...(wordsIn.get(name) ?? []), ...mapOf(pairs)]));
  }

  const begun = (text: string, beginnings: ReadonlyArray<readonly [string, string]>): string => {
    const pair = beginnings.find((candidate) => text.startsWith(candidate[from]));
    return pair ? pair[to] + text.slice(pair[from].length) : text;
  };
  const memberName = (name: string, value: unknown): string =>
    members.get(name) ?? (Array.isArray(value) ? listMembers.get(name) : undefined) ?? name;
  const scopeText = (text: string): string => text.replace(/(?<![a-z_])[a-z_]+(?=:)/g, (word) => scopes.get(word) ?? word);
  const urlText = (text: string): string =>
    begun(begun(text, table.collections), [[`/v4/images/${table.slugBeginnings[0]}`, `/v4/images/${table.slugBeginnings[1]}`]]);

  /** One value by the name of the member that holds it. */
  const word = (name: string, text: string): string => {
    const known = wordsIn.get(name)?.get(text);
    if (known !== undefined) return known;
    if (table.slugMembers.includes(name)) return begun(text, [table.slugBeginnings]);
    if (table.deviceMembers.includes(name)) return begun(text, [table.deviceBeginnings]);
    if (table.actionMembers.includes(name)) return begun(text, table.actionBeginnings);
    if (table.scopeMembers.includes(name)) return scopeText(text);
    if (table.urlMembers.includes(name)) return urlText(text);
    return text;
  };
  return { members, reasons, memberName, scopeText, word };
};

const toOurs = direction(0);
const toTheirs = direction(1);

/** Operators of an `X-Filter` pass a value on to the member they stand in; `+order_by` holds a member's name. */
const respelled = (value: unknown, spelling: ReturnType<typeof direction>, untouched: readonly string[], holder = ""): unknown => {
  if (typeof value === "string") {
    return holder === "+order_by" ? spelling.memberName(value, undefined) : spelling.word(holder, value);
  }
  if (Array.isArray(value)) return value.map((entry) => respelled(entry, spelling, untouched, holder));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]): [string, unknown] => {
      if (untouched.includes(name)) return [spelling.memberName(name, member), member];
      const inner = name.startsWith("+") && name !== "+order_by" ? holder : name;
      return [spelling.memberName(name, member), respelled(member, spelling, untouched, inner)];
    }),
  );
};

/** `configs[0].nodes[1].cloud_id` member by member. */
const saidField = (field: string): string =>
  field
    .split(".")
    .map((part) => part.replace(/^[a-z_]+/, (name) => toTheirs.memberName(name, part.includes("[") ? [] : undefined)))
    .join(".");

/** Our sentences name paths, slugs and, when a filter is refused, members. */
const saidReason = (reason: string): string => {
  const exact = toTheirs.reasons.get(reason);
  if (exact !== undefined) return exact;
  const [theirSlug, ourSlug] = table.slugBeginnings;
  return table.collections
    .reduce((text, [theirs, ours]) => text.replaceAll(ours, theirs), reason)
    .replaceAll(new RegExp(`(?<![\\w/.-])${ourSlug}(?=[a-z0-9])`, "g"), theirSlug)
    .replace(/^(Cannot filter on )(\w+)/, (_, words: string, name: string) => words + toTheirs.memberName(name, undefined));
};

interface Refusal {
  errors: ReadonlyArray<{ reason: string; field?: string }>;
}
const isRefusal = (value: unknown): value is Refusal =>
  isObject(value) &&
  Object.keys(value).length === 1 &&
  Array.isArray(value.errors) &&
  value.errors.every((entry) => typeof entry?.reason === "string");

const untouched = table.untouchedMembers;

/** The description's own spelling (DESIGN section 3 "Paths and spellings"). */
const native: Dialect = {
  pageSize: { min: 1, max: 500 },
  heard: (value) => value,
  named: (_, body) => body,
  said: (value) => value,
  scopes: (text) => text,
};

/** Ours, where both spellings are understood: on paths that the two have in common. */
const nativeShared: Dialect = { ...native, heard: (value, verbatim = []) => respelled(value, toOurs, [...untouched, ...verbatim]) };

/** The id, which the public API takes for its names, is not known yet; what is drawn here is as unique. */
const named = (request: string, body: unknown): unknown => {
  if (!isObject(body)) return body;
  const missing = table.optionalNames.filter((entry) => entry.request === request && (body[entry.member] ?? null) === null);
  return { ...body, ...Object.fromEntries(missing.map(({ member, beginning }) => [member, beginning + randomBytes(4).toString("hex")])) };
};

const publicSpelling: Dialect = {
  ...nativeShared,
  pageSize: table.pageSize,
  named,
  said: (value) =>
    isRefusal(value)
      ? {
          errors: value.errors.map(({ reason, field }) => ({
            reason: saidReason(reason),
            ...(field === undefined ? {} : { field: saidField(field) }),
          })),
        }
      : respelled(value, toTheirs, untouched),
  scopes: toTheirs.scopeText,
};

const beginsWith = (path: string, collection: string): boolean => path === collection || path.startsWith(`${collection}/`);

/** Pure: what a request's url means, and how its answer is to be spelled. `door`: what the port it came in by speaks on shared paths. */
export const spoken = (url: string, door: "native" | "public"): { url: string; dialect: Dialect } => {
  const [, path = "", rest = ""] = /^([^?]*)(.*)$/s.exec(url) ?? [];
  const isBeta = beginsWith(path, "/v4beta");
  const versioned = isBeta ? `/v4${path.slice("/v4beta".length)}` : path;
  if (!beginsWith(versioned, "/v4")) return { url, dialect: native };
  const current = table.formerPaths.reduce((text, [then, now]) => text.replace(then, now), versioned);
  const isTheirs = table.collections.some(([theirs]) => beginsWith(current, theirs));
  const isOurs = table.collections.some(([, ours]) => beginsWith(current, ours));
  const translated = table.collections.reduce(
    (text, [theirs, ours]) => (beginsWith(text, theirs) ? ours + text.slice(theirs.length) : text),
    current,
  );
  const ours = table.pathParts.reduce((text, [theirs, mine]) => text.replace(theirs, mine), translated);
  if (table.untouchedPaths.some((pattern) => pattern.test(ours))) return { url: ours + rest, dialect: native };
  const isPublic = isBeta || isTheirs || (door === "public" && !isOurs);
  return { url: ours + rest, dialect: isPublic ? publicSpelling : isOurs ? native : nativeShared };
};

/** The first thing a request meets. `publicPort`: the port whose shared paths speak the public spelling. */
export const doorOf =
  (publicPort: number | undefined) =>
  (req: Request, res: Response, next: NextFunction): void => {
    const { url, dialect } = spoken(req.url, publicPort !== undefined && req.socket.localPort === publicPort ? "public" : "native");
    req.url = url;
    res.locals.dialect = dialect;
    next();
  };

/** Never undefined: what fails before the door is spelled natively. */
export const dialectOf = (res: Response): Dialect => (res.locals.dialect as Dialect | undefined) ?? native;
