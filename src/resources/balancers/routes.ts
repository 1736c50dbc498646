import type { Problem } from "../../kernel/fault.js";
import { createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { configsOf } from "../configs/config.js";
import { type ConfigWanted, insertConfig, newConfigProblems, removeConfig } from "../configs/routes.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { type BalancerRow, balancerEntity, balancerView, freeBalancerAddress, requireBalancer } from "./balancer.js";
import { balancerFields } from "./fields.js";
import { balancerStats } from "./stats.js";

interface BalancerWanted {
  label: string;
  region: string;
  clientConnThrottle?: number;
  clientUdpSessThrottle?: number;
  tags?: string[];
  configs?: ConfigWanted[];
}

const byLabel = (row: BalancerRow) => row.label;

const labelProblems = (tx: Reader, label: string | undefined, except: number | null): Problem[] =>
  label !== undefined && tx.find("balancer", byLabel, label).some((row) => row.id !== except)
    ? [{ reason: "Another balancer has it; it must be unique.", field: "label" }]
    : [];

const createProblems = (tx: Reader, cloud: Cloud, body: Partial<BalancerWanted>, flagged: ReadonlySet<string> = new Set()): Problem[] => {
  const isRegion = cloud.catalogue.regions.some((entry) => entry.id === body.region);
  const region = isRegion ? (body.region ?? null) : null;
  const configs = body.configs ?? [];
  const isPortKnown = (index: number) => !["port", "protocol"].some((name) => flagged.has(`configs[${index}].${name}`));
  // What was refused has a name of its own, so that it is nobody's rival.
  const ports = configs.map((config, index) =>
    isPortKnown(index) ? `${config.protocol === "udp" ? "udp" : "tcp"} ${config.port ?? 80}` : `refused ${index}`,
  );
  return [
    ...labelProblems(tx, body.label, null),
    ...(isRegion ? [] : [{ reason: "Unknown id; see /v4/regions.", field: "region" }]),
    ...ports.flatMap((port, index) =>
      ports.indexOf(port) < index ? [{ reason: "Another config in this request has it; it must be unique.", field: `configs[${index}].port` }] : [],
    ),
    ...configs.flatMap((config, index) => newConfigProblems(tx, cloud, { id: null, region }, config, flagged, `configs[${index}].`)),
  ];
};

const createBalancer = (tx: Tx, cloud: Cloud, body: BalancerWanted, username: string | undefined): BalancerRow => {
  refuse(createProblems(tx, cloud, body));
  const now = cloud.clock.now();
  const row = tx.insert("balancer", {
    label: body.label,
    region: body.region,
    clientConnThrottle: body.clientConnThrottle ?? 0,
    clientUdpSessThrottle: body.clientUdpSessThrottle ?? 0,
    ipv4: freeBalancerAddress(tx, cloud.settings.balancerAddresses),
    tags: body.tags ?? [],
    createdMs: now,
    updatedMs: now,
  });
  recordEvent(tx, cloud, { action: "balancer_create", entity: balancerEntity(row), username: username ?? null });
  for (const config of body.configs ?? []) insertConfig(tx, cloud, row, config, username);
  return row;
};

export const balancerRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/balancers",
    scope: "balancers",
    summary: "Lists the account's balancers.",
    answers: "list",
    shows: "Balancer",
    run: ({ cloud }): Listing<BalancerRow> => ({
      rows: cloud.store.list("balancer"),
      view: (row) => balancerView(cloud, row),
      filterable: filterableNames(balancerFields),
      fieldValue: (row, name) => row[name as keyof BalancerRow],
    }),
  }),
  route<Cloud, BalancerWanted>({
    method: "POST",
    path: "/v4/balancers",
    scope: "balancers",
    summary: "Creates a balancer, with configs and nodes when they are given.",
    body: createSchema(balancerFields) as never,
    answers: "one",
    shows: "Balancer",
    rules: ({ cloud, body }, flagged) => createProblems(cloud.store, cloud, body, flagged),
    run: ({ cloud, body, caller }) => cloud.store.commit((tx) => balancerView(cloud, createBalancer(tx, cloud, body, caller?.username))),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/balancers/:balancerId",
    scope: "balancers",
    summary: "Reads one balancer.",
    answers: "one",
    shows: "Balancer",
    run: ({ cloud, params }) => balancerView(cloud, requireBalancer(cloud.store, params.balancerId)),
  }),
  route<Cloud, UpdateBody<typeof balancerFields>>({
    method: "PUT",
    path: "/v4/balancers/:balancerId",
    scope: "balancers",
    summary: "Updates a balancer; members left out stay.",
    body: updateSchema(balancerFields),
    answers: "one",
    shows: "Balancer",
    rules: ({ cloud, params, body }) => labelProblems(cloud.store, body.label, requireBalancer(cloud.store, params.balancerId).id),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireBalancer(tx, params.balancerId);
        refuse(labelProblems(tx, body.label, row.id));
        const updated = tx.update("balancer", row.id, {
          label: body.label ?? row.label,
          clientConnThrottle: body.clientConnThrottle ?? row.clientConnThrottle,
          clientUdpSessThrottle: body.clientUdpSessThrottle ?? row.clientUdpSessThrottle,
          tags: body.tags ?? row.tags,
          updatedMs: cloud.clock.now(),
        });
        recordEvent(tx, cloud, { action: "balancer_update", entity: balancerEntity(updated), username: caller?.username ?? null });
        return balancerView(cloud, updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/balancers/:balancerId/stats",
    scope: "balancers",
    summary: "New connections and bits a second over the last day, a point every five minutes (before `--speed`).",
    answers: "one",
    run: ({ cloud, params }) => balancerStats(cloud, requireBalancer(cloud.store, params.balancerId)),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/balancers/:balancerId",
    scope: "balancers",
    summary: "Deletes a balancer with its configs and nodes; its ports are freed.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireBalancer(tx, params.balancerId);
        for (const config of configsOf(tx, row.id)) removeConfig(tx, config);
        tx.remove("balancer", row.id);
        recordEvent(tx, cloud, { action: "balancer_delete", entity: balancerEntity(row), username: caller?.username ?? null });
      }),
  }),
];
