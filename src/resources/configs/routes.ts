import type { Problem } from "../../kernel/fault.js";
import { createSchema, filterableNames, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import { type BalancerRow, balancerEntity, requireBalancer } from "../balancers/balancer.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { nodesOf } from "../nodes/node.js";
import { insertNode } from "../nodes/routes.js";
import { type NodeWanted, nodeProblems } from "../nodes/rules.js";
import { type ConfigRow, type ConfigSettings, configEntity, configsOf, configView, requireConfig } from "./config.js";
import { configFields } from "./fields.js";
import { type CertificateJudgement, configProblems, mergedSettings } from "./rules.js";

export type ConfigWanted = { [N in keyof ConfigSettings]?: ConfigSettings[N] | null | undefined } & { nodes?: readonly NodeWanted[] | undefined };

const tellWarnings = (tx: Tx, cloud: Cloud, row: ConfigRow, judgement: CertificateJudgement, username: string | undefined): void => {
  for (const message of judgement.warnings) {
    recordEvent(tx, cloud, { action: "balancer_certificate_warning", entity: configEntity(row), username: username ?? null, message });
  }
};

const recordConfigEvent = (tx: Tx, cloud: Cloud, balancer: BalancerRow, row: ConfigRow, change: string, username: string | undefined): void => {
  recordEvent(tx, cloud, {
    action: `balancer_config_${change}`,
    entity: balancerEntity(balancer),
    secondary: configEntity(row),
    username: username ?? null,
  });
};

/** Leaves out what the rules say for a reason that is itself refused: the protocol decides over most members, the timeout over the interval. */
export const independentOf = (flagged: ReadonlySet<string>, problems: readonly Problem[], at = ""): Problem[] =>
  problems.filter(({ field }) => !flagged.has(`${at}protocol`) && !(flagged.has(`${at}checkTimeout`) && field === `${at}checkInterval`));

/** What is wrong with a new config and its nodes; `at` prefixes the fields, as in `configs[0].`, and `flagged` what was refused already. */
export const newConfigProblems = (
  tx: Reader,
  cloud: Cloud,
  balancer: { id: number | null; region: string | null },
  wanted: ConfigWanted,
  flagged: ReadonlySet<string> = new Set(),
  at = "",
) => {
  const nodes = wanted.nodes ?? [];
  return [
    ...independentOf(flagged, configProblems(tx, cloud, balancer.id, null, mergedSettings(undefined, wanted), at).problems, at),
    ...nodes.flatMap((node, index) => nodeProblems(tx, cloud, balancer.region, nodes.slice(0, index), node, `${at}nodes[${index}].`)),
  ];
};

/** Inserts a config that was found without problems, with its nodes and events. */
export const insertConfig = (tx: Tx, cloud: Cloud, balancer: BalancerRow, wanted: ConfigWanted, username: string | undefined): ConfigRow => {
  const settings = mergedSettings(undefined, wanted);
  const judgement = configProblems(tx, cloud, null, null, settings);
  const row = tx.insert("config", {
    ...settings,
    balancerId: balancer.id,
    sslCommonname: judgement.commonName,
    sslFingerprint: judgement.fingerprint,
  });
  recordConfigEvent(tx, cloud, balancer, row, "create", username);
  tellWarnings(tx, cloud, row, judgement, username);
  for (const node of wanted.nodes ?? []) insertNode(tx, cloud, balancer, row, node, username);
  return row;
};

/** Changes a config that was found without problems, with its events. */
export const updateConfig = (
  tx: Tx,
  cloud: Cloud,
  balancer: BalancerRow,
  row: ConfigRow,
  wanted: ConfigWanted,
  username: string | undefined,
): ConfigRow => {
  const settings = mergedSettings(row, wanted);
  const judgement = configProblems(tx, cloud, balancer.id, row, settings);
  const updated = tx.update("config", row.id, { ...settings, sslCommonname: judgement.commonName, sslFingerprint: judgement.fingerprint });
  recordConfigEvent(tx, cloud, balancer, updated, "update", username);
  tellWarnings(tx, cloud, updated, judgement, username);
  return updated;
};

/** Removes a config and its nodes. */
export const removeConfig = (tx: Tx, row: ConfigRow): void => {
  for (const node of nodesOf(tx, row.id)) tx.remove("node", node.id);
  tx.remove("config", row.id);
};

export const configRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/balancers/:balancerId/configs",
    scope: "balancers",
    summary: "Lists a balancer's config profiles.",
    answers: "list",
    shows: "Config",
    run: ({ cloud, params }): Listing<ConfigRow> => ({
      rows: configsOf(cloud.store, requireBalancer(cloud.store, params.balancerId).id),
      view: (row) => configView(cloud.store, row),
      filterable: filterableNames(configFields),
      fieldValue: (row, name) => row[name as keyof ConfigRow],
    }),
  }),
  route<Cloud, ConfigWanted>({
    method: "POST",
    path: "/v4/balancers/:balancerId/configs",
    scope: "balancers",
    summary: "Adds a config profile: the balancer then listens on its port.",
    body: createSchema(configFields),
    answers: "one",
    shows: "Config",
    rules: ({ cloud, params, body }, flagged) =>
      newConfigProblems(cloud.store, cloud, requireBalancer(cloud.store, params.balancerId), body, flagged),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const balancer = requireBalancer(tx, params.balancerId);
        refuse(newConfigProblems(tx, cloud, balancer, body));
        return configView(cloud.store, insertConfig(tx, cloud, balancer, body, caller?.username), tx);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/balancers/:balancerId/configs/:configId",
    scope: "balancers",
    summary: "Reads a config profile with its nodes' health.",
    answers: "one",
    shows: "Config",
    run: ({ cloud, params }) => configView(cloud.store, requireConfig(cloud.store, params.balancerId, params.configId)),
  }),
  route<Cloud, ConfigWanted>({
    method: "PUT",
    path: "/v4/balancers/:balancerId/configs/:configId",
    scope: "balancers",
    summary: "Updates a config profile; a refused certificate leaves the old one serving.",
    body: updateSchema(configFields),
    answers: "one",
    shows: "Config",
    rules: ({ cloud, params, body }, flagged) => {
      const row = requireConfig(cloud.store, params.balancerId, params.configId);
      return independentOf(flagged, configProblems(cloud.store, cloud, row.balancerId, row, mergedSettings(row, body)).problems);
    },
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const balancer = requireBalancer(tx, params.balancerId);
        const row = requireConfig(tx, balancer.id, params.configId);
        refuse(configProblems(tx, cloud, balancer.id, row, mergedSettings(row, body)).problems);
        const updated = updateConfig(tx, cloud, balancer, row, body, caller?.username);
        return configView(cloud.store, updated, tx);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/balancers/:balancerId/configs/:configId",
    scope: "balancers",
    summary: "Deletes a config profile and its nodes; its port is freed.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const balancer = requireBalancer(tx, params.balancerId);
        const row = requireConfig(tx, balancer.id, params.configId);
        removeConfig(tx, row);
        recordConfigEvent(tx, cloud, balancer, row, "delete", caller?.username);
      }),
  }),
];
