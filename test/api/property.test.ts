import { Ajv2020, type ValidateFunction } from "ajv/dist/2020.js";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Json, send, startCloud, type TestCloud } from "../support/cloud.js";
import { bodies, filters, seeded } from "../support/hostile.js";
import { createBalancer, createConfig, createInstance, createNode, selfNaming, unheldAddress } from "./world.js";

/** Another number is another run; the same number is the same run. */
const seed = Number(process.env.PROPERTY_SEED ?? 20_180_402);
const bodiesEach = 12;
const together = 8;

interface Operation {
  method: string;
  path: string;
  described: Json;
}

let cloud: TestCloud;
let document: Json;
let operations: Operation[];
/** What stands for a path parameter: of a thing that is there, and of none. */
let known: Record<string, string>;

beforeAll(async () => {
  cloud = await startCloud();
  document = (await send(cloud.url, "GET", "/v4/openapi.json", {})).body;
  operations = Object.entries(document.paths as Json).flatMap(([path, item]) =>
    Object.entries(item as Json).map(([verb, described]) => ({ method: verb.toUpperCase(), path, described })),
  );
  const balancer = await createBalancer(cloud);
  const config = await createConfig(cloud, balancer.id);
  const node = await createNode(cloud, config, `${unheldAddress(cloud)}:80`);
  const instance = await createInstance(cloud, { booted: false, private_ip: true });
  known = {
    balancerId: balancer.id,
    configId: config.id,
    nodeId: node.id,
    instanceId: instance.id,
    address: instance.ipv4[0],
    id: "us-east",
    eventId: "1",
    username: "backlot",
  };
  // Whatever else can be made: collections whose first entry stands for the parameter of the path below them.
  for (const { path } of operations) {
    const [, collection = "", name = ""] = /^([^{]+)\/\{(\w+)\}$/.exec(path) ?? [];
    if (name === "" || known[name] !== undefined) continue;
    const { status, body } = await cloud.api.get(collection);
    if (status === 200 && body.data?.[0]) known[name] = String(body.data[0].id ?? body.data[0].label);
  }
});
afterAll(() => cloud.close());

const foreign = ["999999999", "0", "-1", "1e3", "%00", "..%2f..%2fx", "x".repeat(300), "%F0%9F%92%A9", "__proto__", "9".repeat(400)];

const errorShape = (body: Json): boolean =>
  Object.keys(body).join() === "errors" &&
  Array.isArray(body.errors) &&
  body.errors.length > 0 &&
  body.errors.every(
    (error: Json) =>
      typeof error.reason === "string" &&
      error.reason.length > 1 &&
      Object.keys(error).every((name) => name === "reason" || (name === "field" && typeof error.field === "string")),
  );

describe(`every route of the document, seed ${seed}`, () => {
  it("answers whatever comes below 500, in JSON, in the shape the document promises", async () => {
    const ajv = new Ajv2020({ strict: false, validateFormats: false, allErrors: true });
    ajv.addSchema(document, "api");
    const validators = new Map<string, ValidateFunction | undefined>();
    const shapeOf = ({ method, path }: Operation): ValidateFunction | undefined => {
      const place = `#/paths/${path.replaceAll("~", "~0").replaceAll("/", "~1").replaceAll("{", "%7B").replaceAll("}", "%7D")}/${method.toLowerCase()}/responses/200/content/application~1json/schema`;
      if (!validators.has(place)) validators.set(place, ajv.getSchema(`api${place}`));
      return validators.get(place);
    };
    const random = seeded(seed);
    /** The first of each kind an operation has. */
    const problems = new Map<string, string>();
    const statuses = new Map<number, number>();

    const ask = async (operation: Operation, path: string, body: string | undefined, headers: Record<string, string> = {}): Promise<void> => {
      const what = `${operation.method} ${path.slice(0, 120)} ${(body ?? "").slice(0, 300)} ${JSON.stringify(headers)}`;
      const answer = await send(
        cloud.url,
        operation.method,
        path,
        { Authorization: `Bearer ${cloud.token}`, ...headers },
        operation.method === "GET" ? undefined : body,
      ).catch((error: Error) => ({ status: 999, headers: {}, body: error.message }) as const);
      statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1);
      const blame = (text: string) =>
        void problems.set(
          `${operation.method} ${operation.path} ${text.slice(0, 60)}`,
          `${what}\n  -> ${answer.status} ${text}\n  ${JSON.stringify(answer.body)?.slice(0, 300)}`,
        );
      if (answer.status >= 500) return blame("is a failure of ours");
      if (answer.status === 204) return;
      const type = (answer.headers as Json)["content-type"];
      if (answer.status === 200 && operation.described.responses["200"].content["application/json"] === undefined) return;
      if (type !== "application/json") return blame(`came as ${type}`);
      if (answer.status >= 400) {
        if (!errorShape(answer.body)) return blame("is no error body");
        const named = selfNaming({ errors: answer.body.errors.map((error: Json) => ({ ...error, reason: error.reason.replace(/\/v4\S+/g, "") })) });
        if (named.length > 0) return blame(`repeats a field's name: ${JSON.stringify(named[0])}`);
        return;
      }
      const validate = shapeOf(operation);
      if (!validate) return blame("has no schema in the document");
      if (!validate(answer.body)) blame(`does not fit: ${ajv.errorsText(validate.errors).slice(0, 300)}`);
    };

    const fill = (path: string, values: (name: string) => string) => path.replace(/\{(\w+)\}/g, (_, name: string) => values(name));
    const jobs: Array<() => Promise<void>> = [];
    for (const operation of operations) {
      const { method, path, described } = operation;
      const parameters = [...path.matchAll(/\{(\w+)\}/g)];
      const schema = described.requestBody?.content?.["application/json"]?.schema;
      const isDelete = method === "DELETE";
      // What is there stays, so that there is something to ask about; a deletion is asked of what is not there.
      const real = fill(path, (name) => (isDelete || /^(username|tokenId|clientId)$/.test(name) ? "999999999" : String(known[name] ?? "1")));
      if (parameters.length > 0) {
        for (let count = 0; count < 4; count += 1) {
          const at = Math.floor(random() * foreign.length);
          const unlucky = fill(path, () => foreign[at] ?? "");
          const [body] = bodies(schema, random, 1);
          jobs.push(() => ask(operation, unlucky, body));
        }
      }
      if (method === "GET") {
        jobs.push(() => ask(operation, real, undefined));
        for (const query of ["?page=0&page_size=9999", "?page=99999999999999999999", "?page=2&page=3", "?x[y]=1&%00", "?page_size="]) {
          jobs.push(() => ask(operation, real + query, undefined));
        }
        const shown = (described.responses["200"].content["application/json"]?.schema?.properties?.data?.items?.$ref ?? "").split("/").pop();
        if (described.parameters?.some((parameter: Json) => parameter.name === "X-Filter")) {
          const names = Object.keys(document.components.schemas[shown]?.properties ?? {});
          for (const filter of filters(names, random)) jobs.push(() => ask(operation, real, undefined, { "X-Filter": filter }));
        }
        continue;
      }
      for (const body of bodies(schema, random, schema ? bodiesEach : 4)) jobs.push(() => ask(operation, real, body));
      jobs.push(() => ask(operation, real, "a=b", { "Content-Type": "application/x-www-form-urlencoded" }));
    }
    const queue = jobs.values();
    await Promise.all(
      Array.from({ length: together }, async () => {
        for (const job of queue) await job();
      }),
    );
    expect([...problems.values()].slice(0, 40).join("\n\n")).toBe("");
    expect(({} as Json).polluted).toBeUndefined();
    // Not hollow: the token still works, and enough got through to be judged by the schemas.
    expect((await cloud.api.get("/v4/account")).status).toBe(200);
    expect(statuses.get(200)).toBeGreaterThan(operations.length / 2);
    expect(statuses.get(400)).toBeGreaterThan(operations.length);
  });
});
