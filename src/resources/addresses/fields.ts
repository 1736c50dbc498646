import { z } from "zod";
import { field } from "../../kernel/field.js";

/** Description 2.5 and contract 10.1. */
export const addressFields = {
  address: field.read(z.ipv4(), "Dotted IPv4; a private one comes from the private pool.", { filter: true }),
  gateway: field.read(z.ipv4().nullable(), "First address of the public network; null for a private address."),
  subnetMask: field.read(z.string(), "Dotted mask of the pool."),
  prefix: field.read(z.int(), "Prefix length of the pool.", { filter: true }),
  type: field.create(z.string(), "`ipv4`.", { required: true, filter: true }),
  public: field.create(z.boolean(), "False asks for a private address.", { required: true }),
  rdns: field.read(z.string().nullable(), "Reverse name; null for a private address.", { filter: true }),
  cloudId: field.create(z.int(), "Id of the instance that receives the address.", { required: true }),
  region: field.read(z.string(), "Region id.", { filter: true }),
  interfaceId: field.read(z.null(), "Always null."),
  reserved: field.read(z.boolean(), "Always false."),
  vpcNat_1_1: field.read(z.null(), "Always null."),
  assignedEntity: field.read(z.null(), "Always null."),
  tags: field.read(z.array(z.string()), "Always empty."),
};
