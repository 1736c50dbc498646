import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import type { Row } from "../../store/store.js";
import { type Cloud, type CloudStore, observed, type Reader, type Tx } from "../cloud.js";
import { type Entity, moveEvent, recordEvent } from "../events/event.js";
import { type InstanceRow, instanceEntity } from "../instances/instance.js";

/** What the volumes loop has yet to make true, with the event that tells of it. */
export interface VolumeJob {
  verb: "create" | "attach" | "detach" | "resize" | "delete";
  eventId: number;
  /** Of a resize: the size before, GB. */
  fromGb?: number;
}

/** What is wanted of a volume. */
export interface VolumeRow extends Row {
  label: string;
  region: string;
  sizeGb: number;
  tags: string[];
  createdMs: number;
  updatedMs: number;
  encryption: "enabled" | "disabled";
  /** The volume it is a clone of, until it is made. */
  copyOf: number | null;
  /** False until it exists; false without a job: it could not be made. */
  made: boolean;
  instanceId: number | null;
  configId: number | null;
  /** The boot of the instance that it is attached for; null: for all. */
  forBoot: number | null;
  /** In their order; the first is under way. */
  jobs: VolumeJob[];
}

/** What the volumes loop saw last. */
export interface ObservedVolume {
  /** Where the machine has it mounted; null when it has not. */
  path: string | null;
  /** Why the last try failed; null when it did not. */
  problem: string | null;
}

export const volumeStatus = (row: VolumeRow): "creating" | "active" | "resizing" | "deleting" | "offline" => {
  const verbs = row.jobs.map(({ verb }) => verb);
  if (verbs.includes("create")) return "creating";
  if (verbs.includes("delete")) return "deleting";
  if (verbs.includes("resize")) return "resizing";
  return row.made ? "active" : "offline";
};

export const requireVolume = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined): VolumeRow => {
  const row = reader.get("volume", id ?? 0);
  if (!row) throw notFound();
  return row;
};

export const volumeEntity = (row: { id: number; label: string }): Entity => ({ kind: "volume", id: row.id, label: row.label });

const byInstance = (row: VolumeRow) => row.instanceId ?? 0;

export const volumesOf = (reader: Reader, instanceId: number): readonly VolumeRow[] => reader.find("volume", byInstance, instanceId);

/** The volumes that an instance finds at its boot `boots`. */
export const mountableVolumes = (reader: Reader, { id, boots }: Pick<InstanceRow, "id" | "boots">): Array<{ volume: number; label: string }> =>
  volumesOf(reader, id)
    .filter(({ made, jobs, forBoot }) => made && jobs[0]?.verb !== "detach" && (forBoot === null || forBoot >= boots))
    .map((row) => ({ volume: row.id, label: row.label }));

/** Contract 11. */
export const volumeView = ({ store, mayName }: Pick<Cloud, "store" | "mayName">, row: VolumeRow, reader: Pick<CloudStore | Tx, "get"> = store) => ({
  id: row.id,
  label: row.label,
  filesystemPath: `/dev/disk/by-id/scsi-0Cloud_Volume_${row.label}`,
  status: volumeStatus(row),
  size: row.sizeGb,
  region: row.region,
  cloudId: row.instanceId,
  cloudLabel:
    row.instanceId === null || mayName?.("instance", row.instanceId) === false ? null : (reader.get("instance", row.instanceId)?.label ?? null),
  created: wireTime(row.createdMs),
  updated: wireTime(row.updatedMs),
  tags: row.tags,
  hardwareType: "nvme",
  encryption: row.encryption,
  ioReady: row.instanceId !== null && typeof observed(store, "volume", row.id)?.path === "string",
  locks: [],
});

/** A job with its scheduled event (contract 15.3); `instance` is the other thing involved. */
export const volumeJob = (
  tx: Tx,
  cloud: Pick<Cloud, "clock">,
  row: { id: number; label: string },
  verb: VolumeJob["verb"],
  { username, instance, fromGb }: { username: string | undefined; instance?: { id: number; label: string } | undefined; fromGb?: number },
): VolumeJob => ({
  verb,
  eventId: recordEvent(tx, cloud, {
    action: `volume_${verb}`,
    entity: volumeEntity(row),
    secondary: instance ? instanceEntity(instance) : null,
    status: "scheduled",
    username: username ?? null,
  }),
  ...(fromGb === undefined ? {} : { fromGb }),
});

/** What an instance that is gone leaves: its volumes are detached and keep their data (contract 9.4). */
export const freeVolumes = (tx: Tx, cloud: Pick<Cloud, "clock">, instance: InstanceRow): void => {
  for (const row of volumesOf(tx, instance.id)) {
    const [done, kept] = [row.jobs.filter(isOfInstance), row.jobs.filter((job) => !isOfInstance(job))];
    for (const job of done) moveEvent(tx, cloud, job.eventId, job.verb === "detach" ? "finished" : "failed", "The instance was deleted.");
    if (!done.some(({ verb }) => verb === "detach")) {
      const message = "The instance was deleted; the volume keeps its data.";
      recordEvent(tx, cloud, { action: "volume_detach", entity: volumeEntity(row), secondary: instanceEntity(instance), message });
    }
    tx.update("volume", row.id, { instanceId: null, configId: null, forBoot: null, jobs: kept });
  }
};

const isOfInstance = ({ verb }: VolumeJob): boolean => verb === "attach" || verb === "detach";
