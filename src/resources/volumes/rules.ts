import { invalid, type Problem } from "../../kernel/fault.js";
import type { CreateBody } from "../../kernel/field.js";
import type { Cloud, Reader } from "../cloud.js";
import { isDeleting } from "../instances/instance.js";
import { profileFor } from "../profiles/device-slots.js";
import type { volumeFields } from "./fields.js";
import { type VolumeRow, volumeStatus, volumesOf } from "./volume.js";

export type VolumeCreate = CreateBody<typeof volumeFields>;

/** Contract 11 "limit": this many in any case, and one a GB of memory up to the second for those attached for one boot only. */
const attachedLimit = 8;
const attachedMost = 64;

const byLabel = (row: VolumeRow) => row.label;

/** The label is the volume's name in a machine's `/mnt`, so no two may share one. */
export const labelProblems = (reader: Reader, label: string | undefined, except: number | null): Problem[] =>
  label !== undefined && reader.find("volume", byLabel, label).some((row) => row.id !== except)
    ? [{ reason: "Another volume has it; it must be unique.", field: "label" }]
    : [];

const limitProblems = (reader: Reader, { catalogue }: Pick<Cloud, "catalogue">, instanceId: number, persists: boolean): Problem[] => {
  const type = catalogue.types.find((entry) => entry.id === reader.get("instance", instanceId)?.type);
  const limit = persists ? attachedLimit : Math.min(attachedMost, Math.max(attachedLimit, Math.floor((type?.memory ?? 0) / 1024)));
  return volumesOf(reader, instanceId).length < limit
    ? []
    : [{ reason: `The instance has ${limit} volumes attached already, which is the limit; detach one.` }];
};

const configProblems = (reader: Reader, instanceId: number, configId: number | undefined, persists: boolean): Problem[] => {
  const profile = profileFor(reader, instanceId, configId);
  if (profile === "several" && persists)
    return [
      { reason: "The instance has several configs; say which is to have the volume, or attach it for one boot (`persist_across_boots` false)." },
    ];
  return configId === undefined || profile !== undefined ? [] : [{ reason: "This instance has no config with this id.", field: "configId" }];
};

/** Whether an instance may get one more volume that lies in `region`. */
export const attachProblems = (
  reader: Reader,
  cloud: Pick<Cloud, "catalogue">,
  instanceId: number,
  region: string | undefined,
  { persists = true, configId }: { persists?: boolean; configId?: number | undefined } = {},
): Problem[] => {
  const instance = reader.get("instance", instanceId);
  if (!instance || isDeleting(instance)) return [{ reason: "No active instance has this id.", field: "cloudId" }];
  if (region !== undefined && region !== instance.region)
    return [{ reason: `The volume is in ${region} and the instance in ${instance.region}; both must be in one region.`, field: "cloudId" }];
  return [...configProblems(reader, instanceId, configId, persists), ...limitProblems(reader, cloud, instanceId, persists)];
};

/** Everything that can be wrong with a create, at once. */
export const createProblems = (
  reader: Reader,
  cloud: Pick<Cloud, "catalogue">,
  body: Partial<VolumeCreate>,
  flagged?: ReadonlySet<string>,
): Problem[] => {
  const problems = labelProblems(reader, body.label, null);
  const instanceId = body.cloudId ?? undefined;
  const isGiven = (name: string) => flagged?.has(name) === true;
  const isKnown = cloud.catalogue.regions.some((entry) => entry.id === body.region);
  if (body.region !== undefined && !isKnown) problems.push({ reason: "Unknown id; see /v4/regions.", field: "region" });
  if (body.region === undefined && instanceId === undefined && !isGiven("region") && !isGiven("cloudId"))
    problems.push({ reason: "Needed without an instance to attach it to.", field: "region" });
  if (instanceId !== undefined)
    problems.push(...attachProblems(reader, cloud, instanceId, isKnown ? body.region : undefined, { configId: body.configId }));
  if (body.configId !== undefined && instanceId === undefined)
    problems.push({ reason: "A config profile is an instance's; give the instance too.", field: "configId" });
  return problems;
};

const words = {
  creating: "still being made",
  resizing: "still being resized",
  deleting: "being deleted",
  active: "being attached or detached",
  offline: "being attached or detached",
};

/** Contract 11: a volume with a job under way takes no other. */
const requireIdle = (row: VolumeRow): void => {
  if (row.jobs.length > 0) throw invalid(`The volume is ${words[volumeStatus(row)]}; try again when that is done, see its events.`);
};

const requireMade = (row: VolumeRow): void => {
  requireIdle(row);
  if (!row.made) throw invalid("The volume could not be made, its event volume_create says why; delete it and create another.");
};

/** A volume that is just being made may be attached: it is attached next (contract 11 "attach"). */
export const requireAttachable = (row: VolumeRow): void => {
  if (row.instanceId !== null) throw invalid(`The volume is attached to instance ${row.instanceId}; detach it first.`);
  if (!(row.jobs.length === 1 && row.jobs[0]?.verb === "create")) requireMade(row);
};

export const requireDetachable = (row: VolumeRow): void => {
  requireIdle(row);
  if (row.instanceId === null) throw invalid("The volume is not attached.");
};

export const requireResizable = (row: VolumeRow, size: number): void => {
  requireMade(row);
  if (size <= row.sizeGb)
    throw invalid(`${size} GB is not more than the ${row.sizeGb} GB it has, and a volume can only grow; give ${row.sizeGb + 1} or more.`, "size");
};

export const requireCloneable = requireMade;

export const requireDeletable = (reader: Reader, row: VolumeRow): void => {
  requireIdle(row);
  if (row.instanceId !== null) throw invalid(`The volume is attached to instance ${row.instanceId}; detach it first.`);
  const clone = reader.list("volume").find((other) => other.copyOf === row.id && other.jobs.length > 0);
  if (clone) throw invalid(`Volume ${clone.id} is being made as its copy; try again when that is done.`);
};
