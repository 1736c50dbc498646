import type { Problem } from "../../kernel/fault.js";
import type { CreateBody, UpdateBody } from "../../kernel/field.js";
import type { Cloud, Reader } from "../cloud.js";
import type { InstanceRow } from "../instances/instance.js";
import { kernelProblems } from "../instances/rules.js";
import type { profileFields } from "./fields.js";
import { type Device, defaultRootDevice } from "./profile.js";

export type ProfileCreate = CreateBody<typeof profileFields>;
export type ProfileUpdate = UpdateBody<typeof profileFields>;

/** A config names what is there; attaching is the volume's own verb. */
const volumeProblem = (reader: Reader, row: InstanceRow, volumeId: number): string | undefined => {
  const volume = reader.get("volume", volumeId);
  if (!volume) return "No volume has this id.";
  if (volume.region !== row.region) return `The volume is in ${volume.region} and the instance in ${row.region}; both must be in one region.`;
  return volume.instanceId === row.id ? undefined : "The volume is not attached to this instance; attach it first.";
};

const deviceProblem = (reader: Reader, row: InstanceRow, device: Device): string | undefined => {
  if ("volumeId" in device) return volumeProblem(reader, row, device.volumeId);
  return reader.get("disk", device.diskId)?.instanceId === row.id ? undefined : "This instance has no disk with this id.";
};

/** What can be wrong with the devices that an instance is to boot with. */
export const deviceProblems = (reader: Reader, row: InstanceRow, devices: Partial<Record<string, Device | null | undefined>>): Problem[] =>
  Object.entries(devices).flatMap(([slot, device]) => {
    const reason = device && deviceProblem(reader, row, device);
    return reason ? [{ reason, field: `devices.${slot}` }] : [];
  });

/** Everything that can be wrong with a config profile, at once (contract 9.5). */
export const profileProblems = (reader: Reader, cloud: Pick<Cloud, "catalogue">, row: InstanceRow, body: Partial<ProfileUpdate>): Problem[] => {
  return [...kernelProblems(cloud, body.kernel), ...deviceProblems(reader, row, body.devices ?? {})];
};

/** What is no device falls back to the default (contract 9.5). */
export const rootDeviceOf = (wanted: string | undefined): string | undefined =>
  wanted === undefined || /^\/dev\/[a-zA-Z0-9/_-]+$/.test(wanted) ? wanted : defaultRootDevice;
