import { z } from "zod";
import { Fault, notFound, type Problem } from "../kernel/fault.js";
import { customSchema } from "../kernel/field.js";
import { type Route, route } from "../kernel/route.js";

/** What our own endpoints need of the house; `main` provides it. Answers are in our spelling, respelled on the way out. */
export interface Operator {
  health(): object;
  capabilities(): object;
  /** Where names are answered; undefined without a name server. */
  dns(): object | undefined;
  /** Where an instance really is; undefined when there is none. */
  instance(id: number): Promise<object | undefined>;
  dial(address: string, port: number): { host: string; port: number } | undefined;
  /** What the running billing month cost so far, and the bytes behind this calendar month's transfer. */
  costs(): object;
  /** What the balancers' listeners and nodes did since the start. */
  stats(): Promise<object>;
  /** A node's last 50 measurements; undefined when there is no such node. */
  probes(node: number): object | undefined;
  /** SIGKILL to the machine; false when there is no such instance. */
  kill(instance: number): Promise<boolean>;
  /** Begins the clean stop; the answer leaves first. `machines`: what becomes of them, instead of what the start was told. */
  stop(machines: "keep" | "stop" | undefined): void;
}

const found = <V>(value: V | undefined): V => {
  if (value === undefined) throw notFound();
  return value;
};

const dialProblems = ({ dial }: Operator, query: Record<string, string | undefined>): Problem[] => {
  const problems: Problem[] = [];
  const port = Number(query.port);
  if (query.address === undefined) problems.push({ reason: "A value is required.", field: "address" });
  else if (!dial(query.address, 1)) problems.push({ reason: "Lies in neither pool.", field: "address" });
  if (query.port === undefined) problems.push({ reason: "A value is required.", field: "port" });
  else if (!Number.isInteger(port) || port < 1 || port > 65535) problems.push({ reason: "Must be 1-65535", field: "port" });
  return problems;
};

/** For whoever opens the base URL in a browser. */
const signpost = {
  backlot: "This is a Backlot: a local cloud. Its API is under /v4.",
  authentication: "Authorization: Bearer TOKEN, with the token that the start printed",
  openapi: "/v4/openapi.json",
  capabilities: "/_backlot/capabilities",
  health: "/_backlot/health",
};

/** Backlot's own endpoints: nothing of ours is mixed into `/v4`. Scope `*` wants a full-rights token. */
export const backlotRoutes: readonly Route<Operator>[] = [
  route<Operator, undefined>({
    method: "GET",
    path: "/",
    scope: null,
    summary: "Says where to go from here.",
    answers: "one",
    run: () => signpost,
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/health",
    scope: null,
    summary: "Says that it serves.",
    answers: "one",
    run: ({ cloud }) => cloud.health(),
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/capabilities",
    scope: null,
    summary: "What is real here and what is not.",
    answers: "one",
    run: ({ cloud }) => cloud.capabilities(),
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/dns",
    scope: null,
    summary: "Where names are answered, and for whom.",
    answers: "one",
    run: ({ cloud }) => found(cloud.dns()),
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/instances/:instanceId",
    scope: "*",
    summary: "Where an instance really is.",
    answers: "one",
    run: async ({ cloud, params }) => found(await cloud.instance(params.instanceId ?? 0)),
  }),
  route<Operator, undefined>({
    method: "POST",
    path: "/_backlot/instances/:instanceId/kill",
    scope: "*",
    summary: "Kills the machine as a crash would.",
    answers: "empty",
    run: async ({ cloud, params }) => {
      if (!(await cloud.kill(params.instanceId ?? 0))) throw notFound();
    },
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/nodes/:nodeId/probes",
    scope: "*",
    summary: "The last 50 health checks of a node.",
    answers: "one",
    run: ({ cloud, params }) => found(cloud.probes(params.nodeId ?? 0)),
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/costs",
    scope: "*",
    summary: "What everything cost so far this billing month, and the bytes it carried this calendar month.",
    answers: "one",
    run: ({ cloud }) => cloud.costs(),
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/stats",
    scope: "*",
    summary: "What every listener and node did since the start: requests, bytes, errors, open connections, latency.",
    answers: "one",
    run: ({ cloud }) => cloud.stats(),
  }),
  route<Operator, undefined>({
    method: "GET",
    path: "/_backlot/dial",
    query: ["address", "port"],
    scope: "*",
    summary: "How a process on this machine reaches an address of an instance.",
    answers: "one",
    rules: ({ cloud, query }) => dialProblems(cloud, query),
    run: ({ cloud, query }) => {
      const problems = dialProblems(cloud, query);
      if (problems.length > 0) throw new Fault("invalid", problems);
      return cloud.dial(query.address ?? "", Number(query.port));
    },
  }),
  route<Operator, { machines?: "keep" | "stop" | undefined }>({
    method: "POST",
    path: "/_backlot/stop",
    scope: "*",
    summary: "Stops Backlot cleanly.",
    body: customSchema(z.object({ machines: z.enum(["keep", "stop"]).optional() })),
    answers: "empty",
    run: ({ cloud, body }) => cloud.stop(body.machines),
  }),
];
