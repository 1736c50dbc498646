import { invalid, type Problem } from "../../kernel/fault.js";
import type { CreateBody } from "../../kernel/field.js";
import type { Cloud, Reader } from "../cloud.js";
import { deploymentProblems } from "../instances/deployment.js";
import type { InstanceRow } from "../instances/instance.js";
import { freeMb, isInUse } from "../instances/rules.js";
import type { DiskRow } from "./disk.js";
import type { diskFields } from "./fields.js";

export type DiskCreate = CreateBody<typeof diskFields>;

export const sizeProblems = (
  reader: Reader,
  cloud: Pick<Cloud, "catalogue">,
  row: InstanceRow,
  size: number | undefined,
  except?: number,
): Problem[] => {
  const free = freeMb(reader, cloud, row, except);
  return size === undefined || size <= free ? [] : [{ reason: `Too large: the plan has ${Math.max(0, free)} MB left for it.`, field: "size" }];
};

/** Everything that can be wrong with a new disk, at once (contract 9.6). */
export const diskProblems = (reader: Reader, cloud: Cloud, row: InstanceRow, body: Partial<DiskCreate>): Problem[] => [
  ...sizeProblems(reader, cloud, row, body.size),
  ...deploymentProblems(reader, cloud, body),
  ...(body.image !== undefined && body.filesystem !== undefined && !body.filesystem.startsWith("ext")
    ? [{ reason: "An image needs ext3 or ext4.", field: "filesystem" }]
    : []),
];

/** What is under a running machine stays as it is (contract 9.6). */
export const refuseInUse = (row: InstanceRow, disk: DiskRow): void => {
  if (isInUse(row, disk.id)) throw invalid(`The disk ${disk.label} is in use: shut the instance down first.`);
};
