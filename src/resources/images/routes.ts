import { z } from "zod";
import { definedOf } from "../../kernel/defined.js";
import { invalid } from "../../kernel/fault.js";
import { createSchema, customSchema, filterableNames, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { moveEvent, recordEvent } from "../events/event.js";
import { instanceEntity, requireInstance } from "../instances/instance.js";
import { refuse, requireIdle } from "../instances/rules.js";
import { imageFields } from "./fields.js";
import { anyImageView, hasOwnEntrypoint, imageEntity, imageMember, imagesFor, imageView, requireOwnImage, requireVisibleImage } from "./image.js";
import { diskProblems, type ImageCreate, type ImageUpdate, labelOf } from "./rules.js";

const collection = "/v4/images";
const one = `${collection}/*imageId`;
const textParams = ["imageId"];

/** The row and the event; the images loop makes it true. */
const createImage = (tx: Tx, cloud: Cloud, body: ImageCreate, username: string | undefined) => {
  refuse(diskProblems(tx, body.diskId));
  const disk = tx.get("disk", body.diskId);
  const instance = requireInstance(tx, disk?.instanceId);
  if (!disk) throw invalid("No disk has this id.", "diskId");
  requireIdle(instance);
  const now = cloud.clock.now();
  const made = tx.insert("image", {
    label: body.label ?? labelOf(disk.label),
    description: body.description ?? "",
    tags: body.tags ?? [],
    cloudInit: body.cloudInit ?? false,
    username: username ?? "",
    createdMs: now,
    updatedMs: now,
    status: "creating",
    sizeMb: 0,
    instanceId: instance.id,
    fileSystem: disk.fingerprint,
    region: instance.region,
    ownEntrypoint: disk.image !== null && hasOwnEntrypoint(tx, cloud, disk.image),
    eventId: 0,
  });
  const eventId = recordEvent(tx, cloud, {
    action: "disk_imagize",
    entity: instanceEntity(instance),
    secondary: imageEntity(made),
    status: "scheduled",
    username: username ?? null,
  });
  return imageView(tx.update("image", made.id, { eventId }));
};

/** What is not served, said where it is asked for (contract 13.1). */
const refusalRoute = (path: string, summary: string, reason: string) =>
  route<Cloud, Record<string, unknown>>({
    method: "POST",
    path,
    textParams: path.includes("*") ? textParams : [],
    scope: "images",
    summary,
    body: customSchema(z.object({})),
    answers: "empty",
    run: () => {
      throw invalid(reason);
    },
  });

export const imageRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: collection,
    scope: null,
    summary: "Lists the public images, and the account's own when a token is sent.",
    answers: "list",
    shows: "Image",
    run: ({ cloud, caller }): Listing<ReturnType<typeof imagesFor>[number]> => ({
      rows: imagesFor(cloud, caller),
      view: anyImageView,
      filterable: filterableNames(imageFields),
      fieldValue: imageMember,
    }),
  }),
  route<Cloud, ImageCreate>({
    method: "POST",
    path: collection,
    // Whoever makes an image from a disk must be allowed to read it (contract 4.2).
    scope: ["images", "instances:read_only"],
    summary: "Makes an image from an instance's disk, to make other instances from.",
    body: createSchema(imageFields),
    answers: "one",
    shows: "Image",
    rules: ({ cloud, body }) => diskProblems(cloud.store, body.diskId),
    run: ({ cloud, body, caller }) => cloud.store.commit((tx) => createImage(tx, cloud, body, caller?.username)),
  }),
  refusalRoute(
    `${collection}/upload`,
    "Refused: images are not uploaded.",
    "Disk images are not uploaded here. Make one from an instance's disk (POST /v4/images), or load a container image into the engine and name it with --image cloud/NAME=REFERENCE.",
  ),
  refusalRoute(
    `${one}/regions`,
    "Refused: images are not replicated.",
    "Images are kept on this machine, where every region is: instances of all regions can be made from them as it is.",
  ),
  route<Cloud, undefined>({
    method: "GET",
    path: one,
    textParams,
    scope: null,
    summary: "Reads one image; one of the account's with a token.",
    answers: "one",
    shows: "Image",
    run: ({ cloud, texts, caller }) => anyImageView(requireVisibleImage(cloud, texts.imageId, caller)),
  }),
  route<Cloud, ImageUpdate>({
    method: "PUT",
    path: one,
    textParams,
    scope: "images",
    summary: "Updates an image of the account.",
    body: updateSchema(imageFields),
    answers: "one",
    shows: "Image",
    run: ({ cloud, texts, body, caller }) =>
      cloud.store.commit((tx) => {
        const before = requireOwnImage(tx, cloud, texts.imageId);
        const { description, ...others } = definedOf(body);
        const words = description === undefined ? {} : { description: description ?? "" };
        const row = tx.update("image", before.id, { ...others, ...words, updatedMs: cloud.clock.now() });
        recordEvent(tx, cloud, { action: "image_update", entity: imageEntity(row), username: caller?.username ?? null });
        return imageView(row);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: one,
    textParams,
    scope: "images",
    summary: "Deletes an image of the account; instances that were made from it go on.",
    answers: "empty",
    run: ({ cloud, texts, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireOwnImage(tx, cloud, texts.imageId);
        if (row.status === "creating") moveEvent(tx, cloud, row.eventId, "failed", "The image was deleted before it was made.");
        tx.remove("image", row.id);
        recordEvent(tx, cloud, { action: "image_delete", entity: imageEntity(row), username: caller?.username ?? null });
      }),
  }),
];
