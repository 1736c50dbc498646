import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";
import { Interfaces } from "../profiles/fields.js";
import { deploymentFields } from "./deployment.js";

export const Label = text(3, 64).regex(
  /^[a-zA-Z0-9](?:(?!--|__|\.\.)[a-zA-Z0-9._-])*[a-zA-Z0-9]$/,
  "May hold letters, digits, dashes, underscores and dots, none of these marks doubled, and begins and ends with a letter or digit.",
);
export const Tags = z.array(text(3, 50)).max(500, "Must hold at most 500 entries.");

/** Null is absent here too. */
const threshold = (max: number) =>
  integer(0, max)
    .nullish()
    .transform((value) => value ?? undefined);
const Alerts = z.object({
  cpu: threshold(4800),
  networkIn: threshold(1_000_000),
  networkOut: threshold(1_000_000),
  transferQuota: threshold(400),
  io: threshold(1_000_000),
});
/** Contract 9.1: base64, decoded at most 65,535 bytes. */
const userData = z
  .base64("Must be base64.")
  .refine((value) => Buffer.from(value, "base64").length <= 65_535, "Must hold at most 65,535 bytes when decoded.");
export const Metadata = z.object({ userData: userData.nullish() });
const days = ["Scheduling", "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"] as const;
const windows = ["Scheduling", "W0", "W2", "W4", "W6", "W8", "W10", "W12", "W14", "W16", "W18", "W20", "W22"] as const;

/** Description 2.4 and contract 9.1. */
export const instanceFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused.", { source: "description", filter: true }),
  label: field.write(Label, "Name, unique in the account; `instance` and the id when left out.", { source: "description", filter: true }),
  region: field.create(z.string(), "Region id from `/v4/regions`.", { source: "description", required: true, filter: true }),
  type: field.create(z.string(), "Type id from `/v4/cloud/types`.", { source: "description", required: true }),
  image: field.create(z.string().nullable(), "Image slug from `/v4/images`; without one there is nothing to boot.", {
    source: "description",
    filter: true,
  }),
  ...deploymentFields,
  // The description states these two of instances only, not of disks.
  rootPass: { ...deploymentFields.rootPass, options: { source: "description" } as const },
  scriptId: { ...deploymentFields.scriptId, options: { source: "description" } as const },
  booted: field.secret(z.boolean(), "False creates it without booting. Default: true with an image.", { source: "description" }),
  swapSize: field.secret(integer(0, 10_000_000), "MB of the swap disk; only with an image. Default 512, 0 for none."),
  bootSize: field.secret(integer(1, 10_000_000), "MB of the image's disk; only with an image. Default: what swap leaves of the plan."),
  kernel: field.secret(z.string(), "Kernel of the first config; recorded."),
  networkHelper: field.secret(z.boolean(), "Network helper of the first config; recorded."),
  interfaces: field.secret(Interfaces, "Network interfaces of the first config; recorded."),
  metadata: field.secret(Metadata, "`user_data`: base64, at most 65,535 bytes; `/etc/backlot/user-data` in the guest."),
  firewallId: field.secret(z.int(), "There are none: refused, but for -1."),
  privateIp: field.secret(z.boolean(), "True adds a private IPv4 address at creation."),
  backupsEnabled: field.secret(z.boolean(), "Turns backups on. Default: as the account's settings say."),
  backupId: field.secret(z.int(), "Backup to make it from, in place of an image; in the backup's region."),
  group: field.write(z.string().max(50), "Old grouping word.", { filter: true }),
  tags: field.write(Tags, "Words to group by.", { filter: true }),
  alerts: field.write(Alerts, "Thresholds; recorded, nothing is sent."),
  backups: field.write(
    z.object({ schedule: z.object({ day: z.enum(days).nullable().optional(), window: z.enum(windows).nullable().optional() }).optional() }),
    "When a backup is made: `window` W14 is 14 to 16 h UTC, midnight when null; `day` is recorded.",
    {
      shown: z.object({
        enabled: z.boolean(),
        available: z.boolean(),
        schedule: z.object({ day: z.string().nullable(), window: z.string().nullable() }),
        lastSuccessful: z.string().nullable(),
      }),
    },
  ),
  watchdogEnabled: field.write(z.boolean(), "Restart it after it died by itself."),
  status: field.read(
    z.enum([
      "running",
      "offline",
      "booting",
      "rebooting",
      "shutting_down",
      "provisioning",
      "deleting",
      "migrating",
      "rebuilding",
      "resizing",
      "cloning",
      "restoring",
    ]),
    "What it does, measured.",
  ),
  hypervisor: field.read(z.string(), "Always `kvm`, as clients expect; what really runs is at `/_backlot/instances/ID`."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  ipv4: field.create(z.array(z.ipv4()), "Public first, then private. At creation: a reserved address, of which there are none.", { filter: true }),
  ipv6: field.read(z.null(), "Always null: Backlot gives no IPv6 addresses."),
  specs: field.read(
    z.object({ disk: z.int(), memory: z.int(), vcpus: z.int(), gpus: z.int(), transfer: z.int(), acceleratedDevices: z.int() }),
    "Of its type: disk and memory in MB, transfer in GB a month.",
  ),
  hostUuid: field.read(z.string(), "40 hex digits."),
  hasUserData: field.read(z.boolean(), "True when `metadata.user_data` was given."),
  siteType: field.read(z.string(), "Always `core`."),

  placementGroup: field.create(z.object({ id: z.int() }).nullable(), "Always null: there are none, and one given is refused."),
  diskEncryption: field.create(z.enum(["enabled", "disabled"]), "Recorded; nothing is encrypted."),
  lkeClusterId: field.read(z.null(), "Always null."),
  capabilities: field.read(z.array(z.string()), "Always empty."),
  interfaceGeneration: field.read(z.string(), "Always `legacy_config`."),
  maintenancePolicy: field.write(z.enum(["cloud/migrate", "cloud/power_off_on"]).nullable(), "Recorded; there is no maintenance."),
  locks: field.read(z.array(z.string()), "Always empty."),
};
