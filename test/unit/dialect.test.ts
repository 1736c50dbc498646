import { describe, expect, it } from "vitest";
import { spoken } from "#backlot/http/dialects/dialect.js";

const theirs = spoken("/v4beta/x", "native").dialect;
const shared = spoken("/v4/volumes", "native").dialect;

describe("paths of the public spelling (contract 2.1)", () => {
  it.each([
    ["/v4/linode/instances", "/v4/cloud/instances"],
    ["/v4/linode/instances/7/ips?page=1", "/v4/cloud/instances/7/ips?page=1"],
    ["/v4/linode/instances/7/nodebalancers", "/v4/cloud/instances/7/balancers"],
    ["/v4/linode/types/g6-nanode-1", "/v4/cloud/types/g6-nanode-1"],
    ["/v4/linode/stackscripts/3", "/v4/cloud/scripts/3"],
    ["/v4/nodebalancers/1/configs/2/nodes/3", "/v4/balancers/1/configs/2/nodes/3"],
    ["/v4beta/images/linode/debian12", "/v4/images/cloud/debian12"],
    ["/v4beta/images/linode%2Fdebian12", "/v4/images/cloud/debian12"],
    ["/v4beta/images/private%2F5", "/v4/images/private%2F5"],
    ["/v4/linode/kernels/linode/latest-64bit", "/v4/cloud/kernels/cloud/latest-64bit"],
    ["/v4/linode/kernels/linode%2flatest-64bit", "/v4/cloud/kernels/cloud/latest-64bit"],
    ["/v4beta/volumes?page=2", "/v4/volumes?page=2"],
    ["/v4/linode/volumes/5", "/v4/volumes/5"],
    ["/v4/linode/distributions", "/v4/images"],
    ["/v4/account/tokens/5", "/v4/profile/tokens/5"],
    ["/v4/networking/ip-assign", "/v4/networking/ips/assign"],
  ])("%s is %s", (url, ours) => expect(spoken(url, "native").url).toBe(ours));

  it.each([
    "/v4/linodes",
    "/v4/linode",
    "/v4/nodebalancersx",
    "/v4betax/volumes",
    "/_backlot/health",
    "/v4/balancers/nodebalancers",
    "*",
    "",
    "/?x=/v4beta/",
  ])("%s stays as it is", (url) => expect(spoken(url, "public").url).toBe(url));

  it("the way in decides what the answer speaks", () => {
    const speaks = (url: string, door: "native" | "public" = "native") => Object.keys(spoken(url, door).dialect.said({ cloud_id: 1 }) as object)[0];
    expect(speaks("/v4/cloud/instances")).toBe("cloud_id");
    expect(speaks("/v4/volumes")).toBe("cloud_id");
    expect(speaks("/v4/linode/instances")).toBe("linode_id");
    expect(speaks("/v4beta/volumes")).toBe("linode_id");
    expect(speaks("/v4beta/cloud/instances")).toBe("linode_id");
    expect(speaks("/v4/volumes", "public")).toBe("linode_id");
    expect(speaks("/v4/cloud/instances", "public")).toBe("cloud_id");
    expect(speaks("/_backlot/health", "public")).toBe("cloud_id");
    expect(spoken("/v4beta/volumes", "native").dialect.pageSize).toEqual({ min: 25, max: 500 });
    expect(spoken("/v4/volumes", "native").dialect.pageSize).toEqual({ min: 1, max: 500 });
  });
});

describe("members and words", () => {
  it("are ours inside, whatever came", () => {
    expect(
      theirs.heard({
        linode_id: 5,
        image: "linode/debian12",
        stackscript_id: 1,
        stackscript_data: { linode_id: "stays", image: "linode/stays" },
        tags: ["linode/stays"],
        label: "linode/stays",
        scopes: "linodes:read_only nodebalancers:read_write stackscripts:read_only ips:read_only",
        configs: [{ nodes: [{ nodebalancer_id: 2 }] }],
      }),
    ).toEqual({
      cloud_id: 5,
      image: "cloud/debian12",
      script_id: 1,
      script_data: { linode_id: "stays", image: "linode/stays" },
      tags: ["linode/stays"],
      label: "linode/stays",
      scopes: "instances:read_only balancers:read_write scripts:read_only ips:read_only",
      configs: [{ nodes: [{ balancer_id: 2 }] }],
    });
    expect(shared.heard({ linode_id: 5 })).toEqual({ cloud_id: 5 });
    expect(theirs.heard({ note: { linode_id: 1 } }, ["note"])).toEqual({ note: { linode_id: 1 } });
  });

  it("of a filter are too, operators and order included", () => {
    const filter = {
      "+and": [
        { action: "linode_boot" },
        { "entity.type": "linode", "entity.id": 3 },
        { linode_id: { "+neq": 4 } },
        { image: { "+contains": "linode/deb" } },
      ],
      "+order_by": "nodebalancer_id",
      "+order": "desc",
    };
    expect(theirs.heard(filter)).toEqual({
      "+and": [
        { action: "instance_boot" },
        { "entity.type": "instance", "entity.id": 3 },
        { cloud_id: { "+neq": 4 } },
        { image: { "+contains": "cloud/deb" } },
      ],
      "+order_by": "balancer_id",
      "+order": "desc",
    });
  });

  it("of a grant's lists are translated, a script's text is not", () => {
    expect(theirs.said({ script: "#!/bin/sh\ncloud/x", instance: [{ id: 1 }] })).toEqual({ script: "#!/bin/sh\ncloud/x", linode: [{ id: 1 }] });
    expect(theirs.said({ script: [{ id: 1 }], balancer: [], global: { add_instances: true } })).toEqual({
      stackscript: [{ id: 1 }],
      nodebalancer: [],
      global: { add_linodes: true },
    });
    expect(theirs.heard({ stackscript: [{ id: 1 }] })).toEqual({ script: [{ id: 1 }] });
  });

  it("of an event are theirs outside", () => {
    const ours = {
      action: "balancer_config_create",
      entity: { id: 1, type: "balancer", label: "cloud/x", url: "/v4/balancers/1" },
      secondary_entity: { id: "cloud/debian12", type: "image", label: "x", url: "/v4/images/cloud/debian12" },
      message: "cloud/debian12 stays",
    };
    expect(theirs.said(ours)).toEqual({
      action: "nodebalancer_config_create",
      entity: { id: 1, type: "nodebalancer", label: "cloud/x", url: "/v4/nodebalancers/1" },
      secondary_entity: { id: "linode/debian12", type: "image", label: "x", url: "/v4/images/linode/debian12" },
      message: "cloud/debian12 stays",
    });
  });

  it("of a refusal are theirs: fields, the one text that clients compare, and paths in reasons", () => {
    const ours = {
      errors: [
        { reason: "Instance busy." },
        { reason: "No plan has this id; see /v4/cloud/types.", field: "type" },
        { reason: "This script runs on cloud/debian12, cloud/ubuntu24.04 only.", field: "script_id" },
        { reason: "Cannot filter on cloud_id", field: "X-Filter" },
        { reason: "x", field: "assignments[0].cloud_id" },
        { reason: "x", field: "script[2].id" },
      ],
    };
    expect(theirs.said(ours)).toEqual({
      errors: [
        { reason: "Linode busy." },
        { reason: "No plan has this id; see /v4/linode/types.", field: "type" },
        { reason: "This script runs on linode/debian12, linode/ubuntu24.04 only.", field: "stackscript_id" },
        { reason: "Cannot filter on linode_id", field: "X-Filter" },
        { reason: "x", field: "assignments[0].linode_id" },
        { reason: "x", field: "stackscript[2].id" },
      ],
    });
  });

  it("come back as they went, through both directions", () => {
    const ours = {
      cloud_id: 1,
      image: "cloud/debian12",
      script_id: 2,
      type: "instance",
      action: "instance_boot",
      scopes: "instances:read_only",
      created_by: "cloud",
      capabilities: ["Instances", "Balancers", "Vlans"],
    };
    expect(theirs.heard(theirs.said(ours))).toEqual(ours);
    expect(JSON.stringify(theirs.said(ours))).not.toMatch(/cloud|instance|Instances/);
  });
});
