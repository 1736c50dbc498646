import { z } from "zod";
import { field } from "../../kernel/field.js";

const time = z.string();

/** Contract 9.7. */
export const backupFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused."),
  region: field.read(z.string(), "Region of its instance."),
  type: field.read(z.enum(["auto", "snapshot"]), "Made by schedule or by hand."),
  status: field.read(z.enum(["pending", "running", "successful", "failed"]), "How far it is."),
  label: field.read(z.string().nullable(), "Name of a snapshot; null for an automatic one."),
  created: field.read(time, "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(time, "UTC."),
  finished: field.read(time.nullable(), "UTC; null until it is done."),
  configs: field.read(z.array(z.string()), "Labels of the config profiles there were."),
  disks: field.read(z.array(z.object({ label: z.string(), size: z.int(), filesystem: z.string() })), "The disks there were; size in MB."),
  available: field.read(z.boolean(), "It can be restored."),
};

const Backup = z.record(z.string(), z.unknown());

/** Contract 9.7. */
export const backupsFields = {
  automatic: field.read(z.array(Backup), "Those made by schedule, the newest first."),
  snapshot: field.read(
    z.object({ current: Backup.nullable(), inProgress: Backup.nullable() }),
    "`current`: the snapshot there is; `in_progress`: the one being made. Each null or a backup.",
  ),
};
