import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import { addressesOf } from "../addresses/address.js";
import { backupsSummary } from "../backups/backup.js";
import { type Cloud, type CloudStore, observed, type Reader, type Tx } from "../cloud.js";
import type { Entity } from "../events/event.js";
import { type Job, statusWords } from "./job.js";

/** What is wanted of an instance. */
export interface InstanceRow extends Row {
  label: string;
  region: string;
  type: string;
  image: string | null;
  group: string;
  tags: string[];
  createdMs: number;
  updatedMs: number;
  /** Wanted: on or off. */
  power: "on" | "off";
  /** Grows with every wanted boot or reboot. */
  boots: number;
  job: Job | null;
  /** The disk that is the machine's file system, and the config profile it was last booted with. */
  diskId: number | null;
  profileId: number | null;
  /** Booted to be repaired: nothing of it starts by itself but the door (contract 9.4, rescue). */
  rescue: boolean;
  /** `metadata.user_data`, base64. */
  userData: string | null;
  watchdogEnabled: boolean;
  backupsEnabled: boolean;
  /** When they were turned on, from where their days are counted; null: at creation, or never. */
  backupsSinceMs: number | null;
  backupsSchedule: { day: string | null; window: string | null };
  alerts: Alerts;
  hostUuid: string;
  /** Recorded. */
  diskEncryption: "enabled" | "disabled";
  maintenancePolicy: string | null;
}

export interface Alerts {
  cpu: number;
  networkIn: number;
  networkOut: number;
  transferQuota: number;
  io: number;
}

/** What the machines loop saw last. */
export interface ObservedInstance {
  running: boolean;
  boots: number;
  /** Why the last try failed, in words for people; null when it did not. */
  problem: string | null;
  /** What was booted instead of its image (`--image-fallback`); absent when nothing was. */
  substitutedImage?: string | undefined;
}

/** Contract 9.3, from what is wanted and what is. */
export const instanceStatus = (row: InstanceRow, seen: ObservedInstance | undefined): string => {
  const word = row.job && statusWords[row.job.verb];
  if (word) return word;
  if (seen?.running !== true) return "offline";
  return row.power === "on" ? "running" : "shutting_down";
};

export const isDeleting = (row: InstanceRow): boolean => row.job?.verb === "delete";

export const requireInstance = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined): InstanceRow => {
  const row = reader.get("instance", id ?? 0);
  if (!row) throw notFound();
  return row;
};

export const instanceEntity = (row: { id: number; label: string }): Entity => ({ kind: "instance", id: row.id, label: row.label });

/** Contract 9.1. */
export const instanceView = (cloud: Pick<Cloud, "store" | "catalogue">, row: InstanceRow, reader: Reader = cloud.store) => {
  const type = cloud.catalogue.types.find((entry) => entry.id === row.type);
  return {
    id: row.id,
    label: row.label,
    region: row.region,
    image: row.image,
    type: row.type,
    group: row.group,
    tags: row.tags,
    status: instanceStatus(row, observed(cloud.store, "instance", row.id)),
    hypervisor: "kvm",
    created: wireTime(row.createdMs),
    updated: wireTime(row.updatedMs),
    ipv4: addressesOf(reader, row.id).map((entry) => entry.address),
    ipv6: null,
    specs: {
      disk: type?.disk ?? 0,
      memory: type?.memory ?? 0,
      vcpus: type?.vcpus ?? 0,
      gpus: type?.gpus ?? 0,
      transfer: type?.transfer ?? 0,
      acceleratedDevices: 0,
    },
    alerts: row.alerts,
    backups: backupsSummary(reader, row),
    watchdogEnabled: row.watchdogEnabled,
    hostUuid: row.hostUuid,
    hasUserData: row.userData !== null,
    siteType: "core",
    placementGroup: null,
    diskEncryption: row.diskEncryption,
    lkeClusterId: null,
    capabilities: [],
    interfaceGeneration: "legacy_config",
    maintenancePolicy: row.maintenancePolicy,
    locks: [],
  };
};
