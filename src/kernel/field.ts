import { z } from "zod";
import type { Problem } from "./fault.js";

/** Who sets a field: `read` we do; `create` the caller, once; `write` the caller, any time; `secret` is taken and never shown (DESIGN section 2 "The field table"). */
type Setter = "read" | "create" | "write" | "secret";

interface FieldOptions {
  /** May stand in `X-Filter` (contract 5.2). */
  filter?: boolean;
  /** Creation without it is refused. */
  required?: boolean;
  /** For a secret: may be set again by an update. */
  update?: boolean;
  /** For a secret: reads back as `<REDACTED>` when set, null when not. */
  redacted?: boolean;
  /** Keys inside are the caller's own words and are not respelled. */
  verbatim?: boolean;
  /** What reads back, when that differs from what is taken. */
  shown?: z.ZodType;
  /** Who says that it exists: the description, the public API (without this), or we. For docs/api.md. */
  source?: "description" | "ours";
  /** A list of records, each judged member by member: the rules see what is well formed in it, beside what is not. */
  records?: boolean;
}

export interface Field<S extends z.ZodType = z.ZodType, W extends Setter = Setter, O extends FieldOptions = FieldOptions> {
  setter: W;
  schema: S;
  note: string;
  options: O;
}

const row =
  <W extends Setter>(setter: W) =>
  <S extends z.ZodType, const O extends FieldOptions = Record<never, never>>(schema: S, note: string, options?: O): Field<S, W, O> => ({
    setter,
    schema,
    note,
    options: (options ?? {}) as O,
  });

export const field = { read: row("read"), create: row("create"), write: row("write"), secret: row("secret") };

export type FieldTable = Record<string, Field>;

type CreateNames<T extends FieldTable> = { [N in keyof T]: T[N]["setter"] extends "read" ? never : N }[keyof T];
type RequiredNames<T extends FieldTable> = { [N in CreateNames<T>]: T[N]["options"] extends { required: true } ? N : never }[CreateNames<T>];
type UpdateNames<T extends FieldTable> = {
  [N in keyof T]: T[N]["setter"] extends "write" ? N : T[N]["options"] extends { update: true } ? N : never;
}[keyof T];

/** The value without the nulls at these places. */
const without = (value: unknown, places: ReadonlySet<string>, at = ""): unknown => {
  if (Array.isArray(value)) return value.map((entry, index) => without(entry, places, `${at}/${index}`));
  if (typeof value !== "object" || value === null) return value;
  const members = Object.entries(value).map(([name, member]): [string, unknown] => [name, without(member, places, `${at}/${name}`)]);
  return Object.fromEntries(members.filter(([name, member]) => member !== null || !places.has(`${at}/${name}`)));
};

/**
 * Clients send null for optional members and mean "absent" (contract, decision 8), inside members too: a null that is refused is left out
 * and the value judged again. Where null means something, the schema takes it and nothing is left out.
 */
const parsedWithoutNulls = <S extends z.ZodType>(schema: S, value: unknown): z.ZodSafeParseResult<z.infer<S>> => {
  const parsed = schema.safeParse(value, { error: reasonFor });
  if (parsed.success || typeof value !== "object") return parsed;
  if (value === null) return schema.safeParse(undefined, { error: reasonFor });
  const places = new Set(parsed.error.issues.map(({ path }) => `/${path.map(String).join("/")}`));
  return schema.safeParse(without(value, places), { error: reasonFor });
};

/** What a caller sends to create. Members left out, or `null` where null means nothing, are absent. */
export type CreateBody<T extends FieldTable> = { [N in RequiredNames<T>]: z.infer<T[N]["schema"]> } & {
  [N in Exclude<CreateNames<T>, RequiredNames<T>>]?: z.infer<T[N]["schema"]> | undefined;
};

/** What a caller sends to update: every member may be left out. */
export type UpdateBody<T extends FieldTable> = { [N in UpdateNames<T>]?: z.infer<T[N]["schema"]> | undefined };

/** A checked request body: from unknown JSON (already respelled) to a value and all its problems; the value is a whole `B` only without any. */
export interface BodySchema<B> {
  schema: z.ZodType;
  /** `flagged` names what must not be judged any further: whole members, and single places inside lists of records. */
  parse(value: unknown): { body: Partial<B>; problems: Problem[]; flagged: Set<string> };
  /** Names whose content is not respelled; `all`: the whole body is the caller's own. */
  verbatim: readonly string[] | "all";
  /** Who says that a member exists, where it is not the public API. For docs/api.md. */
  sources: Readonly<Record<string, FieldOptions["source"]>>;
}

const isCreate = (entry: Field): boolean => entry.setter !== "read";
const isUpdate = (entry: Field): boolean => entry.setter === "write" || (entry.setter === "secret" && entry.options.update === true);

/** Made when it is first asked for: there are some hundred bodies, few of which a run ever sees, and each costs memory and time at a start. */
const lazily = <T>(make: () => T): (() => T) => {
  let made: { value: T } | undefined;
  return () => {
    made ??= { value: make() };
    return made.value;
  };
};

const bodySchema = <B>(table: FieldTable, takes: (entry: Field) => boolean, requires: (entry: Field) => boolean): BodySchema<B> => {
  const entries = Object.entries(table).filter(([, entry]) => takes(entry));
  const members = lazily(() =>
    entries.map(([name, entry]): [string, z.ZodType] => {
      const nullable = entry.schema.safeParse(null).success;
      // Clients send null for optional members and mean "absent" (contract, decision 8).
      const lenient = requires(entry)
        ? entry.schema
        : nullable
          ? entry.schema.optional()
          : entry.schema.nullish().transform((value) => value ?? undefined);
      return [name, lenient];
    }),
  );
  const published = lazily(() =>
    z.object(
      Object.fromEntries(entries.map(([name, entry]) => [name, (requires(entry) ? entry.schema : entry.schema.optional()).describe(entry.note)])),
    ),
  );
  return {
    get schema() {
      return published();
    },
    verbatim: entries.filter(([, entry]) => entry.options.verbatim).map(([name]) => name),
    sources: Object.fromEntries(entries.map(([name, entry]) => [name, entry.options.source])),
    // Member by member, so that the rules can judge what is well-formed while the rest is told.
    parse: (value) => {
      const given = new Map(Object.entries(value as object));
      const problems: Problem[] = [];
      const flagged = new Set<string>();
      const body: Record<string, unknown> = {};
      for (const [name, schema] of members()) {
        const parsed = parsedWithoutNulls(schema, given.get(name));
        if (parsed.success) {
          if (parsed.data !== undefined) body[name] = parsed.data;
          continue;
        }
        const found = problemsOf(parsed.error, [name]);
        problems.push(...found);
        const rest = table[name]?.options.records ? wellFormed(given.get(name), parsed.error) : undefined;
        if (rest) body[name] = rest;
        for (const { field: at } of found) flagged.add(rest && at ? at : name);
      }
      return { body: body as Partial<B>, problems, flagged };
    },
  };
};

export const createSchema = <T extends FieldTable>(table: T): BodySchema<CreateBody<T>> =>
  bodySchema(table, isCreate, (entry) => entry.options.required === true);

/** No defaults here: a default inside an update would wipe the field (DESIGN section 2). */
export const updateSchema = <T extends FieldTable>(table: T): BodySchema<UpdateBody<T>> => bodySchema(table, isUpdate, () => false);

/** For a body that no field table describes, such as an action's. Every member may be null for "absent". */
export const customSchema = <S extends z.ZodType>(schema: S): BodySchema<z.infer<S>> => ({
  schema,
  verbatim: [],
  sources: {},
  parse: (value) => {
    const parsed = parsedWithoutNulls(schema, value);
    if (parsed.success) return { body: parsed.data as Partial<z.infer<S>>, problems: [], flagged: new Set() };
    const problems = problemsOf(parsed.error);
    return { body: {}, problems, flagged: new Set(problems.map(({ field: at }) => at?.split(/[.[]/)[0] ?? "")) };
  },
});

export const filterableNames = (table: FieldTable): string[] =>
  Object.entries(table)
    .filter(([, entry]) => entry.options.filter)
    .map(([name]) => name);

const shownSchema = ({ setter, schema, options }: Field): z.ZodType =>
  setter === "secret" ? z.literal("<REDACTED>").nullable() : (options.shown ?? schema);

/** The schema of what is shown: everything but secrets, which may read back redacted. */
export const viewSchema = (table: FieldTable): z.ZodType =>
  z.object(
    Object.fromEntries(
      Object.entries(table)
        .filter(([, entry]) => entry.setter !== "secret" || entry.options.redacted)
        .map(([name, entry]) => [name, shownSchema(entry).describe(entry.note)]),
    ),
  );

const isRecord = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** A list of records without the places that were refused and without nulls, which mean "absent"; undefined for anything else. */
const wellFormed = (value: unknown, { issues }: z.ZodError): unknown[] | undefined => {
  const refused = new Set(issues.map(({ path }) => path.join("/")));
  const kept = (entry: unknown, at: string): unknown => {
    if (Array.isArray(entry)) return entry.map((each, index) => (refused.has(`${at}/${index}`) ? {} : kept(each, `${at}/${index}`)));
    if (!isRecord(entry)) return entry;
    const members = Object.entries(entry).map(([name, member]): [string, unknown] => [name, kept(member, `${at}/${name}`)]);
    return Object.fromEntries(members.filter(([name, member]) => member !== null && !refused.has(`${at}/${name}`)));
  };
  if (!Array.isArray(value) || refused.has("")) return undefined;
  return value.map((entry, index) => (refused.has(String(index)) || !isRecord(entry) ? {} : kept(entry, String(index))));
};

const pathText = (path: readonly PropertyKey[]): string =>
  path.reduce<string>((text, part) => (typeof part === "number" ? `${text}[${part}]` : text === "" ? String(part) : `${text}.${String(part)}`), "");

const article = (type: string): string => (/^[aeiou]/.test(type) ? `an ${type}` : `a ${type}`);
const typeWords: Record<string, string> = {
  int: "integer",
  number: "number",
  string: "string",
  boolean: "boolean",
  object: "object",
  array: "list",
  record: "object",
};

/** The reason for one zod issue, without the field's name (DESIGN section 3 "Transport"; wording after contract 6.1). */
const reasonFor = (issue: z.core.$ZodRawIssue): string | undefined => {
  if (issue.input === undefined) return "A value is required.";
  if (issue.code === "invalid_type") return `Must be ${article(typeWords[issue.expected] ?? issue.expected)}.`;
  if (issue.code === "invalid_value") return `Must be one of ${issue.values.map(String).join(", ")}.`;
  return undefined;
};

/** zod's issues as problems: one each, unknown keys one per key (zod folds them into one with an empty path). `under` is where the value stands. */
const problemsOf = (error: z.ZodError, under: readonly PropertyKey[] = []): Problem[] =>
  error.issues.flatMap((issue): Problem[] => {
    if (issue.code === "unrecognized_keys") return issue.keys.map((key) => ({ reason: "Unknown.", field: pathText([...under, ...issue.path, key]) }));
    const at = pathText([...under, ...issue.path]);
    return [at === "" ? { reason: issue.message } : { reason: issue.message, field: at }];
  });

/** Whole number within bounds, with the public API's wording (contract 6.1). */
export const integer = (min: number, max: number) => z.int("Must be an integer.").min(min, `Must be ${min}-${max}`).max(max, `Must be ${min}-${max}`);

/** Text whose length is within bounds, in characters. */
export const text = (min: number, max: number) =>
  z.string().min(min, `Length must be ${min}-${max} characters`).max(max, `Length must be ${min}-${max} characters`);
