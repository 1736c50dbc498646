import type { Json } from "./cloud.js";

/** Numbers from 0 to 1 that are the same for the same seed (mulberry32's recurrence). */
export const seeded = (seed: number): (() => number) => {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
};

type Random = () => number;
const pick = <T>(random: Random, from: readonly T[]): T => from[Math.floor(random() * from.length)] as T;

const nested = (levels: number): Json => {
  let value: Json = "deep";
  for (let level = 0; level < levels; level += 1) value = level % 2 === 0 ? [value] : { a: value };
  return value;
};

/** What no member expects. */
const hostileValues: readonly Json[] = [
  null,
  true,
  false,
  0,
  -1,
  1.5,
  2 ** 31,
  2 ** 53,
  1e308,
  -1e308,
  "",
  " ",
  "\u0000\u0001\u001f",
  "a\r\nb: c",
  "../../etc/passwd",
  "'; DROP TABLE x; --",
  "\ud800",
  "ẞ𝕏\u202e",
  "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----",
  "192.168.999.1:80",
  "x".repeat(70_000),
  [],
  {},
  [null],
  [[[]]],
  [{}],
  { "": "" },
  { constructor: { prototype: { polluted: 1 } } },
  nested(20),
];

/** A value that fits a JSON schema, more or less: near enough to get past the first check. */
const fitting = (schema: Json, random: Random, depth = 0): Json => {
  if (schema === undefined || depth > 6) return "x";
  if (schema.const !== undefined) return schema.const;
  if (schema.enum) return pick(random, schema.enum);
  const options = schema.anyOf ?? schema.oneOf;
  if (options) return fitting(pick(random, options), random, depth + 1);
  switch (schema.type) {
    case "object":
      return Object.fromEntries(
        Object.entries(schema.properties ?? {})
          .filter(([name]) => schema.required?.includes(name) || random() < 0.6)
          .map(([name, inner]) => [name, fitting(inner, random, depth + 1)]),
      );
    case "array":
      return Array.from({ length: Math.floor(random() * 3) }, () => fitting(schema.items, random, depth + 1));
    case "integer":
    case "number": {
      const least = Math.max(schema.minimum ?? 0, -1000);
      return least + Math.floor(random() * (Math.min(schema.maximum ?? 100, least + 1000) - least + 1));
    }
    case "boolean":
      return random() < 0.5;
    case "null":
      return null;
    default:
      return pick(random, [
        "us-east",
        "g6-nanode-1",
        "cloud/debian12",
        "thing-1",
        "A",
        "Curtain-7-Call",
        "a@example.test",
        "example.test",
        "192.0.2.1",
        "GET",
      ]);
  }
};

/** Bodies for one schema: a fitting one, and each way of being wrong. Texts are sent as they are. */
export const bodies = (schema: Json, random: Random, count: number): Array<string | undefined> => {
  const near = () => fitting(schema, random);
  const oneWrong = (): Json => {
    const value = near();
    const names = Object.keys(schema?.properties ?? { anything: 1 });
    return { ...value, [pick(random, names)]: pick(random, hostileValues) };
  };
  const allWrong = (): Json => Object.fromEntries(Object.keys(schema?.properties ?? {}).map((name) => [name, pick(random, hostileValues)]));
  const ways: ReadonlyArray<() => string | undefined> = [
    () => JSON.stringify(oneWrong()),
    () => JSON.stringify(oneWrong()),
    () => JSON.stringify(near()),
    () => JSON.stringify(allWrong()),
    () => undefined,
    () => "{}",
    () => JSON.stringify(pick(random, [[], [1], "text", 5, null, true])),
    () =>
      `{"__proto__":{"polluted":1},"constructor":{"prototype":{"polluted":1}},"toString":1,${JSON.stringify(near()).slice(1) || "}"}`.replace(
        /,}$/,
        "}",
      ),
    () => pick(random, ["{", '{"a":', "\u0000", "nonsense", '{"a":1}}', "[".repeat(100_000)]),
    () => `{"a":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
    () => JSON.stringify({ ...near(), [`unknown_${Math.floor(random() * 100)}`]: pick(random, hostileValues), deep: nested(100) }),
    () => JSON.stringify(Object.fromEntries(Object.entries(near()).slice(1))),
  ];
  return ways
    .concat(Array.from({ length: Math.max(0, count - ways.length) }, () => ways[0] as () => string))
    .slice(0, count)
    .map((way) => way());
};

/** Values of `X-Filter` that may be anything; header bytes only. */
export const filters = (names: readonly string[], random: Random): string[] => {
  const name = names.length > 0 ? pick(random, names) : "id";
  return [
    "{",
    "[]",
    "null",
    '{"__proto__":1}',
    '{"+or":5}',
    '{"+and":[{"+or":[{}]}]}',
    '{"+order_by":"nothing","+order":"sideways"}',
    `{"+or":${"[".repeat(50)}${"]".repeat(50)}}`,
    JSON.stringify({ [name]: pick(random, [null, 5, "x", true, [], { "+gt": {} }, { "+contains": [] }, { "+nothing": 1 }]) }),
    JSON.stringify({ [name]: { "+neq": "x" }, "+order_by": name, "+order": "desc" }),
  ];
};
