import { contains, parseCidr } from "../kernel/addresses.js";
import { type AddressRow, addressRow, poolPlace } from "../resources/addresses/address.js";
import type { Cloud } from "../resources/cloud.js";
import type { NodeRow } from "../resources/nodes/node.js";
import { parseNodeAddress } from "../resources/nodes/rules.js";
import type { Endpoint, RuntimeDriver } from "../runtime/driver.js";

/**
 * Where a node is dialled, or why it is not. What was checked when the row was written is checked again each time: rows come from older
 * states and backups, and addresses and pieces of the pool change hands.
 */
export const nodeTarget = (
  { store, settings }: Pick<Cloud, "store" | "settings">,
  driver: Pick<RuntimeDriver, "dial">,
  node: NodeRow,
): { endpoint: Endpoint; holder: AddressRow | undefined; reason: undefined } | { reason: string } => {
  const target = parseNodeAddress(node.address);
  const pool = parseCidr(settings.privatePool);
  const endpoint = target && pool && contains(pool, target.host) ? driver.dial(target.host, target.port) : undefined;
  if (!target || !endpoint) return { reason: "The address lies outside the private pool." };
  const holder = addressRow(store, target.host);
  // What an instance holds is no gateway, and of its own region.
  const place = holder ? undefined : poolPlace(store, settings, target.host);
  const region = store.get("balancer", node.balancerId)?.region;
  const found = holder?.region ?? place?.region;
  if (found !== undefined && region !== undefined && found !== region)
    return { reason: `The address belongs to ${found}; the balancer is in ${region}.` };
  if (place?.isGateway) return { reason: "The address is the network's gateway, not an instance's." };
  return { endpoint, holder, reason: undefined };
};
