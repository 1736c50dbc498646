import type { Problem } from "../../kernel/fault.js";
import type { CreateBody, UpdateBody } from "../../kernel/field.js";
import type { CloudStore, Tx } from "../cloud.js";
import { isBootable } from "../disks/disk.js";
import type { imageFields } from "./fields.js";

export type ImageCreate = CreateBody<typeof imageFields>;
export type ImageUpdate = UpdateBody<typeof imageFields>;

/** What is wrong with the disk that an image is to be made from. */
export const diskProblems = (reader: Pick<CloudStore | Tx, "get">, diskId: number | undefined): Problem[] => {
  if (diskId === undefined) return [];
  const disk = reader.get("disk", diskId);
  if (!disk) return [{ reason: "No disk has this id; see /v4/cloud/instances/ID/disks.", field: "diskId" }];
  if (!isBootable(disk)) return [{ reason: "There is no system on this disk; an image of it could not boot.", field: "diskId" }];
  if (disk.isBlank !== true) return [];
  return [
    { reason: "There is nothing on this disk yet: it is filled when the instance boots from it for the first time. Boot it once.", field: "diskId" },
  ];
};

/** A disk's label may hold what an image's may not. */
export const labelOf = (diskLabel: string): string => diskLabel.replace(/[^a-zA-Z0-9,.?\-_' ]/g, "-").slice(0, 50) || "image";
