import { z } from "zod";
import { field } from "../../kernel/field.js";

/** A host name after RFC 1123 section 2.1 and RFC 1035 section 2.3.4: at least two labels, since a reverse name stands in a domain. */
const HostName = z
  .string()
  .max(253, "Length must be 1-253 characters")
  .regex(/^(?=.*[a-z])([a-z0-9_]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?\.?$/i, "This domain is not valid.");

/** Description 2.5 and contract 10.1. */
export const addressFields = {
  address: field.read(z.ipv4(), "Dotted IPv4; a private one comes from the private pool.", { filter: true }),
  gateway: field.read(z.ipv4().nullable(), "First address of the public network; null for a private address."),
  subnetMask: field.read(z.string(), "Dotted mask of the pool."),
  prefix: field.read(z.int(), "Prefix length of the pool.", { filter: true }),
  type: field.create(z.string(), "`ipv4`.", { source: "description", required: true, filter: true }),
  public: field.create(z.boolean(), "False asks for a private address.", { source: "description", required: true }),
  rdns: field.read(z.string().nullable(), "Reverse name; null for a private address.", { filter: true }),
  cloudId: field.create(z.int(), "Id of the instance that receives the address.", { source: "description", required: true }),
  region: field.read(z.string(), "Region id.", { filter: true }),
  interfaceId: field.read(z.null(), "Always null."),
  reserved: field.read(z.boolean(), "Always false."),
  vpcNat_1_1: field.read(z.null(), "Always null."),
  assignedEntity: field.read(z.null(), "Always null."),
  tags: field.read(z.array(z.string()), "Always empty."),
};

/** PUT takes the reverse name only (contract 10.3); null gives the default back. */
export const reverseFields = { rdns: field.write(HostName.nullable(), "Reverse name; null resets it.") };

/** `POST …/assign` (contract 10.3). */
export const assignFields = {
  region: field.create(z.string(), "Where all of them are.", { required: true }),
  assignments: field.create(
    z
      .array(z.object({ address: z.string(), cloudId: z.int() }))
      .min(1, "Must hold at least one entry.")
      .max(100, "Must hold at most 100 entries."),
    "Which address goes to which instance; all or none.",
    { required: true },
  ),
};

/** `POST …/share` (contract 10.3). */
export const shareFields = {
  cloudId: field.create(z.int(), "Instance that takes them over while their own does not run.", { required: true }),
  ips: field.create(
    z.array(z.string()).max(100, "Must hold at most 100 entries."),
    "Public addresses of other instances of its region; replaces the list.",
    {
      required: true,
    },
  ),
};

/** An instance's addresses by kind (contract 10.3). */
const AddressList = z.array(z.record(z.string(), z.unknown()));
export const instanceAddressFields = {
  ipv4: field.read(
    z.object({ public: AddressList, private: AddressList, shared: AddressList, reserved: AddressList, vpc: AddressList }),
    "Whole address records; reserved and vpc are always empty.",
  ),
  ipv6: field.read(
    z.object({ slaac: z.null(), linkLocal: z.null(), global: z.array(z.unknown()), vpc: z.array(z.unknown()) }),
    "Always empty: Backlot gives no IPv6 addresses.",
  ),
};
