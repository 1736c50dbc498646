import { Fault, invalid, type Problem } from "../../kernel/fault.js";
import type { CreateBody } from "../../kernel/field.js";
import { backupProblems } from "../backups/restore.js";
import type { TypeEntry } from "../catalogue/catalogue.js";
import type { Cloud, CloudStore, Reader } from "../cloud.js";
import { observed } from "../cloud.js";
import { allocatedMb } from "../disks/disk.js";
import { deploymentProblems } from "./deployment.js";
import type { instanceFields } from "./fields.js";
import { type InstanceRow, instanceStatus } from "./instance.js";
import { defaultSwapMb } from "./layout.js";

export type InstanceCreate = CreateBody<typeof instanceFields>;

const byLabel = (row: InstanceRow) => row.label;

const labelTaken = (tx: Reader, label: string, except: number | null): boolean =>
  tx.find("instance", byLabel, label).some((row) => row.id !== except);

/** `instance` and the id (contract 9.1), with a number behind it when somebody chose just that. */
export const defaultLabel = (tx: Reader, id: number): string => {
  for (let count = 1; ; count += 1) {
    const label = count === 1 ? `instance${id}` : `instance${id}-${count}`;
    if (!labelTaken(tx, label, id)) return label;
  }
};

export const labelProblems = (tx: Reader, label: string | undefined, except: number | null): Problem[] =>
  label !== undefined && labelTaken(tx, label, except) ? [{ reason: "Another instance has it; it must be unique.", field: "label" }] : [];

export const regionProblems = (cloud: Pick<Cloud, "catalogue">, region: string | undefined): Problem[] =>
  cloud.catalogue.regions.some((entry) => entry.id === region) ? [] : [{ reason: "Unknown id; see /v4/regions.", field: "region" }];

export const typeEntry = (cloud: Pick<Cloud, "catalogue">, id: string | undefined): TypeEntry | undefined =>
  cloud.catalogue.types.find((entry) => entry.id === id);

export const planProblems = (cloud: Pick<Cloud, "catalogue">, type: string | undefined): Problem[] =>
  typeEntry(cloud, type) ? [] : [{ reason: "No plan has this id; see /v4/cloud/types.", field: "type" }];

/** Do the image's disk and swap fit on the plan? A plan that is itself refused has no size. */
const sizeProblems = (cloud: Pick<Cloud, "catalogue">, body: Partial<InstanceCreate>): Problem[] => {
  const image = body.image ?? null;
  if (image === null) {
    return (["swapSize", "bootSize"] as const).filter((name) => body[name] !== undefined).map((field) => ({ reason: "Needs an image.", field }));
  }
  const planMb = typeEntry(cloud, body.type)?.disk;
  if (planMb === undefined) return [];
  const swapMb = body.swapSize ?? defaultSwapMb;
  if (swapMb >= planMb) return [{ reason: `Must leave room for the image's disk: the plan allows ${planMb} MB.`, field: "swapSize" }];
  if ((body.bootSize ?? 0) + swapMb > planMb)
    return [{ reason: `Does not fit: the plan allows ${planMb - swapMb} MB beside swap.`, field: "bootSize" }];
  return [];
};

/** Things a caller may name that Backlot has none of. */
const absentProblems = (body: Partial<InstanceCreate>): Problem[] => [
  ...(body.ipv4 === undefined || body.ipv4.length === 0
    ? []
    : [{ reason: "Must be one reserved, unassigned address; there are no reserved addresses here.", field: "ipv4" }]),
  ...((body.placementGroup ?? null) === null ? [] : [{ reason: "No placement group has this id.", field: "placementGroup" }]),
  ...(body.firewallId === undefined || body.firewallId === -1 ? [] : [{ reason: "No firewall has this id.", field: "firewallId" }]),
];

/** Everything that can be wrong with a create, at once (contract 9.2). */
export const createProblems = (tx: Reader, cloud: Pick<Cloud, "catalogue">, body: Partial<InstanceCreate>): Problem[] => {
  const image = body.image ?? null;
  return [
    ...labelProblems(tx, body.label, null),
    ...regionProblems(cloud, body.region),
    ...planProblems(cloud, body.type),
    ...deploymentProblems(tx, cloud, body),
    ...sizeProblems(cloud, body),
    ...kernelProblems(cloud, body.kernel),
    ...absentProblems(body),
    ...backupProblems(tx, body.backupId, body, typeEntry(cloud, body.type)?.disk),
    ...(image === null && body.backupId === undefined && body.booted === true
      ? [{ reason: "An instance without an image cannot boot.", field: "booted" }]
      : []),
  ];
};

export const kernelProblems = (cloud: Pick<Cloud, "catalogue">, kernel: string | undefined): Problem[] =>
  kernel === undefined || cloud.catalogue.kernels.some((entry) => entry.id === kernel)
    ? []
    : [{ reason: "Unknown id; see /v4/cloud/kernels.", field: "kernel" }];

export const refuse = (problems: readonly Problem[]): void => {
  if (problems.length > 0) throw new Fault("invalid", problems);
};

/** Contract 9.4: an instance with a job under way takes no other. */
export const requireIdle = (row: InstanceRow): void => {
  if (row.job) throw invalid("Instance busy.");
};

/** Running, offline … as the rules of 9.4 see it. */
export const statusOf = (store: Pick<CloudStore, "observed">, row: InstanceRow): string =>
  instanceStatus(row, observed(store as CloudStore, "instance", row.id));

/** Which of the power verbs is legal when (contract 9.4). Throws the reason. */
export const requireLegal = (store: Pick<CloudStore, "observed">, row: InstanceRow, verb: "boot" | "reboot" | "shutdown"): void => {
  // The set-up order of description 4.3 boots right after creation, so a create that does not boot never stands in the way.
  if (!(row.job?.verb === "create" && row.power === "off")) requireIdle(row);
  const status = row.job ? "offline" : statusOf(store, row);
  if (verb === "boot") {
    if (status === "running") throw invalid("The instance is already running.");
  } else if (status !== "running" && !(verb === "shutdown" && row.power === "on")) {
    throw invalid(`The instance is ${status}; boot it first.`);
  }
};

/** MB that the plan of an instance leaves free of its disks, `except` one. */
export const freeMb = (reader: Reader, cloud: Pick<Cloud, "catalogue">, row: InstanceRow, except?: number): number =>
  (typeEntry(cloud, row.type)?.disk ?? 0) - allocatedMb(reader, row.id, except);

/** Contract 9.4: what is being copied stays until it is copied. */
export const refuseCloning = (row: InstanceRow): void => {
  if (row.job?.verb === "clone" || row.job?.verb === "clone_source") throw invalid("The instance is being cloned; wait until that is done.");
};

/** The disk that the machine runs from: what is on it now must stay as it is. */
export const isInUse = (row: InstanceRow, diskId: number): boolean => row.power === "on" && row.diskId === diskId;
