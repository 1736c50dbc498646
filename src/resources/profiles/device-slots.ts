import type { Reader, Tx } from "../cloud.js";
import { type Device, type ProfileRow, profilesOf, slots } from "./profile.js";

const isSame = (one: Device, other: Device): boolean => JSON.stringify(one) === JSON.stringify(other);

/** The config profile that a device is to be in: the given one, else the only one. `several` when nobody can tell. */
export const profileFor = (reader: Reader, instanceId: number, profileId: number | undefined): ProfileRow | undefined | "several" => {
  const profiles = profilesOf(reader, instanceId);
  if (profileId !== undefined) return profiles.find((profile) => profile.id === profileId);
  return profiles.length > 1 ? "several" : profiles[0];
};

/** Names a device in the profile's first free slot; a full profile, or one that has it, stays as it is. */
export const fillSlot = (tx: Tx, profile: ProfileRow, device: Device): void => {
  if (slots.some((slot) => isSame(profile.devices[slot] ?? { diskId: 0 }, device))) return;
  const free = slots.find((slot) => !profile.devices[slot]);
  if (free) tx.update("profile", profile.id, { devices: { ...profile.devices, [free]: device } });
};

/** Takes a device that is no more out of every profile of its instance. */
export const emptySlots = (tx: Tx, instanceId: number, device: Device): void => {
  for (const profile of profilesOf(tx, instanceId)) {
    const held = slots.filter((slot) => isSame(profile.devices[slot] ?? { diskId: 0 }, device));
    if (held.length === 0) continue;
    tx.update("profile", profile.id, { devices: { ...profile.devices, ...Object.fromEntries(held.map((slot) => [slot, null])) } });
  }
};
