import { Fault, invalid, type Problem } from "../../kernel/fault.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { type InstanceRow, instanceEntity, isDeleting } from "../instances/instance.js";
import { type AddressRow, addressesOf, addressRow, allocateAddress, freeFrom } from "./address.js";

/** Several public addresses are allowed, unlike in the public API (docs/decisions/005-addresses.md), up to this many of an instance. */
const publicLimit = 8;

export const typeProblems = (type: string): Problem[] => (type === "ipv4" ? [] : [{ reason: "Only ipv4 can be requested.", field: "type" }]);

const onePrivate = "The instance already has a private address; one is the limit.";
const lastPublic = "An instance keeps at least one public address.";

const countProblems = (held: readonly AddressRow[], isPublic: boolean): Problem[] => {
  const count = held.filter((row) => row.public === isPublic).length;
  if (!isPublic && count >= 1) return [{ reason: onePrivate }];
  if (isPublic && count >= publicLimit) return [{ reason: `The instance already has ${publicLimit} public addresses, which is the limit.` }];
  return [];
};

const told = (tx: Tx, cloud: Cloud, action: string, instance: InstanceRow, row: AddressRow, username: string | undefined): void =>
  void recordEvent(tx, cloud, { action, entity: instanceEntity(instance), username: username ?? null, message: row.address });

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
  told(tx, cloud, "instance_addip", instance, row, username);
  return row;
};

/** Contract 10.2: the last public address stays; a private one may go. */
export const removeAddress = (tx: Tx, cloud: Cloud, instance: InstanceRow, row: AddressRow, username: string | undefined): void => {
  if (isDeleting(instance)) throw invalid("The instance is being deleted.");
  if (row.public && addressesOf(tx, instance.id).filter((entry) => entry.public).length === 1) throw invalid(lastPublic);
  freeFrom(tx, row);
  told(tx, cloud, "instance_deleteip", instance, row, username);
};

export interface Assignment {
  region: string;
  assignments: ReadonlyArray<{ address: string; cloudId: number }>;
}

const entryProblems = (reader: Reader, { region, assignments }: Assignment): Problem[] =>
  assignments.flatMap(({ address, cloudId }, at): Problem[] => {
    const row = addressRow(reader, address);
    const instance = reader.get("instance", cloudId);
    const problems: Problem[] = [];
    const under = `assignments[${at}]`;
    if (!row) problems.push({ reason: `Address not found: ${address.slice(0, 60)}.`, field: `${under}.address` });
    else if (row.region !== region) problems.push({ reason: `It is in ${row.region}, not in the region given.`, field: `${under}.address` });
    else if (assignments.findIndex((entry) => entry.address === address) !== at) problems.push({ reason: "Given twice.", field: `${under}.address` });
    if (!instance || isDeleting(instance)) problems.push({ reason: "No active instance has this id.", field: `${under}.cloudId` });
    else if (instance.region !== region)
      problems.push({ reason: `It is in ${instance.region}, not in the region given.`, field: `${under}.cloudId` });
    return problems;
  });

/** What every instance would hold afterwards must be legal; in between nothing is judged, so two may exchange theirs (contract 10.2). */
const outcomeProblems = (reader: Reader, { assignments }: Assignment): Problem[] => {
  const target = new Map(assignments.map(({ address, cloudId }) => [address, cloudId]));
  const rows = [...target.keys()].flatMap((address) => addressRow(reader, address) ?? []);
  const concerned = new Set([...target.values(), ...rows.map((row) => row.instanceId)]);
  return [...concerned].flatMap((id): Problem[] => {
    const stays = addressesOf(reader, id).filter((row) => (target.get(row.address) ?? id) === id);
    const comes = rows.filter((row) => row.instanceId !== id && target.get(row.address) === id);
    const after = [...stays, ...comes];
    const publics = after.filter((row) => row.public).length;
    const told = (reason: string): Problem[] => [{ reason: `Instance ${id}: ${reason}`, field: "assignments" }];
    if (publics === 0) return told("it would be left without a public address.");
    if (publics > publicLimit) return told(`it would have more than ${publicLimit} public addresses.`);
    if (after.length - publics > 1) return told("it would have two private addresses; one is the limit.");
    return [];
  });
};

export const assignProblems = (reader: Reader, body: Assignment): Problem[] => {
  const problems = entryProblems(reader, body);
  return problems.length > 0 ? problems : outcomeProblems(reader, body);
};

/** Moves addresses between instances, all or none; the machines follow. */
export const assignAddresses = (tx: Tx, cloud: Cloud, body: Assignment, username: string | undefined): void => {
  const problems = assignProblems(tx, body);
  if (problems.length > 0) throw new Fault("invalid", problems);
  for (const { address, cloudId } of body.assignments) {
    const row = addressRow(tx, address);
    const from = row && tx.get("instance", row.instanceId);
    const to = tx.get("instance", cloudId);
    if (!row || !from || !to || from.id === to.id) continue;
    tx.update("address", row.id, { instanceId: to.id, sharedWith: row.sharedWith.filter((id) => id !== to.id) });
    told(tx, cloud, "instance_deleteip", from, row, username);
    told(tx, cloud, "instance_addip", to, row, username);
  }
};

export interface Share {
  cloudId: number;
  ips: readonly string[];
}

export const shareProblems = (reader: Reader, { cloudId, ips }: Share): Problem[] => {
  const instance = reader.get("instance", cloudId);
  if (!instance || isDeleting(instance)) return [{ reason: "No active instance has this id.", field: "cloudId" }];
  return ips.flatMap((address, at): Problem[] => {
    const row = addressRow(reader, address);
    const under = `ips[${at}]`;
    if (!row) return [{ reason: `Address not found: ${address.slice(0, 60)}.`, field: under }];
    if (!row.public) return [{ reason: "A private address cannot be shared.", field: under }];
    if (row.instanceId === instance.id) return [{ reason: "The instance holds it already.", field: under }];
    return row.region === instance.region ? [] : [{ reason: `It is in ${row.region}, the instance in ${instance.region}.`, field: under }];
  });
};

/** Which addresses of others an instance takes over while they do not run (carrier.ts); the list replaces the one before. */
export const shareAddresses = (tx: Tx, body: Share): void => {
  const problems = shareProblems(tx, body);
  if (problems.length > 0) throw new Fault("invalid", problems);
  for (const row of tx.list("address")) {
    const wanted = body.ips.includes(row.address);
    if (wanted === row.sharedWith.includes(body.cloudId)) continue;
    const others = row.sharedWith.filter((id) => id !== body.cloudId);
    tx.update("address", row.id, { sharedWith: wanted ? [...others, body.cloudId] : others });
  }
};
