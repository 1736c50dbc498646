import { invalid, type Problem } from "../../kernel/fault.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { type InstanceRow, instanceEntity } from "../instances/instance.js";
import { type AddressRow, addressesOf, allocateAddress } from "./address.js";

/** Several public addresses are allowed, unlike in the public API (docs/decisions/005-addresses.md), up to this many of an instance. */
const publicLimit = 8;

export const typeProblems = (type: string): Problem[] => (type === "ipv4" ? [] : [{ reason: "Only ipv4 can be requested.", field: "type" }]);

/** Contract 10.2: only IPv4, one private address an instance. */
export const addAddress = (
  tx: Tx,
  cloud: Cloud,
  instance: InstanceRow,
  wanted: { type: string; public: boolean },
  username: string | undefined,
): AddressRow => {
  const [problem] = typeProblems(wanted.type);
  if (problem) throw invalid(problem.reason, problem.field);
  const held = addressesOf(tx, instance.id);
  if (!wanted.public && held.some((row) => !row.public)) throw invalid("The instance already has a private address; one is the limit.");
  if (wanted.public && held.filter((row) => row.public).length >= publicLimit) {
    throw invalid(`The instance already has ${publicLimit} public addresses, which is the limit.`);
  }
  const row = allocateAddress(tx, cloud, instance, wanted.public);
  recordEvent(tx, cloud, { action: "instance_addip", entity: instanceEntity(instance), username: username ?? null, message: row.address });
  return row;
};
