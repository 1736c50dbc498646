import { createHash } from "node:crypto";
import { accountOf } from "../account/account.js";
import type { Cloud, Tx } from "../cloud.js";
import { type DiskRow, disksOf, imageDiskLabel, insertDisk, swapDiskLabel } from "../disks/disk.js";
import { defaultHelpers, defaultRootDevice, type ProfileInterface, type ProfileRow, profilesOf } from "../profiles/profile.js";
import { type Deployment, imageEntry } from "./deployment.js";
import type { InstanceRow } from "./instance.js";

/** MB, when an image is given and nothing else is said (contract 9.1). */
export const defaultSwapMb = 512;
const defaultKernel = "cloud/grub2";

export interface LayoutWanted {
  /** MB; 0 for no swap disk. */
  swapMb: number;
  /** MB of the image's disk; all that swap leaves of the plan when undefined. */
  bootMb?: number | undefined;
  kernel?: string | undefined;
  network?: boolean | undefined;
  interfaces?: ProfileInterface[] | undefined;
}

/**
 * What comes with an image (contract 9.1): its disk, as large as swap leaves of the plan, a swap disk, and a config that boots the one with
 * the other. The instance is set to boot it. Nothing when there is no image.
 */
export const layOut = (
  tx: Tx,
  cloud: Pick<Cloud, "clock" | "catalogue">,
  row: InstanceRow,
  deployment: Deployment,
  wanted: LayoutWanted,
  fingerprint?: string,
): { disk: DiskRow; profile: ProfileRow } | undefined => {
  if (deployment.image === null) return undefined;
  const planMb = cloud.catalogue.types.find((entry) => entry.id === row.type)?.disk ?? 0;
  const label = imageDiskLabel(imageEntry(cloud, tx, deployment.image)?.label ?? deployment.image);
  const disk = insertDisk(tx, cloud, {
    instanceId: row.id,
    label,
    size: wanted.bootMb ?? planMb - wanted.swapMb,
    filesystem: "ext4",
    ...deployment,
    ...(fingerprint === undefined ? {} : { fingerprint }),
  });
  const swap =
    wanted.swapMb > 0
      ? insertDisk(tx, cloud, { instanceId: row.id, label: swapDiskLabel(wanted.swapMb), size: wanted.swapMb, filesystem: "swap" })
      : undefined;
  const profile = tx.insert("profile", {
    instanceId: row.id,
    label: `My ${label} Profile`.slice(0, 48),
    kernel: wanted.kernel ?? defaultKernel,
    comments: "",
    memoryLimit: 0,
    runLevel: "default",
    virtMode: "paravirt",
    helpers: { ...defaultHelpers, network: wanted.network ?? accountOf(tx).settings.networkHelper },
    devices: { sda: { diskId: disk.id }, ...(swap ? { sdb: { diskId: swap.id } } : {}) },
    rootDevice: defaultRootDevice,
    interfaces: wanted.interfaces ?? [],
  });
  tx.update("instance", row.id, { diskId: disk.id, profileId: profile.id });
  return { disk, profile };
};

/** Takes an instance's disks and config profiles away; their file systems go with the machine, or are looked for by the machines loop. */
export const clearLayout = (tx: Tx, instanceId: number): void => {
  for (const disk of disksOf(tx, instanceId)) tx.remove("disk", disk.id);
  for (const profile of profilesOf(tx, instanceId)) tx.remove("profile", profile.id);
};

/** What a row of schema version 1 says about its machine, beside what is there now. */
type OldRow = InstanceRow & Omit<Deployment, "image"> & { scriptReported: boolean };

/** What version 1 called a machine: kept, so that the machines it made keep their files. */
const oldFingerprint = (row: OldRow): string =>
  createHash("sha256")
    .update(
      JSON.stringify([
        row.image,
        row.type,
        row.rootPassHash,
        row.authorizedKeys,
        row.script?.id ?? null,
        row.script === null ? null : row.script.data,
      ]),
    )
    .digest("hex")
    .slice(0, 32);

/** Gives the instances of a state of version 1 the disks and the config that they would have been made with. */
export const layOutOldInstances = async (cloud: Cloud): Promise<void> => {
  const old = (row: InstanceRow): row is OldRow => "rootPassHash" in row;
  if (!cloud.store.list("instance").some(old)) return;
  await cloud.store.commit((tx) => {
    for (const row of tx.list("instance").filter(old)) {
      const { image, rootPassHash, authorizedKeys, script, scriptReported } = row;
      const made = layOut(tx, cloud, row, { image, rootPassHash, authorizedKeys, script }, { swapMb: defaultSwapMb }, oldFingerprint(row));
      if (made) tx.update("disk", made.disk.id, { scriptReported });
      const moved = { rootPassHash: undefined, authorizedKeys: undefined, script: undefined, scriptReported: undefined };
      tx.update("instance", row.id, moved as Partial<InstanceRow>);
    }
  });
};
