import { wireTime } from "../../kernel/clock.js";
import { Fault, notFound } from "../../kernel/fault.js";
import type { Caller } from "../../kernel/route.js";
import { snake } from "../../kernel/snake.js";
import type { Row } from "../../store/store.js";
import type { ImageEntry } from "../catalogue/catalogue.js";
import type { Cloud, Reader } from "../cloud.js";
import type { Entity } from "../events/event.js";
import { mayRead } from "../tokens/scopes.js";

/** An image of the account, made from an instance's disk (contract 13.1). Its id on the wire is `private/` and the row's. */
export interface ImageRow extends Row {
  label: string;
  description: string;
  tags: string[];
  cloudInit: boolean;
  username: string;
  createdMs: number;
  updatedMs: number;
  status: "creating" | "available";
  /** MB, measured when it was made; 0 until then. */
  sizeMb: number;
  /** What it is made from: the instance, and what the runtime calls its disk. */
  instanceId: number;
  fileSystem: string;
  region: string;
  /** It was made from a container that runs its own entrypoint. */
  ownEntrypoint: boolean;
  /** The event of its making. */
  eventId: number;
}

/** What a listing or a rule sees: one that everybody may use, in wire spelling, or one of the account. */
type AnyImage = { entry: ImageEntry } | { row: ImageRow };

export const imageSlug = (row: Pick<Row, "id">): string => `private/${row.id}`;

const ownImageOf = (reader: Reader, id: string): ImageRow | undefined => {
  const number = /^private\/([1-9]\d{0,14})$/.exec(id)?.[1];
  return number === undefined ? undefined : reader.get("image", Number(number));
};

const anyImage = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: string): AnyImage | undefined => {
  const entry = cloud.catalogue.images.find((candidate) => candidate.id === id);
  if (entry) return { entry };
  const row = ownImageOf(reader, id);
  return row && { row };
};

/** Whether an image has this id: the account's or a public one. */
export const knowsImage = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: string): boolean => anyImage(reader, cloud, id) !== undefined;

/** Its name for people; undefined when there is no such image. */
export const imageLabel = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: string): string | undefined => {
  const image = anyImage(reader, cloud, id);
  return image && ("entry" in image ? image.entry.label : image.row.label);
};

/** Why nothing can be made from an image of this id now; undefined when something can. */
export const imageProblem = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: string): string | undefined => {
  const image = anyImage(reader, cloud, id);
  if (!image) return "Unknown id; see /v4/images.";
  return "row" in image && image.row.status !== "available" ? "It is still being made; wait until its status is available." : undefined;
};

/** True for what runs its own entrypoint, so that nothing of ours runs in it. */
export const hasOwnEntrypoint = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: string): boolean =>
  Object.hasOwn(cloud.catalogue.ownImages, id) || ownImageOf(reader, id)?.ownEntrypoint === true;

export const imageEntity = (row: Pick<ImageRow, "id" | "label">): Entity => ({ kind: "image", id: imageSlug(row), label: row.label });

/** Contract 13.1. */
export const imageView = (row: ImageRow) => ({
  id: imageSlug(row),
  label: row.label,
  created: wireTime(row.createdMs),
  updated: wireTime(row.updatedMs),
  createdBy: row.username,
  deprecated: false,
  description: row.description,
  isPublic: false,
  isShared: false,
  size: row.sizeMb,
  type: "manual",
  expiry: null,
  eol: null,
  vendor: null,
  status: row.status,
  capabilities: row.cloudInit ? ["cloud-init"] : [],
  tags: row.tags,
  regions: row.status === "available" ? [{ region: row.region, status: "available" }] : [],
  imageSharing: null,
});

export const anyImageView = (image: AnyImage) => ("entry" in image ? image.entry : imageView(image.row));

/** The member of our name, however the image is spelled. */
export const imageMember = (image: AnyImage, name: string): unknown =>
  "entry" in image ? image.entry[snake(name)] : imageView(image.row)[name as keyof ReturnType<typeof imageView>];

/** Public ones, and with a token that may read images the account's own (description 5.5, contract 13.1). */
export const imagesFor = (cloud: Cloud, caller: Caller | undefined): AnyImage[] => [
  ...cloud.catalogue.images.map((entry) => ({ entry })),
  ...(mayRead(caller, "images") ? cloud.store.list("image").map((row) => ({ row })) : []),
];

export const requireVisibleImage = (cloud: Cloud, id: string | undefined, caller: Caller | undefined): AnyImage => {
  const image = anyImage(cloud.store, cloud, id ?? "");
  if (!image || ("row" in image && !mayRead(caller, "images"))) throw notFound();
  return image;
};

/** A row of the account to change or delete (contract 13.1: a public one is refused). */
export const requireOwnImage = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: string | undefined): ImageRow => {
  const image = anyImage(reader, cloud, id ?? "");
  if (!image) throw notFound();
  if ("entry" in image) throw new Fault("forbidden", [{ reason: "This is a public image; only images of the account can be changed." }]);
  return image.row;
};
