import { Fault, invalid, type Problem } from "../../kernel/fault.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { type InstanceRow, instanceEntity, isDeleting } from "../instances/instance.js";
import { type AddressRow, addressesOf, allocateAddress } from "./address.js";

/** Several public addresses are allowed, unlike in the public API (docs/decisions/005-addresses.md), up to this many of an instance. */
const publicLimit = 8;

export const typeProblems = (type: string): Problem[] => (type === "ipv4" ? [] : [{ reason: "Only ipv4 can be requested.", field: "type" }]);

const countProblems = (held: readonly AddressRow[], isPublic: boolean): Problem[] => {
  const count = held.filter((row) => row.public === isPublic).length;
  if (!isPublic && count >= 1) return [{ reason: "The instance already has a private address; one is the limit." }];
  if (isPublic && count >= publicLimit) return [{ reason: `The instance already has ${publicLimit} public addresses, which is the limit.` }];
  return [];
};

/** Contract 10.2: only IPv4, one private address an instance. */
export const addAddress = (
  tx: Tx,
  cloud: Cloud,
  instance: InstanceRow,
  wanted: { type: string; public: boolean },
  username: string | undefined,
): AddressRow => {
  if (isDeleting(instance)) throw invalid("The instance is being deleted.");
  const ofType = typeProblems(wanted.type);
  const problems = ofType.length > 0 ? ofType : countProblems(addressesOf(tx, instance.id), wanted.public);
  if (problems.length > 0) throw new Fault("invalid", problems);
  const row = allocateAddress(tx, cloud, instance, wanted.public);
  recordEvent(tx, cloud, { action: "instance_addip", entity: instanceEntity(instance), username: username ?? null, message: row.address });
  return row;
};
