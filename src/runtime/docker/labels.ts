import { existsSync } from "node:fs";
import { hostname } from "node:os";

/** What is ours carries these, and nothing without them is ever touched. They are fixed when a thing is created. */
export const labels = {
  /** The state file's own id; on everything. */
  owner: "io.backlot.owner",
  /** The state folder, so that `clean` can tell whether the owner still exists; on everything. */
  state: "io.backlot.state",
  /** The machine, or container, that the state folder is a folder of: an engine may serve several; on everything. */
  host: "io.backlot.host",
  /** Instance id; on machines only. */
  instance: "io.backlot.instance",
  fingerprint: "io.backlot.fingerprint",
  /** `boots` at creation; later ones are kept in the guest (guest-files.ts). */
  boots: "io.backlot.boots",
  /** Id of the deploy script; empty on machines that have none. */
  script: "io.backlot.script",
  /** The slug that was booted instead of the asked one (`--image-fallback`), or empty. */
  substituted: "io.backlot.substituted-image",
  /** Region id, or `public`; on networks only. */
  network: "io.backlot.network",
  /** Volume id; on engine volumes only. */
  volume: "io.backlot.volume",
  /** `plain` on engine volumes that are mounted as they are, when a machine boots; the others hold what the helper makes and mounts. */
  volumeForm: "io.backlot.volume-form",
  /** `yes` on a machine that was made anew from its own disk, and on that disk's image; empty on other machines. */
  remade: "io.backlot.remade",
  /** On those: names of the engine volumes without our labels that its image declared, and that go with it. Space separated. */
  carried: "io.backlot.carried-volumes",
  /** On containers that live for a moment and are no machine; says what for. */
  helper: "io.backlot.helper",
  /** Region id; on relays only. */
  relay: "io.backlot.relay",
  /** On guest images: the fixture's name. An image is shared by every owner on the engine. */
  guest: "io.backlot.guest",
  /** On copies of a machine's file system: their key. */
  image: "io.backlot.image",
} as const;

export interface Owner {
  owner: string;
  stateFolder: string;
}

/** Where this process and its files are. A container may have its machine's host name (host networking), and has files of its own. */
export const thisHost = (): string => `${existsSync("/.dockerenv") ? "container " : ""}${hostname()}`;

export const ownerLabels = ({ owner, stateFolder }: Owner): Record<string, string> => ({
  [labels.owner]: owner,
  [labels.state]: stateFolder,
  [labels.host]: thisHost(),
});

/** Letters, digits and dashes, at most 63: fit for a host name and for the engine's names. */
export const nameSafe = (text: string): string =>
  text
    .replace(/[^A-Za-z0-9-]+/g, "-")
    .slice(0, 63)
    .replace(/^-+|(?<!-)-+$/g, "");

export const networkName = (owner: string, network: string): string => `backlot-${nameSafe(owner).slice(0, 8)}-${nameSafe(network)}`;

export const relayName = (owner: string, region: string): string => `${networkName(owner, region)}-relay`;

export const containerName = (owner: string, instance: number): string => `backlot-${nameSafe(owner).slice(0, 8)}-${instance}`;

/** A machine that is put aside while its instance runs from another disk. */
export const parkedName = (owner: string, instance: number, fingerprint: string): string =>
  `${containerName(owner, instance)}-${nameSafe(fingerprint).slice(0, 12)}`;

const volumePrefix = (owner: string): string => `backlot-${nameSafe(owner).slice(0, 8)}-volume-`;

export const volumeName = (owner: string, volume: number): string => `${volumePrefix(owner)}${volume}`;

/** Of that owner's engine volumes, not of one that an image declared. */
export const isVolumeName = (owner: string, name: string): boolean => name.startsWith(volumePrefix(owner));

/** The label of the instance where it can be a host name, else a name made from the id. */
export const hostName = (label: string, instance: number): string => nameSafe(label) || `instance-${instance}`;
