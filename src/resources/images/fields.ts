import { z } from "zod";
import { field } from "../../kernel/field.js";
import { Tags } from "../instances/fields.js";

const time = z.string().nullable();

const Label = z.string().regex(/^[a-zA-Z0-9,.?\-_' ]{1,50}$/, "Must be 1 to 50 letters, digits, blanks and any of , . ? - _ '");

/** Contract 13.1. */
export const imageFields = {
  id: field.read(z.string(), "Slug: `cloud/NAME` for everybody, `private/NUMBER` for the account's own.", { source: "description" }),
  label: field.write(Label, "Name; the disk's when left out.", { filter: true }),
  diskId: field.secret(z.int(), "Disk of an instance to copy; best of one that is off.", { required: true }),
  cloudInit: field.secret(z.boolean(), "Recorded as capability `cloud-init`."),
  created: field.read(time, "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(time, "UTC."),
  createdBy: field.read(z.string(), "Who made it."),
  deprecated: field.read(z.boolean(), "No longer maintained.", { source: "description", filter: true }),
  description: field.write(z.string().max(65_000, "Must be at most 65000 characters.").nullable(), "Words about it."),
  isPublic: field.read(z.boolean(), "Everybody may use it.", { filter: true }),
  isShared: field.read(z.boolean(), "Shared with the account."),
  size: field.read(z.int(), "MB; of the account's own as measured, 0 until they are made.", { filter: true }),
  type: field.read(z.string(), "`manual` or `automatic`.", { filter: true }),
  expiry: field.read(time, "When it is removed."),
  eol: field.read(time, "When its maker stops maintaining it."),
  vendor: field.read(z.string().nullable(), "Distribution; null for the account's own.", { source: "description", filter: true }),
  status: field.read(z.string(), "`creating` or `available`.", { filter: true }),
  capabilities: field.read(z.array(z.string()), "E.g. `cloud-init`."),
  tags: field.write(Tags, "Words to group by."),
  regions: field.read(z.array(z.unknown()), "Where it is stored."),
  imageSharing: field.read(z.unknown(), "How it is shared; null."),
};
