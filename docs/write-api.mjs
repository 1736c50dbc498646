// Writes docs/api.md from the built tables: `npm run docs`. With --check it only says whether the file is what the tables say.
import { readFileSync, writeFileSync } from "node:fs";
import { spoken } from "../dist/http/dialects/dialect.js";
import { absentCollections } from "../dist/resources/absent/absent.js";
import { routes, shapes } from "../dist/resources/index.js";

const target = new URL("api.md", import.meta.url);
const publicEndpoints = JSON.parse(readFileSync(new URL("public-endpoints.json", import.meta.url), "utf8"));

/** Endpoints that keep what they are told, or show catalogue data, and change nothing beyond the record; everything else does what it says. */
const recordOnly = [
  /^PUT \/v4\/account$/,
  /^(GET|POST) \/v4\/account\/agreements$/,
  /^(GET|POST) \/v4\/account\/payments(\/:paymentId)?$/,
  /^POST \/v4\/account\/credit-card$/,
  /\/v4\/account\/payment-methods/,
  /^GET \/v4\/maintenance\/policies$/,
  /^GET \/v4\/(regions|regions\/:id|account)\/availability/,
  /^PUT \/v4\/profile$/,
  /\/v4\/profile\/preferences$/,
  /\/v4\/tags/,
  /\/v4\/cloud\/kernels/,
  /^GET \/v4\/cloud\/instances\/:instanceId\/configs\/:configId\/interfaces$/,
];
/** Lists of what is not here, beside the collections that are not built at all. */
const empty = [
  /^GET \/v4\/cloud\/instances\/:instanceId\/(firewalls|interfaces)$/,
  /^(GET|DELETE) \/v4\/profile\/devices/,
  /^GET \/v4\/profile\/security-questions$/,
];
/** Endpoints that are there to say no, with the reason, say so first. */
const isRefused = ({ summary }) => summary.startsWith("Refused");

const nameOf = (route) => `${route.method} ${route.path}`;
for (const pattern of [...recordOnly, ...empty]) {
  const met = routes.filter((route) => pattern.test(nameOf(route)));
  if (met.length === 0 || met.every(isRefused)) throw new Error(`${pattern} is about no endpoint that there is.`);
}

const snake = (name) => name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const cell = (text) => text.replaceAll("|", "\\|").replaceAll("\n", " ");
const table = (head, rows) =>
  [head, head.map(() => "---"), ...rows].map((cells) => `| ${cells.map((text) => cell(String(text))).join(" | ")} |`).join("\n");

const setters = { read: "we", create: "you, once", write: "you", secret: "you, not shown" };
const sources = { description: "description", ours: "ours" };

/** The type in a word or two. */
const typeOf = (schema) => {
  const definition = schema.def;
  switch (definition.type) {
    case "optional":
    case "default":
    case "pipe":
    case "transform":
    case "readonly":
      return typeOf(definition.innerType ?? definition.in);
    case "nullable":
      return `${typeOf(definition.innerType)} or null`;
    case "array":
      return `list of ${typeOf(definition.element)}`;
    case "enum":
      return Object.values(definition.entries)
        .map((value) => `\`${value}\``)
        .join(", ");
    case "literal":
      return definition.values.map((value) => `\`${value}\``).join(", ");
    case "union":
      return [...new Set(definition.options.map(typeOf))].join(" or ");
    case "record":
      return "object";
    case "int":
      return "integer";
    case "number":
      return definition.checks?.some((check) => check._zod?.def?.format === "safeint") || definition.format === "safeint" ? "integer" : "number";
    case "unknown":
    case "any":
      return "anything";
    default:
      return definition.type;
  }
};

const kindOf = (route) => {
  if (isRefused(route)) return "refused, with the reason";
  const isAbsent = absentCollections.some(({ path }) => path === route.path) && /^Always empty/.test(route.summary);
  if (isAbsent || empty.some((pattern) => pattern.test(nameOf(route)))) return "empty list";
  return recordOnly.some((pattern) => pattern.test(nameOf(route))) ? "record only" : "real";
};

const scopeOf = ({ scope, method }) => {
  if (scope === null) return "none";
  if (scope === "*" || scope === "any") return scope === "*" ? "full rights" : "any token";
  const level = method === "GET" ? "read_only" : "read_write";
  return [scope]
    .flat()
    .map((word) => (word.includes(":") ? word : `${word}:${level}`))
    .join(" and ");
};

const fieldTable = (fields) =>
  table(
    ["member", "type", "set by", "required", "filter", "says so", "what it is"],
    Object.entries(fields).map(([name, { setter, schema, options, note }]) => [
      `\`${snake(name)}\``,
      typeOf(schema),
      setters[setter],
      options.required ? "yes" : "",
      options.filter ? "yes" : "",
      sources[options.source] ?? "public API",
      note,
    ]),
  );

/** Members of requests that are not members of what the answer shows, by endpoint. */
const furtherMembers = routes.flatMap((route) => {
  const shown = route.shows ? shapes[route.shows] : {};
  return Object.entries(route.body?.schema.shape ?? {})
    .filter(([name]) => shown[name] === undefined)
    .map(([name, schema]) => [
      `${route.method} \`${route.path}\``,
      `\`${snake(name)}\``,
      typeOf(schema),
      schema.safeParse(undefined).success ? "" : "yes",
      sources[route.body.sources[name]] ?? "public API",
      schema.description ?? "",
    ]);
});

const plainPath = (path) => path.replace(/[:*]\w+|\{\w+\}/g, "{}");
const served = new Map(routes.map((route) => [`${route.method} ${plainPath(route.path)}`, route]));
const coverage = publicEndpoints.map((line) => {
  const [method, path] = line.split(" ");
  const ours = spoken(path.replaceAll(/\{(\w+)\}/g, "{}"), "native").url;
  const route = served.get(`${method} ${plainPath(ours)}`);
  return [
    method,
    `\`${path}\``,
    route && route.path !== path.replaceAll(/\{(\w+)\}/g, ":$1") ? `\`${route.path}\`` : "",
    route ? kindOf(route) : "absent",
  ];
});
const counted = [...new Set(coverage.map((row) => row[3]))].map((kind) => [kind, coverage.filter((row) => row[3] === kind)]);

const text = `# The API, from its tables

Written by \`npm run docs\`; \`npm run check\` fails when it is not what the tables say. The same as OpenAPI 3.1: \`/v4/openapi.json\`.

Paths and members are in the description's spelling. The public Linode spelling of the same rows is at \`/v4beta\`, at the paths that only it
has, and on all of \`/v4\` at the port that \`--linode-port\` opens ([decision 012](decisions/012-wire.md)).

**says so**: *description*: the service description states the member; *public API*: the public vendor's API of the same service has it;
*ours*: neither does. **what it does**: *real*: something beyond the record happens, or is measured; *record only*: kept and shown;
*empty list*: nothing of the kind is here, and it says so.

## Endpoints

${table(
  ["method", "path", "scope", "shows", "what it does", "summary"],
  [...routes]
    .sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0))
    .map((route) => [
      route.method,
      `\`${route.path}\``,
      scopeOf(route),
      route.shows ? `[${route.shows}](#${route.shows.toLowerCase()})` : "",
      kindOf(route),
      route.summary,
    ]),
)}

## Members

${Object.entries(shapes)
  .map(([name, fields]) => `### ${name}\n\n${fieldTable(fields)}`)
  .join("\n\n")}

## Further members of requests

What these endpoints take besides, or instead of, the members above.

${table(["endpoint", "member", "type", "required", "says so", "what it is"], furtherMembers)}

## Coverage of the public API

Every method and path that the public API is known to have (${coverage.length}), and what Backlot does there: ${counted
  .map(([kind, rows]) => `${rows.length} ${kind}`)
  .join(", ")}.

${table(["method", "public path", "path here, when different", "what it does"], coverage)}
`;

if (process.argv.includes("--check")) {
  let current = "";
  try {
    current = readFileSync(target, "utf8");
  } catch {
    // Not written yet: that is stale, too.
  }
  if (current !== text) {
    process.stderr.write("docs/api.md is not what the tables say; run `npm run docs` and commit it.\n");
    process.exitCode = 1;
  } else process.stdout.write(`docs/api.md: ${routes.length} endpoints, as the tables say\n`);
} else {
  writeFileSync(target, text);
  process.stdout.write(`docs/api.md: ${routes.length} endpoints\n`);
}
