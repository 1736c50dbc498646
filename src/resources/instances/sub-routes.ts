import { filterableNames } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import { addressesOf } from "../addresses/address.js";
import { type BalancerRow, balancerView } from "../balancers/balancer.js";
import { balancerFields } from "../balancers/fields.js";
import type { Cloud, CloudStore } from "../cloud.js";
import { parseNodeAddress } from "../nodes/rules.js";
import { type ProfileInterface, requireProfile } from "../profiles/profile.js";
import { requireInstance } from "./instance.js";

/** The balancers with a node on one of the instance's addresses. */
const balancersOf = (store: CloudStore, instanceId: number): readonly BalancerRow[] => {
  const own = new Set(addressesOf(store, instanceId).map(({ address }) => address));
  const ids = new Set(
    store.list("node").flatMap((node) => {
      const host = parseNodeAddress(node.address)?.host;
      const config = host !== undefined && own.has(host) ? store.get("config", node.configId) : undefined;
      return config ? [config.balancerId] : [];
    }),
  );
  return store.list("balancer").filter((row) => ids.has(row.id));
};

/** Things there are none of here, so that clients which ask go on (contract section 16). */
const emptyRoute = (path: string, summary: string, check: (cloud: Cloud, params: Record<string, number>) => unknown) =>
  route<Cloud, undefined>({
    method: "GET",
    path,
    scope: "instances",
    summary,
    answers: "list",
    run: ({ cloud, params }): Listing<never> => {
      check(cloud, params);
      return { rows: [], view: (row) => row, filterable: [], fieldValue: () => undefined };
    },
  });

export const subRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/balancers",
    scope: "instances",
    summary: "Lists the balancers that have a node on this instance.",
    answers: "list",
    shows: "Balancer",
    run: ({ cloud, params }): Listing<BalancerRow> => ({
      rows: balancersOf(cloud.store, requireInstance(cloud.store, params.instanceId).id),
      view: (row) => balancerView(cloud, row),
      filterable: filterableNames(balancerFields),
      fieldValue: (row, name) => row[name as keyof BalancerRow],
    }),
  }),
  ...(["firewalls", "interfaces"] as const).map((what) =>
    emptyRoute(`/v4/cloud/instances/:instanceId/${what}`, `Lists its ${what}: there are none.`, (cloud, params) =>
      requireInstance(cloud.store, params.instanceId),
    ),
  ),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/instances/:instanceId/configs/:configId/interfaces",
    scope: "instances",
    summary: "Lists the interfaces that a config records; none of them is acted on.",
    answers: "list",
    run: ({ cloud, params }): Listing<ProfileInterface & { id: number }> => ({
      rows: requireProfile(cloud.store, params.instanceId, params.configId).interfaces.map((entry, index) => ({ id: index + 1, ...entry })),
      view: (row) => ({ ...row, active: false }),
      filterable: [],
      fieldValue: () => undefined,
    }),
  }),
];
