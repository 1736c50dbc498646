import { z } from "zod";
import { invalid } from "../../kernel/fault.js";
import { customSchema, text } from "../../kernel/field.js";
import { route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { allocatedMb } from "../disks/disk.js";
import { recordEvent } from "../events/event.js";
import { type InstanceRow, instanceEntity, isDeleting, requireInstance } from "../instances/instance.js";
import { clearLayout } from "../instances/layout.js";
import { requireIdle, typeEntry } from "../instances/rules.js";
import { startJob } from "../instances/start-job.js";
import { type BackupRow, backupsOf, backupsView, backupView, disksToBackUp, dropBackups, insertBackup, isUnderWay, requireBackup } from "./backup.js";
import { backupMb, layOutBackup } from "./restore.js";

const collection = "/v4/cloud/instances/:instanceId/backups";
const one = `${collection}/:backupId`;

const takeSnapshot = (tx: Tx, cloud: Cloud, row: InstanceRow, label: string, username: string | undefined) => {
  if (!row.backupsEnabled) throw invalid("Backups are not enabled for this instance; enable them first.");
  requireIdle(row);
  const rows = backupsOf(tx, row.id).filter(({ type }) => type === "snapshot");
  if (rows.some(isUnderWay)) throw invalid("A snapshot is being taken already; wait until it is done.");
  const disks = disksToBackUp(tx, row);
  if (disks.length === 0) throw invalid("There is nothing to take a snapshot of: the instance has no disk with a system.");
  for (const failed of rows.filter(({ status }) => status === "failed")) tx.remove("backup", failed.id);
  const eventId = recordEvent(tx, cloud, {
    action: "instance_snapshot",
    entity: instanceEntity(row),
    status: "scheduled",
    username: username ?? null,
  });
  return backupView(insertBackup(tx, cloud, row, { type: "snapshot", label, eventId, disks }));
};

/** Contract 9.4: why this backup cannot be put on that instance. */
const refuseRestore = (tx: Tx, cloud: Cloud, backup: BackupRow, target: InstanceRow, overwrite: boolean): void => {
  if (isUnderWay(backup)) throw invalid("Pending backups cannot be restored; wait until it is done.");
  if (backup.status !== "successful") throw invalid("This backup failed; there is nothing to restore.");
  if (target.region !== backup.region) throw invalid(`The backup is in ${backup.region}, and this instance in ${target.region}.`, "cloudId");
  requireIdle(target);
  const planMb = typeEntry(cloud, target.type)?.disk ?? 0;
  const free = overwrite ? planMb : planMb - allocatedMb(tx, target.id);
  if (backupMb(backup) > free) {
    const remedy = overwrite ? "Choose an instance of a larger type." : "Delete disks of it, or say overwrite.";
    throw invalid(`There is not enough free space: the backup takes ${backupMb(backup)} MB, and the instance has ${Math.max(0, free)}. ${remedy}`);
  }
};

const restore = (tx: Tx, cloud: Cloud, backup: BackupRow, target: InstanceRow, overwrite: boolean, username: string | undefined): void => {
  refuseRestore(tx, cloud, backup, target, overwrite);
  const isEmpty = allocatedMb(tx, target.id) === 0;
  if (overwrite) clearLayout(tx, target.id);
  const made = layOutBackup(tx, cloud, target, backup, { rootPassHash: null, authorizedKeys: [] });
  // Contract 9.3: what was restored is off; whoever asked boots it.
  const boots =
    overwrite || isEmpty ? { power: "off" as const, image: backup.image, diskId: made?.disk.id ?? null, profileId: made?.profileId ?? null } : {};
  startJob(tx, cloud, target, { verb: "restore" }, { username, action: "backups_restore" }, boots);
};

export const backupRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: collection,
    scope: "instances",
    summary: "Shows an instance's backups and its snapshot.",
    answers: "one",
    shows: "Backups",
    run: ({ cloud, params }) => backupsView(cloud.store, requireInstance(cloud.store, params.instanceId).id),
  }),
  route<Cloud, { label: string }>({
    method: "POST",
    path: collection,
    scope: "instances",
    summary: "Takes a snapshot; it replaces the one there is when it is done.",
    body: customSchema(z.object({ label: text(1, 255) })),
    answers: "one",
    shows: "Backup",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => takeSnapshot(tx, cloud, requireInstance(tx, params.instanceId), body.label, caller?.username)),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: `${collection}/enable`,
    scope: "instances",
    summary: "Turns backups on: one a day, in the hours of its schedule.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        if (row.backupsEnabled || isDeleting(row)) return;
        tx.update("instance", row.id, { backupsEnabled: true, backupsSinceMs: cloud.clock.now() });
        recordEvent(tx, cloud, { action: "backups_enable", entity: instanceEntity(row), username: caller?.username ?? null });
      }),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: `${collection}/cancel`,
    scope: "instances",
    summary: "Turns backups off, and deletes all there are of the instance.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        if (!row.backupsEnabled) return;
        tx.update("instance", row.id, { backupsEnabled: false, backupsSinceMs: null });
        dropBackups(tx, row.id);
        recordEvent(tx, cloud, { action: "backups_cancel", entity: instanceEntity(row), username: caller?.username ?? null });
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: one,
    scope: "instances",
    summary: "Reads one backup.",
    answers: "one",
    shows: "Backup",
    run: ({ cloud, params }) => backupView(requireBackup(cloud.store, params.instanceId, params.backupId)),
  }),
  route<Cloud, { cloudId: number; overwrite?: boolean | null | undefined }>({
    method: "POST",
    path: `${one}/restore`,
    scope: "instances",
    summary: "Puts a backup on an instance: beside its disks, or in their place with `overwrite`. It is off afterwards.",
    body: customSchema(z.object({ cloudId: z.int(), overwrite: z.boolean().nullish() })),
    answers: "empty",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const backup = requireBackup(tx, requireInstance(tx, params.instanceId).id, params.backupId);
        const target = tx.get("instance", body.cloudId);
        if (!target) throw invalid("No instance has this id.", "cloudId");
        restore(tx, cloud, backup, target, body.overwrite ?? false, caller?.username);
      }),
  }),
];
