import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import type { CloudStore, Reader, Tx } from "../cloud.js";
import type { DiskRow } from "../disks/disk.js";
import type { Entity } from "../events/event.js";

/** `sda` to `sdh` (contract 9.5). */
export const slots = ["sda", "sdb", "sdc", "sdd", "sde", "sdf", "sdg", "sdh"] as const;

type Slot = (typeof slots)[number];

export type Device = { diskId: number } | { volumeId: number };
export type Devices = Partial<Record<Slot, Device | null>>;

export interface Helpers {
  updatedbDisabled: boolean;
  distro: boolean;
  modulesDep: boolean;
  network: boolean;
  devtmpfsAutomount: boolean;
}

export interface ProfileInterface {
  purpose: "public" | "vlan";
  label?: string | undefined;
  ipamAddress?: string | undefined;
  primary?: boolean | undefined;
}

/** What an instance boots with: its config profile (contract 9.5). The name `config` is the balancer's. */
export interface ProfileRow extends Row {
  instanceId: number;
  label: string;
  kernel: string;
  comments: string;
  /** MB; 0 is all of the plan's. */
  memoryLimit: number;
  runLevel: "default" | "single" | "binbash";
  virtMode: "paravirt" | "fullvirt";
  helpers: Helpers;
  devices: Devices;
  rootDevice: string;
  interfaces: ProfileInterface[];
}

/** Contract 9.5. */
export const defaultHelpers: Helpers = { updatedbDisabled: true, distro: true, modulesDep: true, network: true, devtmpfsAutomount: true };
export const defaultRootDevice = "/dev/sda";

const byInstance = (row: ProfileRow) => row.instanceId;

export const profilesOf = (reader: Reader, instanceId: number): readonly ProfileRow[] => reader.find("profile", byInstance, instanceId);

export const requireProfile = (reader: Pick<CloudStore | Tx, "get">, instanceId: number | undefined, id: number | undefined): ProfileRow => {
  const row = reader.get("profile", id ?? 0);
  if (!row || row.instanceId !== instanceId) throw notFound();
  return row;
};

export const profileEntity = (row: ProfileRow): Entity => ({ kind: "profile", id: row.id, label: row.label, parentId: row.instanceId });

/** `/dev/sda1` is on the disk in slot `sda`; undefined for a device that no slot can be. */
const slotOf = (rootDevice: string): Slot | undefined => slots.find((slot) => new RegExp(`^/dev/${slot}\\d*$`).test(rootDevice));

/** The disk its root device names. */
export const rootDisk = (reader: Pick<CloudStore | Tx, "get">, profile: ProfileRow): DiskRow | undefined => {
  const slot = slotOf(profile.rootDevice);
  const device = slot && profile.devices[slot];
  const disk = device && "diskId" in device ? reader.get("disk", device.diskId) : undefined;
  return disk?.instanceId === profile.instanceId ? disk : undefined;
};

/** Contract 9.5; every slot is shown, the empty ones as null. */
export const profileView = (row: ProfileRow) => ({
  id: row.id,
  label: row.label,
  kernel: row.kernel,
  comments: row.comments,
  memoryLimit: row.memoryLimit,
  runLevel: row.runLevel,
  virtMode: row.virtMode,
  helpers: row.helpers,
  devices: Object.fromEntries(
    slots.map((slot) => {
      const device = row.devices[slot] ?? null;
      return [slot, device && { diskId: "diskId" in device ? device.diskId : null, volumeId: "volumeId" in device ? device.volumeId : null }];
    }),
  ),
  rootDevice: row.rootDevice,
  interfaces: row.interfaces,
});
