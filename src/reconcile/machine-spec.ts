import { addressesOf, isShared, regionRange } from "../resources/addresses/address.js";
import { carriedBy } from "../resources/addresses/carrier.js";
import type { Cloud } from "../resources/cloud.js";
import { type DiskRow, disksOf, isBootable } from "../resources/disks/disk.js";
import type { InstanceRow } from "../resources/instances/instance.js";
import { mountableVolumes } from "../resources/volumes/volume.js";
import type { DeployScript, MachineSpec } from "../runtime/driver.js";

const deployScript = (cloud: Cloud, disk: DiskRow | undefined): DeployScript | null => {
  if (!disk?.script) return null;
  const { id, data, own } = disk.script;
  if (own) return { id, text: own.text, data, shipped: false };
  const entry = cloud.catalogue.scripts.find((candidate) => candidate.id === id);
  return entry ? { id, text: entry.text, data, shipped: true } : null;
};

/** The disk that is an instance's file system, as last booted. */
export const machineDisk = (cloud: Cloud, row: InstanceRow): DiskRow | undefined =>
  row.diskId === null ? undefined : cloud.store.get("disk", row.diskId);

/** What the runtime is to make of a row; pure. */
export const machineSpec = (cloud: Cloud, row: InstanceRow): MachineSpec => {
  const type = cloud.catalogue.types.find((entry) => entry.id === row.type);
  const addresses = addressesOf(cloud.store, row.id);
  const disk = machineDisk(cloud, row);
  const profile = row.profileId === null ? undefined : cloud.store.get("profile", row.profileId);
  const planMib = type?.memory ?? 1024;
  return {
    instance: row.id,
    label: row.label,
    region: row.region,
    privateRange: regionRange(cloud, row.region) ?? "",
    image: disk?.image ?? null,
    running: row.power === "on",
    boots: row.boots,
    memoryMib: profile?.memoryLimit ? Math.min(planMib, profile.memoryLimit) : planMib,
    vcpus: type?.vcpus ?? 1,
    publicAddresses: [...addresses.filter((entry) => entry.public).map((entry) => entry.address), ...carriedBy(cloud, row.id)],
    privateAddresses: addresses.filter((entry) => !entry.public).map((entry) => entry.address),
    shared: addresses.filter(isShared).map((entry) => entry.address),
    volumes: mountableVolumes(cloud.store, row),
    rootPassHash: disk?.rootPassHash ?? null,
    authorizedKeys: disk?.authorizedKeys ?? [],
    script: deployScript(cloud, disk),
    fingerprint: disk?.fingerprint ?? "",
    kept: disksOf(cloud.store, row.id).flatMap((other) => (isBootable(other) && other.id !== disk?.id ? [other.fingerprint] : [])),
    userData: row.userData,
    minimal: row.rescue || (profile !== undefined && profile.runLevel !== "default"),
  };
};
