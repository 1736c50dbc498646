import { randomBytes } from "node:crypto";
import { definedOf } from "../../kernel/defined.js";
import { accountOf } from "../account/account.js";
import { allocateAddress } from "../addresses/address.js";
import { addAddress } from "../addresses/rules.js";
import { layOutBackup } from "../backups/restore.js";
import type { Cloud, Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";
import { deploymentOf, imageEntry } from "./deployment.js";
import type { Alerts, InstanceRow } from "./instance.js";
import { defaultSwapMb, layOut } from "./layout.js";
import { createProblems, defaultLabel, type InstanceCreate, refuse, typeEntry } from "./rules.js";
import { startJob } from "./start-job.js";

/** Contract 9.1: 90 percent a CPU, 10 Mbit/s, 80 percent, 10,000 operations a second. */
const defaultAlerts = (vcpus: number): Alerts => ({ cpu: 90 * vcpus, networkIn: 10, networkOut: 10, transferQuota: 80, io: 10_000 });

type Identity = Pick<InstanceRow, "region" | "type"> & { label?: string | undefined } & Partial<Omit<InstanceRow, "id" | "label">>;

/** A row with everything that is not said left at its default, and a label of its own; off, and without anything to boot. */
export const insertInstance = (tx: Tx, cloud: Cloud, { label, ...given }: Identity): InstanceRow => {
  const now = cloud.clock.now();
  const inserted = tx.insert("instance", {
    image: null,
    group: "",
    tags: [],
    createdMs: now,
    updatedMs: now,
    power: "off",
    boots: 0,
    job: null,
    diskId: null,
    profileId: null,
    rescue: false,
    userData: null,
    watchdogEnabled: true,
    backupsEnabled: false,
    backupsSinceMs: null,
    backupsSchedule: { day: null, window: null },
    alerts: defaultAlerts(typeEntry(cloud, given.type)?.vcpus ?? 1),
    hostUuid: randomBytes(20).toString("hex"),
    diskEncryption: "disabled",
    maintenancePolicy: null,
    ...given,
    label: label ?? "",
  });
  return label === undefined ? tx.update("instance", inserted.id, { label: defaultLabel(tx, inserted.id) }) : inserted;
};

export const imageEntity = (tx: Tx, cloud: Cloud, image: string | null): Entity | null =>
  image === null ? null : { kind: "image", id: image, label: imageEntry(cloud, tx, image)?.label ?? image };

export const createInstance = (
  tx: Tx,
  cloud: Cloud,
  body: InstanceCreate,
  rootPassHash: string | null,
  username: string | undefined,
): InstanceRow => {
  refuse(createProblems(tx, cloud, body));
  const deployment = deploymentOf(tx, cloud, body, rootPassHash);
  const backup = body.backupId === undefined ? undefined : tx.get("backup", body.backupId);
  const boots = (deployment.image !== null || backup !== undefined) && body.booted !== false;
  const inserted = insertInstance(tx, cloud, {
    label: body.label,
    region: body.region,
    type: body.type,
    image: backup?.image ?? deployment.image,
    power: boots ? "on" : "off",
    boots: boots ? 1 : 0,
    userData: body.metadata?.userData ?? null,
    ...definedOf({
      group: body.group,
      tags: body.tags,
      watchdogEnabled: body.watchdogEnabled,
      backupsEnabled: body.backupsEnabled ?? accountOf(tx).settings.backupsEnabled,
      diskEncryption: body.diskEncryption,
      maintenancePolicy: body.maintenancePolicy ?? accountOf(tx).settings.maintenancePolicy ?? undefined,
    }),
  });
  const row = tx.update("instance", inserted.id, {
    alerts: { ...inserted.alerts, ...definedOf(body.alerts) },
    backupsSchedule: { ...inserted.backupsSchedule, ...definedOf(body.backups?.schedule) },
  });
  const restored = backup && layOutBackup(tx, cloud, row, backup, deployment);
  if (restored) tx.update("instance", row.id, { diskId: restored.disk.id, profileId: restored.profileId });
  layOut(tx, cloud, row, deployment, {
    swapMb: body.swapSize ?? defaultSwapMb,
    bootMb: body.bootSize,
    kernel: body.kernel,
    network: body.networkHelper,
    interfaces: body.interfaces,
  });
  const started = startJob(tx, cloud, row, { verb: "create" }, { username, secondary: imageEntity(tx, cloud, row.image) });
  allocateAddress(tx, cloud, started, true);
  if (body.privateIp) addAddress(tx, cloud, started, { type: "ipv4", public: false }, username);
  return started;
};
