import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";

const Label = text(3, 64).regex(
  /^[a-zA-Z0-9](?:(?!--|__|\.\.)[a-zA-Z0-9._-])*[a-zA-Z0-9]$/,
  "May hold letters, digits, dashes, underscores and dots, none of these marks doubled, and begins and ends with a letter or digit.",
);
export const Tags = z.array(text(3, 50)).max(500, "Must hold at most 500 entries.");

/** Contract 9.1: 7 to 128 characters of at least two kinds (the strength rule). */
const RootPass = text(7, 128).refine(
  (value) => [/[a-z]/, /[A-Z]/, /[0-9]/, /[^a-zA-Z0-9]/].filter((kind) => kind.test(value)).length >= 2,
  "Too weak: use at least two of lower case, upper case, digits and other characters.",
);
const PublicKey = z
  .string()
  .regex(/^(ssh-(rsa|ed25519|dss)|ecdsa-sha2-nistp\d+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+( [^\r\n]*)?\s*$/, "Must be a public key in OpenSSH form.");

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
const days = ["Scheduling", "Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"] as const;
const windows = ["Scheduling", "W0", "W2", "W4", "W6", "W8", "W10", "W12", "W14", "W16", "W18", "W20", "W22"] as const;

/** Description 2.4 and contract 9.1. */
export const instanceFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused.", { filter: true }),
  label: field.write(Label, "Name, unique in the account; `instance` and the id when left out.", { filter: true }),
  region: field.create(z.string(), "Region id from `/v4/regions`.", { required: true, filter: true }),
  type: field.create(z.string(), "Type id from `/v4/cloud/types`.", { required: true }),
  image: field.create(z.string().nullable(), "Image slug from `/v4/images`; without one there is nothing to boot.", { filter: true }),
  rootPass: field.secret(RootPass, "Root's password; needed with an image."),
  authorizedKeys: field.secret(z.array(PublicKey), "Public keys that may log in as root."),
  booted: field.secret(z.boolean(), "False creates it without booting. Default: true with an image."),
  scriptId: field.secret(z.int(), "Script from `/v4/cloud/scripts`, run once at first boot."),
  scriptData: field.secret(z.record(z.string(), z.string()), "Answers to the script's user defined fields.", { verbatim: true }),
  privateIp: field.secret(z.boolean(), "True adds a private IPv4 address at creation."),
  backupsEnabled: field.secret(z.boolean(), "Recorded; backups themselves are not made yet."),
  group: field.write(z.string().max(50), "Old grouping word.", { filter: true }),
  tags: field.write(Tags, "Words to group by.", { filter: true }),
  alerts: field.write(Alerts, "Thresholds; recorded, nothing is sent."),
  backups: field.write(
    z.object({ schedule: z.object({ day: z.enum(days).nullable().optional(), window: z.enum(windows).nullable().optional() }).optional() }),
    "Backup window; recorded.",
  ),
  watchdogEnabled: field.write(z.boolean(), "Restart it after it died by itself."),
  status: field.read(z.enum(["running", "offline", "booting", "rebooting", "shutting_down", "provisioning", "deleting"]), "What it does, measured."),
  hypervisor: field.read(z.string(), "Always `kvm`, as clients expect; what really runs is at `/_backlot/instances/ID`."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  ipv4: field.read(z.array(z.ipv4()), "Public first, then private.", { filter: true }),
  ipv6: field.read(z.null(), "Always null: Backlot gives no IPv6 addresses."),
  specs: field.read(
    z.object({ disk: z.int(), memory: z.int(), vcpus: z.int(), gpus: z.int(), transfer: z.int(), acceleratedDevices: z.int() }),
    "Of its type: disk and memory in MB, transfer in GB a month.",
  ),
  hostUuid: field.read(z.string(), "40 hex digits."),
  hasUserData: field.read(z.boolean(), "Always false."),
  siteType: field.read(z.string(), "Always `core`."),
  placementGroup: field.read(z.null(), "Always null."),
  diskEncryption: field.read(z.string(), "Always `disabled`."),
  lkeClusterId: field.read(z.null(), "Always null."),
  capabilities: field.read(z.array(z.string()), "Always empty."),
  interfaceGeneration: field.read(z.string(), "Always `legacy_config`."),
  maintenancePolicy: field.read(z.null(), "Always null."),
  locks: field.read(z.array(z.string()), "Always empty."),
};
