import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";
import { Tags } from "../instances/fields.js";

/** Contract 11: part of a path, so it is narrow. */
export const VolumeLabel = text(1, 32).regex(
  /^[a-zA-Z](?:(?!--|__)[a-zA-Z0-9_-])*$/,
  "Must begin with a letter and may hold letters, digits, dashes and underscores, with no dash or underscore doubled.",
);

/** GB, 2^30 bytes each. */
export const VolumeSize = integer(10, 10_240);

/** Description 2.6 and contract 11. */
export const volumeFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused.", { filter: true }),
  label: field.write(VolumeLabel, "Name, unique in the account; the volume is at `/mnt/LABEL` in its instance.", { required: true, filter: true }),
  filesystemPath: field.read(z.string(), "The device's name as the public cloud gives it."),
  status: field.read(z.enum(["creating", "active", "resizing", "deleting", "offline"]), "`offline`: it could not be made; its event says why.", {
    filter: true,
  }),
  size: field.create(VolumeSize, "GB, 20 by default. Grows by `resize` only.", { source: "description" }),
  region: field.create(z.string(), "Region id from `/v4/regions`; the instance's when `cloud_id` is given.", { filter: true }),
  cloudId: field.create(z.int().nullable(), "Instance that has it; null when none has."),
  cloudLabel: field.read(z.string().nullable(), "That instance's label."),
  configId: field.secret(z.int(), "Config profile of the instance, whose first free slot names the volume; needed when it has several."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  tags: field.write(Tags, "Words to group by.", { filter: true }),
  hardwareType: field.read(z.string(), "Always `nvme`, as clients expect."),
  encryption: field.create(z.enum(["enabled", "disabled"]), "Recorded; the data is not encrypted. Default: `disabled`."),
  ioReady: field.read(z.boolean(), "True while its instance really has it mounted, measured."),
  locks: field.read(z.array(z.string()), "Always empty."),
};
