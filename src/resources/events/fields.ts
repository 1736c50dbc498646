import { z } from "zod";
import { field } from "../../kernel/field.js";

const EntityShape = z.object({ id: z.union([z.int(), z.string()]), label: z.string(), type: z.string(), url: z.string() }).nullable();

/** Contract 15.1. */
export const eventFields = {
  id: field.read(z.int().positive(), "Grows with every event.", { filter: true }),
  action: field.read(z.string(), "What happened, e.g. `instance_boot`.", { filter: true }),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`.", { filter: true }),
  duration: field.read(z.number().nullable(), "Seconds since it started, null until then."),
  entity: field.read(EntityShape, "What it happened to. Filter with `entity.id` and `entity.type`."),
  secondaryEntity: field.read(EntityShape, "The other thing involved, e.g. the image."),
  percentComplete: field.read(z.int().nullable(), "0 scheduled, 50 started, 100 ended, null for a notification."),
  rate: field.read(z.string().nullable(), "Always null: no job of this service has one yet."),
  read: field.read(z.boolean(), "Marked as read.", { filter: true }),
  seen: field.read(z.boolean(), "Marked as seen."),
  status: field.read(z.enum(["scheduled", "started", "finished", "failed", "notification"]), "Where the job is.", { filter: true }),
  timeRemaining: field.read(z.number().nullable(), "0 when finished, else null."),
  username: field.read(z.string().nullable(), "Who asked; null for the platform itself."),
  message: field.read(z.string(), "The reason of a failure, or a warning; mostly empty."),
};
