import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";
import { configWithNodes } from "../configs/fields.js";
import { Tags } from "../instances/fields.js";

const Label = text(3, 32).regex(/^[a-zA-Z0-9_-]+$/, "May hold letters, digits, dashes and underscores.");

/** Description 2.1 and contract 8.1. */
export const balancerFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused.", { source: "description" }),
  label: field.write(Label, "Name, unique in the account.", { source: "description", required: true, filter: true }),
  region: field.create(z.string(), "Region id. Back-end instances must be in the same region.", {
    source: "description",
    required: true,
    filter: true,
  }),
  clientConnThrottle: field.write(integer(0, 20), "New connections a second per client address; 0 is off.", { source: "description" }),
  clientUdpSessThrottle: field.write(integer(0, 20), "New UDP sessions a second per client address; 0 is off."),
  tags: field.write(Tags, "Words to group by.", { filter: true }),
  configs: field.secret(z.array(configWithNodes), "Config profiles to create with it, each with at least one node.", { records: true }),
  hostname: field.read(z.string(), "Name made from the address."),
  ipv4: field.read(z.ipv4(), "Address its configs listen on.", { filter: true }),
  ipv6: field.read(z.null(), "Always null: Backlot gives no IPv6 addresses."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  transfer: field.read(z.object({ total: z.number().nullable(), out: z.number().nullable(), in: z.number().nullable() }), "MB this month."),
  type: field.read(z.string(), "Always `common`."),
  lkeCluster: field.read(z.null(), "Always null."),
  frontendAddressType: field.read(z.null(), "Always null."),
  frontendVpcSubnetId: field.read(z.null(), "Always null."),
  locks: field.read(z.array(z.string()), "Always empty."),
};
