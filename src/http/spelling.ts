import { snake } from "../kernel/snake.js";

/** `ssl_cert` -> `sslCert`, `address_1` stays; undefined for what is no wire name of ours, so that `sslCert` itself is no second spelling. */
const camel = (name: string): string | undefined =>
  /^[a-z0-9_]+$/.test(name) && !name.startsWith("__") ? name.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase()) : undefined;

const isObject = (value: unknown): value is Record<string, unknown> => typeof value === "object" && value !== null && !Array.isArray(value);

/** Respells every key of an answer. */
export const snakeKeys = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(snakeKeys);
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [snake(name), snakeKeys(member)]));
};

/** Respells every key of a request, except inside the members named in `verbatim`. Keys that cannot be ours are left out, as unknown ones are. */
export const camelKeys = (value: unknown, verbatim: readonly string[] | "all" = []): unknown => {
  if (verbatim === "all") return value;
  if (Array.isArray(value)) return value.map((entry) => camelKeys(entry));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).flatMap(([name, member]) => {
      const ours = camel(name);
      return ours === undefined ? [] : [[ours, verbatim.includes(ours) ? member : camelKeys(member)]];
    }),
  );
};

/** A problem's field as the caller spells it; header names stay, and so does what stands inside a `verbatim` member. */
export const wireField = (field: string, verbatim: readonly string[] | "all" = []): string => {
  if (verbatim === "all" || !/^[a-z]/.test(field)) return field;
  const [head = "", ...rest] = field.split(".");
  return verbatim.includes(head) ? [snake(head), ...rest].join(".") : snake(field);
};
