import { type Cloud, observed, type Reader } from "../cloud.js";
import type { InstanceRow } from "../instances/instance.js";
import { type AddressRow, addressesOf, isShared, sharedBy } from "./address.js";

const runs = ({ store }: Pick<Cloud, "store">, id: number): boolean => observed(store, "instance", id)?.running === true;

/** Has its own addresses up, or is about to: those that share them then do not. */
export const isUp = (cloud: Pick<Cloud, "store">, row: InstanceRow): boolean => runs(cloud, row.id) || (row.power === "on" && row.job !== null);

/**
 * The instance that has an address up: its holder, and while that does not run the first that shares it and does. As in the public service,
 * where the address is routed to whoever announces it and its holder is preferred; here nothing in a machine has to announce anything.
 */
const carrierOf = (cloud: Pick<Cloud, "store">, row: AddressRow): number => {
  const holder = cloud.store.get("instance", row.instanceId);
  if (!holder || isUp(cloud, holder)) return row.instanceId;
  return row.sharedWith.find((id) => runs(cloud, id)) ?? row.instanceId;
};

/** Other instances' addresses that this one has up in their place. */
export const carriedBy = (cloud: Pick<Cloud, "store">, instanceId: number): readonly string[] =>
  sharedBy(cloud.store, instanceId)
    .filter((row) => carrierOf(cloud, row) === instanceId)
    .map((row) => row.address);

/** Instances that may have one of this one's addresses up. */
export const standIns = (reader: Reader, instanceId: number): readonly number[] => [
  ...new Set(addressesOf(reader, instanceId).flatMap((row) => row.sharedWith)),
];

/** Instances that are concerned when this one comes up or goes down: they share an address with it, and are not its holder, who always has it. */
export const concernedBy = (reader: Reader, instanceId: number): readonly number[] => {
  const rows = reader.find("address", isShared, true).filter((row) => row.instanceId === instanceId || row.sharedWith.includes(instanceId));
  return [...new Set(rows.flatMap((row) => row.sharedWith))].filter((id) => id !== instanceId);
};
