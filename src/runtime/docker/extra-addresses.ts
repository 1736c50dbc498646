import type Docker from "dockerode";
import { Fault } from "../../kernel/fault.js";
import { extraAddressesFile, putFiles } from "./guest-files.js";
import { labels, type Owner, ownerLabels } from "./labels.js";

export interface ExtraAddress {
  /** The first address of the same network: the new one goes on the same device. */
  beside: string;
  address: string;
  prefix: number;
}

/** How a set of extra addresses is noted in the guest, to see whether there is anything to do. */
export const extraAddressesNote = (extras: readonly ExtraAddress[]): string => extras.map(({ address, prefix }) => `${address}/${prefix}`).join(" ");

interface Application {
  /** Tag of the image whose tools are used. */
  image: string;
  /** Id of the machine's container. */
  container: string;
  /** What the guest noted of the addresses it was given last. */
  previous: string;
  extras: readonly ExtraAddress[];
  /** What the engine itself fixes; one of them may have been an extra before, and stays. */
  engines: readonly string[];
  /** Those of `engines` that neighbours may know at another machine. */
  announced: readonly string[];
}

/** Neighbours remember for up to a minute which machine had an address. Unasked, they are told anew (RFC 5227, section 3); if not, they find out. */
const announcement = (address: string): string => `busybox arping -q -U -c 1 -w 1 -I "$(device ${address})" ${address} || true`;

const command = ({ previous, extras, engines, announced }: Application): string => {
  const stays = (noted: string): boolean =>
    engines.includes(noted.split("/")[0] ?? "") || extras.some(({ address, prefix }) => noted === `${address}/${prefix}`);
  const gone = previous.split(" ").filter((noted) => noted !== "" && !stays(noted));
  return [
    "set -e",
    "device() { ip -o -4 addr show to \"$1\" | awk '{print $2; exit}' | cut -d@ -f1; }",
    ...gone.map((noted) => `d=$(device ${noted.split("/")[0]}); [ -z "$d" ] || ip addr del ${noted} dev "$d"`),
    ...extras.map(({ beside, address, prefix }) => `ip addr replace ${address}/${prefix} dev "$(device ${beside})"`),
    ...[...announced, ...extras.map(({ address }) => address)].map(announcement),
  ].join("\n");
};

/**
 * Gives a running machine addresses beyond the one the engine fixes per network. The guest may not change its own network, so a
 * container that lives for a moment does it, in the guest's network namespace; it may change that network and speak ARP there, and no more.
 */
export const applyExtraAddresses = async (docker: Docker, owner: Owner, wanted: Application): Promise<void> => {
  const { image, container, extras } = wanted;
  const helper = await docker.createContainer({
    Image: image,
    Entrypoint: ["/bin/sh", "-c"],
    Cmd: [command(wanted)],
    Labels: { ...ownerLabels(owner), [labels.helper]: "addresses" },
    HostConfig: { NetworkMode: `container:${container}`, CapDrop: ["ALL"], CapAdd: ["NET_ADMIN", "NET_RAW"] },
  });
  try {
    await helper.start();
    const { StatusCode } = (await helper.wait()) as { StatusCode: number };
    if (StatusCode !== 0) {
      const said = ((await helper.logs({ stdout: true, stderr: true })) as Buffer).subarray(8).toString().trim();
      throw new Fault("unavailable", [{ reason: `The further addresses ${extraAddressesNote(extras)} could not be added: ${said}.` }]);
    }
    await putFiles(docker.getContainer(container), extraAddressesFile(extraAddressesNote(extras)));
  } finally {
    await helper.remove({ force: true });
  }
};
