import { type Listing, type Route, route } from "../../kernel/route.js";
import { requireBalancer } from "../balancers/balancer.js";
import type { Cloud } from "../cloud.js";
import { requireInstance } from "../instances/instance.js";

/** A collection of the public API that Backlot does not build. */
interface Absent {
  path: string;
  scope: string | null;
  /** What it would hold. */
  of: string;
}

/**
 * What clients of the public API list in passing and this service does not have (contract section 16): their lists are empty, which is the
 * truth, and everything else about them is not found. One line takes a collection out again once it is built.
 */
export const absentCollections: readonly Absent[] = [
  { path: "/v4/networking/firewalls", scope: "firewall", of: "firewalls" },
  { path: "/v4/networking/vlans", scope: "instances", of: "VLANs" },
  { path: "/v4/networking/ipv6/pools", scope: "ips", of: "IPv6 pools" },
  { path: "/v4/networking/ipv6/ranges", scope: "ips", of: "IPv6 ranges" },
  { path: "/v4/networking/reserved/ips", scope: "ips", of: "reserved addresses" },
  { path: "/v4/cloud/instances/:instanceId/firewalls", scope: "instances", of: "firewalls of an instance" },
  { path: "/v4/cloud/instances/:instanceId/interfaces", scope: "instances", of: "network interfaces of an instance" },
  { path: "/v4/balancers/:balancerId/firewalls", scope: "balancers", of: "firewalls of a balancer" },
  { path: "/v4/balancers/:balancerId/vpcs", scope: "balancers", of: "VPCs of a balancer" },
  { path: "/v4/vpcs", scope: "vpc", of: "VPCs" },
  { path: "/v4/vpcs/ips", scope: "vpc", of: "addresses in VPCs" },
  { path: "/v4/placement/groups", scope: "instances", of: "placement groups" },
  { path: "/v4/lke/clusters", scope: "lke", of: "Kubernetes clusters" },
  { path: "/v4/lke/versions", scope: null, of: "Kubernetes versions" },
  { path: "/v4/lke/types", scope: null, of: "prices of Kubernetes clusters" },
  { path: "/v4/databases/instances", scope: "databases", of: "managed databases" },
  { path: "/v4/databases/mysql/instances", scope: "databases", of: "MySQL databases" },
  { path: "/v4/databases/postgresql/instances", scope: "databases", of: "PostgreSQL databases" },
  { path: "/v4/databases/engines", scope: null, of: "database engines" },
  { path: "/v4/databases/types", scope: null, of: "prices of databases" },
  { path: "/v4/object-storage/buckets", scope: "object_storage", of: "buckets" },
  { path: "/v4/object-storage/keys", scope: "object_storage", of: "keys to buckets" },
  { path: "/v4/object-storage/clusters", scope: null, of: "object storage clusters" },
  { path: "/v4/object-storage/endpoints", scope: "object_storage", of: "object storage endpoints" },
  { path: "/v4/object-storage/types", scope: null, of: "prices of object storage" },
  { path: "/v4/longview/clients", scope: "longview", of: "Longview clients" },
  { path: "/v4/longview/subscriptions", scope: null, of: "Longview subscriptions" },
  { path: "/v4/longview/types", scope: null, of: "prices of Longview" },
  { path: "/v4/managed/contacts", scope: "account", of: "contacts of the managed service" },
  { path: "/v4/managed/credentials", scope: "account", of: "credentials of the managed service" },
  { path: "/v4/managed/issues", scope: "account", of: "issues of the managed service" },
  { path: "/v4/managed/services", scope: "account", of: "services of the managed service" },
  { path: "/v4/managed/linode-settings", scope: "account", of: "instances in the managed service" },
  { path: "/v4/support/tickets", scope: "account", of: "support tickets" },
  { path: "/v4/betas", scope: "account", of: "beta programs" },
  { path: "/v4/account/betas", scope: "account", of: "beta programs the account takes part in" },
  { path: "/v4/account/child-accounts", scope: "child_account", of: "child accounts" },
  { path: "/v4/account/entity-transfers", scope: "account", of: "transfers of things to other accounts" },
  { path: "/v4/account/service-transfers", scope: "account", of: "transfers of services to other accounts" },
  { path: "/v4/account/maintenance", scope: "any", of: "announced maintenance" },
  { path: "/v4/images/sharegroups", scope: "images", of: "groups that images are shared with" },
  { path: "/v4/locks", scope: "account", of: "locks against deletion" },
  { path: "/v4/monitor/services", scope: "monitor", of: "monitored services" },
];

const emptyList = ({ path, scope, of }: Absent): Route<Cloud> =>
  route<Cloud, undefined>({
    method: "GET",
    path,
    scope,
    summary: `Always empty: Backlot has no ${of}.`,
    answers: "list",
    run: ({ cloud, params }): Listing => {
      if (params.instanceId !== undefined) requireInstance(cloud.store, params.instanceId);
      if (params.balancerId !== undefined) requireBalancer(cloud.store, params.balancerId);
      return { rows: [], view: (row) => row, filterable: [], fieldValue: () => undefined };
    },
  });

export const absentRoutes: readonly Route<Cloud>[] = absentCollections.map(emptyList);
