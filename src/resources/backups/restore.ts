import type { Problem } from "../../kernel/fault.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { type DiskRow, insertDisk, noDeployment } from "../disks/disk.js";
import type { Deployment } from "../instances/deployment.js";
import type { InstanceRow } from "../instances/instance.js";
import { type Devices, defaultHelpers, defaultRootDevice, slots } from "../profiles/profile.js";
import type { BackupRow } from "./backup.js";

export const backupMb = (backup: BackupRow): number => backup.disks.reduce((sum, disk) => sum + disk.size, 0);

/**
 * The disks of a backup on an instance, with a config profile that boots them. What is on them is copied by the machines loop before the
 * first boot. `deployment`: what is handed over then; who the machine was comes with the disk.
 */
export const layOutBackup = (
  tx: Tx,
  cloud: Pick<Cloud, "clock">,
  row: InstanceRow,
  backup: BackupRow,
  deployment: Pick<Deployment, "rootPassHash" | "authorizedKeys">,
): { disk: DiskRow; profileId: number } | undefined => {
  const disks = backup.disks.map(({ label, size, filesystem, image, copy }) =>
    insertDisk(tx, cloud, {
      ...noDeployment,
      ...(copy === null ? {} : deployment),
      instanceId: row.id,
      label,
      size,
      filesystem,
      image,
      copyOf: copy,
    }),
  );
  const [disk] = disks;
  if (!disk) return undefined;
  const devices: Devices = Object.fromEntries(slots.flatMap((slot, index) => (disks[index] ? [[slot, { diskId: disks[index].id }]] : [])));
  const profile = tx.insert("profile", {
    instanceId: row.id,
    label: `Restore ${backup.id} - ${backup.configs[0] ?? disk.label}`.slice(0, 48),
    kernel: "cloud/grub2",
    comments: "",
    memoryLimit: 0,
    runLevel: "default",
    virtMode: "paravirt",
    helpers: defaultHelpers,
    devices,
    rootDevice: defaultRootDevice,
    interfaces: [],
  });
  return { disk, profileId: profile.id };
};

/** What is wrong with a backup that an instance is to be made from (contract 9.1, 9.2). */
export const backupProblems = (
  reader: Pick<CloudStore | Tx, "get">,
  backupId: number | undefined,
  body: { image?: string | null | undefined; region?: string | undefined; scriptId?: number | undefined },
  planMb: number | undefined,
): Problem[] => {
  if (backupId === undefined) return [];
  const backup = reader.get("backup", backupId);
  if (!backup) return [{ reason: "No backup has this id.", field: "backupId" }];
  const problems: Problem[] = [];
  if ((body.image ?? null) !== null) problems.push({ reason: "Give either an image or a backup, not both.", field: "backupId" });
  if (backup.status !== "successful")
    problems.push({ reason: `This backup is ${backup.status}; only a successful one can be used.`, field: "backupId" });
  if (body.region !== undefined && body.region !== backup.region)
    problems.push({ reason: `This backup is in ${backup.region}; an instance made from it must be there too.`, field: "region" });
  if (planMb !== undefined && backupMb(backup) > planMb)
    problems.push({ reason: `Too small: the disks of the backup take ${backupMb(backup)} MB, and this plan has ${planMb}.`, field: "type" });
  return problems;
};
