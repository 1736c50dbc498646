/**
 * The public vendor's spelling of this API, as data (contract section 2): what it calls each path, member and word, beside what the
 * description calls it. Nothing outside this folder knows that there is a second spelling.
 */

/** A pair: theirs, ours. */
type Pair = readonly [theirs: string, ours: string];

/** Where a collection stands (contract 2.1). Longer beginnings first. */
export const collections: readonly Pair[] = [
  ["/v4/linode/instances", "/v4/cloud/instances"],
  ["/v4/linode/stackscripts", "/v4/cloud/scripts"],
  ["/v4/linode/kernels", "/v4/cloud/kernels"],
  ["/v4/linode/types", "/v4/cloud/types"],
  ["/v4/nodebalancers", "/v4/balancers"],
];

/** Names of 2017 and 2018 that went away (contract 2.5): the path then, the path now, both theirs. */
export const formerPaths: ReadonlyArray<readonly [then: RegExp, now: string]> = [
  [/^\/v4\/linode\/distributions(?=\/|$)/, "/v4/images"],
  [/^\/v4\/linode\/volumes(?=\/|$)/, "/v4/volumes"],
  [/^\/v4\/account\/tokens(?=\/|$)/, "/v4/profile/tokens"],
  [/^\/v4\/account\/clients(?=\/|$)/, "/v4/account/oauth-clients"],
  [/^\/v4\/networking\/ip-assign$/, "/v4/networking/ips/assign"],
  [/^\/v4\/networking\/ip-sharing$/, "/v4/networking/ips/share"],
];

/** Parts of a path below a collection that have two names. */
export const pathParts: ReadonlyArray<readonly [theirs: RegExp, ours: string]> = [
  [/^(\/v4\/cloud\/instances\/[^/]+)\/nodebalancers(?=\/|$)/, "$1/balancers"],
  [/^(\/v4\/(?:images|cloud\/kernels)\/)linode(?:%2[Ff]|\/)/, "$1cloud/"],
];

/** Members (contract 2.2 and 2.4), wherever they stand. */
export const members: readonly Pair[] = [
  ["linode_id", "cloud_id"],
  ["linode_label", "cloud_label"],
  ["linode_ids", "cloud_ids"],
  ["linodes", "instances"],
  ["linode", "instance"],
  ["add_linodes", "add_instances"],
  ["interfaces_for_new_linodes", "interfaces_for_new_instances"],
  ["stackscript_id", "script_id"],
  ["stackscript_data", "script_data"],
  ["stackscripts", "scripts"],
  ["add_stackscripts", "add_scripts"],
  ["nodebalancer_id", "balancer_id"],
  ["nodebalancers", "balancers"],
  ["nodebalancer", "balancer"],
  ["add_nodebalancers", "add_balancers"],
];

/** Members with two names only when they hold a list: `script` is a script's text as well as the grants on scripts. */
export const listMembers: readonly Pair[] = [["stackscript", "script"]];

/** Members that hold the id of an image, a kernel or a policy, which begins with the vendor's name. */
export const slugMembers: readonly string[] = ["id", "image", "images", "image_id", "kernel", "slug", "maintenance_policy", "maintenance_policy_set"];
export const slugBeginnings: Pair = ["linode/", "cloud/"];

/** Members that hold the path of a volume's device (contract section 11). */
export const deviceMembers: readonly string[] = ["filesystem_path"];
export const deviceBeginnings: Pair = ["/dev/disk/by-id/scsi-0Linode_Volume_", "/dev/disk/by-id/scsi-0Cloud_Volume_"];

/** Members of requests that their callers may leave out and ours may not, and how the name that stands in begins (contract 8.1). */
export const optionalNames: ReadonlyArray<{ request: string; member: string; beginning: string }> = [
  { request: "POST /v4/balancers", member: "label", beginning: "balancer-" },
];

/** Members that hold one of these words, and nothing else, as their value. */
export const words: ReadonlyArray<{ in: readonly string[]; pairs: readonly Pair[] }> = [
  {
    in: ["type", "entity.type", "entity_type", "secondary_entity.type"],
    pairs: [
      ["linode", "instance"],
      ["nodebalancer", "balancer"],
      ["stackscript", "script"],
      ["linode_config", "instance_config"],
      ["nodebalancer_config", "balancer_config"],
      ["nodebalancer_node", "balancer_node"],
    ],
  },
  { in: ["created_by", "billing_source"], pairs: [["linode", "cloud"]] },
  {
    in: ["id"],
    pairs: [
      ["nodebalancer", "balancer"],
      ["nodebalancer-pr100", "balancer-pr100"],
    ],
  },
  {
    in: ["capabilities", "alerts", "metrics", "available", "unavailable"],
    pairs: [
      ["Linodes", "Instances"],
      ["NodeBalancers", "Balancers"],
      ["StackScripts", "Scripts"],
      ["Linode Interfaces", "Instance Interfaces"],
      ["GPU Linodes", "GPU Instances"],
    ],
  },
];

/** How the actions of events begin (contract 15.3). */
export const actionMembers: readonly string[] = ["action"];
export const actionBeginnings: readonly Pair[] = [
  ["linode_", "instance_"],
  ["nodebalancer_", "balancer_"],
  ["stackscript_", "script_"],
];

/** Members that hold scope words (contract 2.3). */
export const scopeMembers: readonly string[] = ["scopes", "scope"];
export const scopeWords: readonly Pair[] = [
  ["linodes", "instances"],
  ["nodebalancers", "balancers"],
  ["stackscripts", "scripts"],
];

/** Members that hold a path of this API. */
export const urlMembers: readonly string[] = ["url"];

/** Reasons that an official client compares letter for letter (contract section 18). */
export const reasons: readonly Pair[] = [["Linode busy.", "Instance busy."]];

/** What stands below these is the caller's own words. */
export const untouchedMembers: readonly string[] = ["script_data", "stackscript_data", "tags"];
export const untouchedPaths: readonly RegExp[] = [/^\/v4\/profile\/preferences$/, /^\/v4\/openapi\.json$/];

/** Contract 5.1. */
export const pageSize = { min: 25, max: 500 };
