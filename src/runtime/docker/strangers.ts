import type Docker from "dockerode";
import { Fault } from "../../kernel/fault.js";
import type { Attachment } from "./container.js";

/** Why a machine cannot have its address, when a container that is not that machine has it: whose, and the way to get it back. */
export const strangerFault = async (
  docker: Docker,
  instance: number,
  own: string | undefined,
  wanted: readonly Attachment[],
): Promise<Fault | undefined> => {
  for (const { name, address } of wanted) {
    if (address === undefined) continue;
    const there = await docker.listContainers({ filters: { network: [name] } });
    const holder = there.find(({ Id, NetworkSettings }) => Id !== own && NetworkSettings.Networks[name]?.IPAddress === address);
    if (!holder) continue;
    const who = (holder.Names[0] ?? holder.Id).replace(/^\//, "");
    const reason = `${address} of instance ${instance} is taken by the container ${who}. Take it off the network: docker network disconnect ${name} ${who}`;
    return new Fault("unavailable", [{ reason }]);
  }
  return undefined;
};
