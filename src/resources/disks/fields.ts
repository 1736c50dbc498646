import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";
import { deploymentFields } from "../instances/deployment.js";
import { filesystems } from "./disk.js";

/** Contract 9.6. */
export const diskFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused.", { filter: true }),
  label: field.write(text(1, 48), "Name; from its image or kind when left out.", { filter: true }),
  size: field.create(integer(1, 10_000_000), "MB; all disks together may not be larger than the plan allows.", { required: true, filter: true }),
  filesystem: field.create(z.enum(filesystems), "ext4 when left out."),
  image: field.secret(z.string(), "Image to deploy; without one the disk is empty."),
  ...deploymentFields,
  status: field.read(z.enum(["ready", "not ready", "deleting"]), "From the job under way."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  diskEncryption: field.read(z.string(), "Always `disabled`."),
};
