import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";

const Label = text(3, 32).regex(/^[a-zA-Z0-9._-]+$/, "May hold letters, digits, dashes, underscores and dots.");

/** Description 2.3 and contract 8.4. */
export const nodeFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused."),
  label: field.write(Label, "Name, unique among the nodes of the config.", { source: "description", required: true }),
  address: field.write(z.string(), "`<private_ipv4>:<port>` of the back-end instance.", { source: "description", required: true }),
  weight: field.write(integer(1, 255), "Share of the requests; 50 when left out."),
  mode: field.write(z.enum(["accept", "reject", "drain", "backup"]), "accept, reject, drain or backup; accept when left out."),
  status: field.read(z.enum(["Unknown", "UP", "DOWN"]), "Health as last measured."),
  configId: field.read(z.int(), "Its config."),
  balancerId: field.read(z.int(), "Its balancer."),
  vpcConfigId: field.read(z.null(), "Always null."),
};

/** A node inside a config's or a balancer's creation. */
export const nodeBody = z.object({
  label: nodeFields.label.schema,
  address: nodeFields.address.schema,
  weight: nodeFields.weight.schema.nullish(),
  mode: nodeFields.mode.schema.nullish(),
});
