import { notFound } from "../../kernel/fault.js";
import { type CreateBody, createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import { type BalancerRow, balancerEntity, requireBalancer } from "../balancers/balancer.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { type ConfigRow, requireConfig } from "../configs/config.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { nodeFields } from "./fields.js";
import { type NodeRow, nodesOf, nodeView } from "./node.js";
import { type NodeWanted, nodeProblems } from "./rules.js";

export const recordNodeEvent = (tx: Tx, cloud: Cloud, balancer: BalancerRow, row: NodeRow, change: string, username: string | undefined): void => {
  const secondary = { kind: "node" as const, id: row.id, label: row.label, parentId: balancer.id, configId: row.configId };
  recordEvent(tx, cloud, { action: `balancer_node_${change}`, entity: balancerEntity(balancer), secondary, username: username ?? null });
};

/** Inserts a node that was found without problems. Contract 8.4: weight 50, mode accept. */
export const insertNode = (
  tx: Tx,
  cloud: Cloud,
  balancer: BalancerRow,
  config: ConfigRow,
  wanted: NodeWanted,
  username: string | undefined,
): NodeRow => {
  const row = tx.insert("node", {
    balancerId: balancer.id,
    configId: config.id,
    label: wanted.label,
    address: wanted.address,
    weight: wanted.weight ?? 50,
    mode: wanted.mode ?? "accept",
  });
  recordNodeEvent(tx, cloud, balancer, row, "create", username);
  return row;
};

const requireNode = (reader: Pick<CloudStore | Tx, "get">, config: ConfigRow, id: number | undefined): NodeRow => {
  const row = reader.get("node", id ?? 0);
  if (!row || row.configId !== config.id) throw notFound();
  return row;
};

const place = (reader: Pick<CloudStore | Tx, "get">, params: Record<string, number>) => {
  const balancer = requireBalancer(reader, params.balancerId);
  return { balancer, config: requireConfig(reader, balancer.id, params.configId) };
};

const collection = "/v4/balancers/:balancerId/configs/:configId/nodes";

export const nodeRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: collection,
    scope: "balancers",
    summary: "Lists a config's nodes.",
    answers: "list",
    shows: "Node",
    run: ({ cloud, params }): Listing<NodeRow> => ({
      rows: nodesOf(cloud.store, place(cloud.store, params).config.id),
      view: (row) => nodeView(cloud.store, row),
      filterable: filterableNames(nodeFields),
      fieldValue: (row, name) => row[name as keyof NodeRow],
    }),
  }),
  route<Cloud, CreateBody<typeof nodeFields>>({
    method: "POST",
    path: collection,
    scope: "balancers",
    summary: "Adds a back end.",
    body: createSchema(nodeFields),
    answers: "one",
    shows: "Node",
    rules: ({ cloud, params, body }) => {
      const { balancer, config } = place(cloud.store, params);
      return nodeProblems(cloud.store, cloud, balancer.region, nodesOf(cloud.store, config.id), body);
    },
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const { balancer, config } = place(tx, params);
        refuse(nodeProblems(tx, cloud, balancer.region, nodesOf(tx, config.id), body));
        return nodeView(cloud.store, insertNode(tx, cloud, balancer, config, body, caller?.username));
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: `${collection}/:nodeId`,
    scope: "balancers",
    summary: "Reads a node with its health.",
    answers: "one",
    shows: "Node",
    run: ({ cloud, params }) => nodeView(cloud.store, requireNode(cloud.store, place(cloud.store, params).config, params.nodeId)),
  }),
  route<Cloud, UpdateBody<typeof nodeFields>>({
    method: "PUT",
    path: `${collection}/:nodeId`,
    scope: "balancers",
    summary: "Updates a node; members left out stay.",
    body: updateSchema(nodeFields),
    answers: "one",
    shows: "Node",
    rules: ({ cloud, params, body }) => {
      const { balancer, config } = place(cloud.store, params);
      const row = requireNode(cloud.store, config, params.nodeId);
      const siblings = nodesOf(cloud.store, config.id).filter((other) => other.id !== row.id);
      return nodeProblems(cloud.store, cloud, balancer.region, siblings, body);
    },
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const { balancer, config } = place(tx, params);
        const row = requireNode(tx, config, params.nodeId);
        const siblings = nodesOf(tx, config.id).filter((other) => other.id !== row.id);
        refuse(nodeProblems(tx, cloud, balancer.region, siblings, body));
        const updated = tx.update("node", row.id, {
          label: body.label ?? row.label,
          address: body.address ?? row.address,
          weight: body.weight ?? row.weight,
          mode: body.mode ?? row.mode,
        });
        recordNodeEvent(tx, cloud, balancer, updated, "update", caller?.username);
        return nodeView(cloud.store, updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: `${collection}/:nodeId`,
    scope: "balancers",
    summary: "Removes a back end.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const { balancer, config } = place(tx, params);
        const row = requireNode(tx, config, params.nodeId);
        tx.remove("node", row.id);
        recordNodeEvent(tx, cloud, balancer, row, "delete", caller?.username);
      }),
  }),
];
