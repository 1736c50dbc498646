import { z } from "zod";
import { definedOf } from "../../kernel/defined.js";
import { createSchema, customSchema, filterableNames, integer, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { deploymentOf, imageEntry, passwordHash, RootPass } from "../instances/deployment.js";
import { instanceEntity, requireInstance } from "../instances/instance.js";
import { refuse, requireIdle } from "../instances/rules.js";
import { startJob } from "../instances/start-job.js";
import { type DiskRow, diskEntity, disksOf, diskView, imageDiskLabel, insertDisk, requireDisk, swapDiskLabel } from "./disk.js";
import { diskFields } from "./fields.js";
import { resetPassword } from "./password.js";
import { type DiskCreate, diskProblems, refuseInUse, sizeProblems } from "./rules.js";

const collection = "/v4/cloud/instances/:instanceId/disks";
const one = `${collection}/:diskId`;

const defaultLabel = (cloud: Cloud, body: DiskCreate): string => {
  if (body.image !== undefined) return imageDiskLabel(imageEntry(cloud, cloud.store, body.image)?.label ?? body.image);
  return body.filesystem === "swap" ? swapDiskLabel(body.size) : `${body.size} MB Disk`;
};

export const diskRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: collection,
    scope: "instances",
    summary: "Lists an instance's disks.",
    answers: "list",
    shows: "Disk",
    run: ({ cloud, params }): Listing<DiskRow> => ({
      rows: disksOf(cloud.store, requireInstance(cloud.store, params.instanceId).id),
      view: (row) => diskView(cloud.store, row),
      filterable: filterableNames(diskFields),
      fieldValue: (row, name) => row[name as keyof DiskRow],
    }),
  }),
  route<Cloud, DiskCreate>({
    method: "POST",
    path: collection,
    scope: "instances",
    summary: "Adds a disk, empty or made from an image.",
    body: createSchema(diskFields),
    answers: "one",
    shows: "Disk",
    rules: ({ cloud, params, body }) => diskProblems(cloud.store, cloud, requireInstance(cloud.store, params.instanceId), body),
    run: ({ cloud, params, body, caller }) => {
      const rootPassHash = passwordHash(body.rootPass);
      return cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        requireIdle(row);
        refuse(diskProblems(tx, cloud, row, body));
        const disk = insertDisk(tx, cloud, {
          instanceId: row.id,
          label: body.label ?? defaultLabel(cloud, body),
          size: body.size,
          filesystem: body.filesystem ?? "ext4",
          ...deploymentOf(tx, cloud, body, rootPassHash),
        });
        startJob(
          tx,
          cloud,
          row,
          { verb: "disk_create", diskId: disk.id },
          { username: caller?.username, action: "disk_create", secondary: diskEntity(disk) },
        );
        return diskView(tx, disk);
      });
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: one,
    scope: "instances",
    summary: "Reads one disk.",
    answers: "one",
    shows: "Disk",
    run: ({ cloud, params }) => diskView(cloud.store, requireDisk(cloud.store, params.instanceId, params.diskId)),
  }),
  route<Cloud, UpdateBody<typeof diskFields>>({
    method: "PUT",
    path: one,
    scope: "instances",
    summary: "Renames a disk.",
    body: updateSchema(diskFields),
    answers: "one",
    shows: "Disk",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        const disk = requireDisk(tx, row.id, params.diskId);
        const updated = tx.update("disk", disk.id, { ...definedOf(body), updatedMs: cloud.clock.now() });
        recordEvent(tx, cloud, {
          action: "disk_update",
          entity: instanceEntity(row),
          secondary: diskEntity(updated),
          username: caller?.username ?? null,
        });
        return diskView(tx, updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: one,
    scope: "instances",
    summary: "Deletes a disk with all that is on it.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        const disk = requireDisk(tx, row.id, params.diskId);
        requireIdle(row);
        refuseInUse(row, disk);
        startJob(
          tx,
          cloud,
          row,
          { verb: "disk_delete", diskId: disk.id },
          { username: caller?.username, action: "disk_delete", secondary: diskEntity(disk) },
        );
      }),
  }),
  route<Cloud, { size: number }>({
    method: "POST",
    path: `${one}/resize`,
    scope: "instances",
    summary: "Changes a disk's size; the sum of all stays within the plan.",
    body: customSchema(z.object({ size: integer(1, 10_000_000) })),
    answers: "empty",
    rules: ({ cloud, params, body }) => {
      const disk = requireDisk(cloud.store, params.instanceId, params.diskId);
      return sizeProblems(cloud.store, cloud, requireInstance(cloud.store, params.instanceId), body.size, disk.id);
    },
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        const disk = requireDisk(tx, row.id, params.diskId);
        requireIdle(row);
        refuse(sizeProblems(tx, cloud, row, body.size, disk.id));
        refuseInUse(row, disk);
        const work = { verb: "disk_resize", diskId: disk.id, size: body.size } as const;
        startJob(tx, cloud, row, work, { username: caller?.username, action: "disk_resize", secondary: diskEntity(disk) });
      }),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: `${one}/clone`,
    scope: "instances",
    summary: "Copies a disk, with all that is on it, to a new disk of the same instance.",
    answers: "one",
    shows: "Disk",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        const disk = requireDisk(tx, row.id, params.diskId);
        requireIdle(row);
        refuse(sizeProblems(tx, cloud, row, disk.size).map(({ reason }) => ({ reason })));
        const copy = insertDisk(tx, cloud, {
          instanceId: row.id,
          label: `Copy of ${disk.label}`.slice(0, 48),
          size: disk.size,
          filesystem: disk.filesystem,
          image: disk.image,
          copyOf: disk.image === null ? null : disk.fingerprint,
        });
        const work = { verb: "disk_duplicate", diskId: copy.id } as const;
        startJob(tx, cloud, row, work, { username: caller?.username, action: "disk_duplicate", secondary: diskEntity(disk) });
        return diskView(tx, copy);
      }),
  }),
  route<Cloud, { password: string }>({
    method: "POST",
    path: `${one}/password`,
    scope: "instances",
    summary: "Sets root's password on a disk of an instance that is off; it holds from the next boot on.",
    body: customSchema(z.object({ password: RootPass })),
    answers: "empty",
    run: ({ cloud, params, body, caller }) => {
      const rootPassHash = passwordHash(body.password);
      return cloud.store.commit((tx) => {
        const row = requireInstance(tx, params.instanceId);
        resetPassword(tx, cloud, row, requireDisk(tx, row.id, params.diskId), rootPassHash, caller?.username);
      });
    },
  }),
];
