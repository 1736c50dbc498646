import { invalid } from "../../kernel/fault.js";
import type { Reader } from "../cloud.js";
import { type DiskRow, isBootable } from "../disks/disk.js";
import type { InstanceRow } from "../instances/instance.js";
import { type ProfileRow, profilesOf, rootDisk } from "./profile.js";

interface BootChoice {
  profile: ProfileRow;
  disk: DiskRow;
}

const chosenProfile = (reader: Reader, row: InstanceRow, profileId: number | undefined): ProfileRow => {
  const profiles = profilesOf(reader, row.id);
  if (profileId !== undefined) {
    const given = profiles.find((profile) => profile.id === profileId);
    if (!given) throw invalid("This instance has no config with this id.", "configId");
    return given;
  }
  if (profiles.length === 0)
    throw invalid("No bootable config was found: there is nothing to boot. Create one, or rebuild the instance from an image.");
  const chosen = profiles.length === 1 ? profiles[0] : profiles.find((profile) => profile.id === row.profileId);
  if (!chosen) throw invalid("The instance has several configs and none was booted last; say which with `config_id`.");
  return chosen;
};

/** Which config boots (contract 9.4): the given one; else the only one; else the last booted. Throws when there is none, or nothing in it that boots. */
export const bootChoice = (reader: Reader, row: InstanceRow, profileId: number | undefined): BootChoice => {
  const profile = chosenProfile(reader, row, profileId);
  const disk = rootDisk(reader, profile);
  if (!disk) throw invalid(`The config ${profile.label} cannot boot: its root device ${profile.rootDevice} names no disk of the instance.`);
  if (!isBootable(disk)) throw invalid(`The config ${profile.label} cannot boot: the disk ${disk.label} holds no system.`);
  return { profile, disk };
};
