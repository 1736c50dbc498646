import { z } from "zod";
import { type FieldTable, viewSchema } from "../kernel/field.js";
import type { Route } from "../kernel/route.js";
import { snake } from "../kernel/snake.js";
import { acceptedScope } from "./auth.js";

type Json = Record<string, unknown>;

/** JSON Schema with every property respelled as it stands on the wire. */
const wireSchema = (schema: z.ZodType, io: "input" | "output"): Json => {
  const { $schema: _, ...json } = z.toJSONSchema(schema, { io, target: "draft-2020-12", unrepresentable: "any" }) as Json;
  return respelled(json) as Json;
};

const respelled = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(respelled);
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(
    Object.entries(value).map(([name, member]) => {
      if (name === "properties")
        return [name, Object.fromEntries(Object.entries(member as Json).map(([property, inner]) => [snake(property), respelled(inner)]))];
      if (name === "required") return [name, (member as string[]).map(snake)];
      return [name, name === "enum" || name === "const" || name === "pattern" ? member : respelled(member)];
    }),
  );
};

const errorResponse = {
  description: "Bad input or a failure, with every reason.",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Errors" } } },
};

const listOf = (item: Json): Json => ({
  type: "object",
  required: ["data", "page", "pages", "results"],
  properties: { data: { type: "array", items: item }, page: { type: "integer" }, pages: { type: "integer" }, results: { type: "integer" } },
});

const listParameters = [
  { name: "page", in: "query", schema: { type: "integer", minimum: 1, default: 1 } },
  { name: "page_size", in: "query", schema: { type: "integer", minimum: 1, maximum: 500, default: 100 } },
  { name: "X-Filter", in: "header", description: "JSON object that selects and orders entries.", schema: { type: "string" } },
];

const answered = (answers: Route<never>["answers"], shown: Json): Json =>
  ({ list: listOf(shown), array: { type: "array", items: shown }, one: shown, empty: { type: "object" }, png: {} })[answers];

const operation = (route: Route<never>): Json => {
  const names = [...route.path.matchAll(/[:*](\w+)/g)].map((match) => match[1] ?? "");
  const shown: Json = route.shows ? { $ref: `#/components/schemas/${route.shows}` } : { type: "object" };
  const parameters = names.map((name) => ({
    name,
    in: "path",
    required: true,
    schema: route.textParams?.includes(name) ? { type: "string" } : { type: "integer", minimum: 1 },
  }));
  const words = route.path.split(/[^a-zA-Z0-9]+/);
  return {
    operationId: `${route.method.toLowerCase()}${words.map((word) => word.charAt(0).toUpperCase() + word.slice(1)).join("")}`,
    summary: route.summary,
    ...(parameters.length > 0 || route.answers === "list"
      ? { parameters: [...parameters, ...(route.answers === "list" ? listParameters : [])] }
      : {}),
    ...(route.scope === null ? { security: [{}, { bearer: [] }] } : { description: `Scope: \`${acceptedScope(route.scope, route.method)}\`.` }),
    ...(route.takes ? { requestBody: { required: true, content: { [route.takes]: {} } } } : {}),
    ...(route.body ? { requestBody: { content: { "application/json": { schema: wireSchema(route.body.schema, "input") } } } } : {}),
    responses: {
      "200": {
        description: route.answers === "empty" ? "Done; an empty object." : "Success.",
        content: route.answers === "png" ? { "image/png": {} } : { "application/json": { schema: answered(route.answers, shown) } },
      },
      ...(route.nothing === undefined ? {} : { "204": { description: route.nothing } }),
      default: errorResponse,
    },
  };
};

/** OpenAPI 3.1, derived from the routes and the field tables; nothing is written by hand twice. */
export const openApiDocument = (routes: readonly Route<never>[], shapes: Record<string, FieldTable>, version: string): Json => {
  const paths: Record<string, Json> = {};
  for (const route of routes) {
    const path = route.path.replace(/[:*](\w+)/g, "{$1}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: operation(route) };
  }
  return {
    openapi: "3.1.0",
    info: {
      title: "Backlot",
      version,
      description: "A local cloud whose answers are true: the native dialect of the version 4 API.",
      license: { name: "Apache-2.0", identifier: "Apache-2.0" },
    },
    servers: [{ url: "/" }],
    security: [{ bearer: [] }],
    paths,
    components: {
      securitySchemes: { bearer: { type: "http", scheme: "bearer" } },
      schemas: {
        ...Object.fromEntries(Object.entries(shapes).map(([name, table]) => [name, wireSchema(viewSchema(table), "output")])),
        Errors: {
          type: "object",
          required: ["errors"],
          properties: {
            errors: {
              type: "array",
              items: { type: "object", required: ["reason"], properties: { reason: { type: "string" }, field: { type: "string" } } },
            },
          },
        },
      },
    },
  };
};
