import { createHash } from "node:crypto";
import { addressesOf, regionRange } from "../resources/addresses/address.js";
import type { Cloud } from "../resources/cloud.js";
import type { InstanceRow } from "../resources/instances/instance.js";
import { mountableLabels } from "../resources/volumes/volume.js";
import type { DeployScript, MachineSpec } from "../runtime/driver.js";

/**
 * A hash of all that needs a new machine when it changes: what it boots from, its size, and what was put in at first boot.
 * Not in it: label, power, addresses.
 */
const fingerprintOf = (row: InstanceRow, script: DeployScript | null): string =>
  createHash("sha256")
    .update(JSON.stringify([row.image, row.type, row.rootPassHash, row.authorizedKeys, script?.id ?? null, script?.data ?? null]))
    .digest("hex")
    .slice(0, 32);

const deployScript = (cloud: Cloud, row: InstanceRow): DeployScript | null => {
  const entry = row.script && cloud.catalogue.scripts.find((candidate) => candidate.id === row.script?.id);
  return entry && row.script ? { id: entry.id, text: entry.script, data: row.script.data, shipped: true } : null;
};

/** What the runtime is to make of a row; pure. */
export const machineSpec = (cloud: Cloud, row: InstanceRow): MachineSpec => {
  const type = cloud.catalogue.types.find((entry) => entry.id === row.type);
  const addresses = addressesOf(cloud.store, row.id);
  const script = deployScript(cloud, row);
  return {
    instance: row.id,
    label: row.label,
    region: row.region,
    privateRange: regionRange(cloud, row.region) ?? "",
    image: row.image,
    running: row.power === "on",
    boots: row.boots,
    memoryMib: type?.memory ?? 1024,
    vcpus: type?.vcpus ?? 1,
    publicAddresses: addresses.filter((entry) => entry.public).map((entry) => entry.address),
    privateAddresses: addresses.filter((entry) => !entry.public).map((entry) => entry.address),
    volumes: mountableLabels(cloud.store, row.id),
    rootPassHash: row.rootPassHash,
    authorizedKeys: row.authorizedKeys,
    script,
    fingerprint: fingerprintOf(row, script),
  };
};
