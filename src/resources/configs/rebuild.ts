import { z } from "zod";
import type { Problem } from "../../kernel/fault.js";
import { field, updateSchema } from "../../kernel/field.js";
import { route } from "../../kernel/route.js";
import { requireBalancer } from "../balancers/balancer.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { refuse } from "../instances/rules.js";
import { nodeBody } from "../nodes/fields.js";
import { type NodeRow, nodesOf } from "../nodes/node.js";
import { insertNode, recordNodeEvent } from "../nodes/routes.js";
import { type NodeWanted, nodeProblems } from "../nodes/rules.js";
import { type ConfigRow, type ConfigSettings, configView, requireConfig } from "./config.js";
import { configFields } from "./fields.js";
import { independentOf, updateConfig } from "./routes.js";
import { configProblems, mergedSettings } from "./rules.js";

type RebuildNode = NodeWanted & { id?: number | null | undefined };
type Rebuild = { [N in keyof ConfigSettings]?: ConfigSettings[N] | null | undefined } & { nodes?: readonly RebuildNode[] | undefined };

const rebuildFields = {
  ...configFields,
  nodes: field.secret(
    z.array(nodeBody.extend({ id: z.int().nullish() })),
    "All nodes it is to have: one with an `id` is updated, one without is created, and whatever is not in the list is removed.",
    { records: true, update: true },
  ),
};

/** What is wrong with the nodes of a rebuild; each is judged among the others of the list, since no other node stays. */
const rebuildProblems = (reader: Reader, cloud: Cloud, region: string, config: ConfigRow, nodes: readonly RebuildNode[] | undefined): Problem[] => {
  if (nodes === undefined) return [{ reason: "A value is required.", field: "nodes" }];
  const known = new Set(nodesOf(reader, config.id).map(({ id }) => id));
  return nodes.flatMap((node, index) => {
    const at = `nodes[${index}].`;
    const isTwice = nodes.slice(0, index).some(({ id }) => id && id === node.id);
    const strange =
      node.id && (isTwice || !known.has(node.id)) ? [{ reason: isTwice ? "Named twice." : "No node of this config has it.", field: `${at}id` }] : [];
    return [...strange, ...nodeProblems(reader, cloud, region, nodes.slice(0, index), node, at)];
  });
};

const updateNode = (tx: Tx, row: NodeRow, { label, address, weight, mode }: RebuildNode): NodeRow =>
  tx.update("node", row.id, { label, address, weight: weight ?? row.weight, mode: mode ?? row.mode });

/** Contract 8.3: a config and all its nodes in one commit, so that no request meets a half of it. */
export const rebuildRoute = route<Cloud, Rebuild>({
  method: "POST",
  path: "/v4/balancers/:balancerId/configs/:configId/rebuild",
  scope: "balancers",
  summary: "Updates a config profile and replaces its nodes at once.",
  body: updateSchema(rebuildFields),
  answers: "one",
  shows: "Config",
  rules: ({ cloud, params, body }, flagged) => {
    const row = requireConfig(cloud.store, params.balancerId, params.configId);
    const settings = configProblems(cloud.store, cloud, row.balancerId, row, mergedSettings(row, body)).problems;
    const { region } = requireBalancer(cloud.store, row.balancerId);
    return [...independentOf(flagged, settings), ...rebuildProblems(cloud.store, cloud, region, row, body.nodes)];
  },
  run: ({ cloud, params, body, caller }) =>
    cloud.store.commit((tx) => {
      const balancer = requireBalancer(tx, params.balancerId);
      const row = requireConfig(tx, balancer.id, params.configId);
      refuse([
        ...configProblems(tx, cloud, balancer.id, row, mergedSettings(row, body)).problems,
        ...rebuildProblems(tx, cloud, balancer.region, row, body.nodes),
      ]);
      const nodes = body.nodes ?? [];
      const stays = new Set(nodes.map(({ id }) => id));
      for (const node of nodesOf(tx, row.id).filter(({ id }) => !stays.has(id))) {
        tx.remove("node", node.id);
        recordNodeEvent(tx, cloud, balancer, node, "delete", caller?.username);
      }
      const updated = updateConfig(tx, cloud, balancer, row, body, caller?.username);
      for (const node of nodes) {
        const before = node.id ? tx.get("node", node.id) : undefined;
        if (before) recordNodeEvent(tx, cloud, balancer, updateNode(tx, before, node), "update", caller?.username);
        else insertNode(tx, cloud, balancer, updated, node, caller?.username);
      }
      return configView(cloud.store, updated, tx);
    }),
});
