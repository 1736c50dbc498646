import { createHash } from "node:crypto";
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";

/** One row of `fixtures/oci-images.json`: where the base of an image slug comes from. */
interface ImageSource {
  /** Package family; guests are built for `apt` only. */
  family: string;
  /** OCI reference of the base; absent where nobody publishes one. */
  oci?: string;
  /** Suite that debootstrap can make the base from when no registry is reached. */
  debootstrap?: string;
  /** Archive of that suite when it is not Debian's. */
  mirror?: string;
}

export type ImageMap = Readonly<Record<string, ImageSource>>;

const guestRepository = "backlot/guest";

/** Built here from the recipe; a copy of a machine's disk is not, for all that it has the same label. */
export const isOwnGuestImage = (tag: string): boolean => tag.startsWith(`${guestRepository}:`);

/** How a slug is had, or why it cannot be. */
export type ImagePlan =
  | { guest: string; name: string; oci: string; localBase: string; suite: string | undefined; mirror: string | undefined }
  | { reason: string };

const buildable = (images: ImageMap): string =>
  Object.entries(images)
    .filter(([, source]) => source.family === "apt" && source.oci !== undefined)
    .map(([slug]) => slug)
    .join(", ");

/**
 * @param recipe hash of everything the guest image is built from besides its base
 */
export const imagePlan = (images: ImageMap, slug: string, recipe: string): ImagePlan => {
  const source = images[slug];
  const remedy = `Choose one of ${buildable(images)}, or start Backlot with --image-fallback.`;
  if (!source) return { reason: `The image ${slug} cannot be had: fixtures/oci-images.json names no container image for it. ${remedy}` };
  if (source.oci === undefined)
    return { reason: `The image ${slug} cannot be had: nobody publishes a container image of that system which could be trusted here. ${remedy}` };
  if (source.family !== "apt")
    return { reason: `The image ${slug} cannot be had: guests are built with apt, and ${source.oci} has ${source.family}. ${remedy}` };
  const name = slug.replace(/^.*\//, "");
  const hash = createHash("sha256").update(`${recipe}\n${source.oci}\n`).digest("hex").slice(0, 12);
  return {
    guest: `${guestRepository}:${name}-${hash}`,
    name,
    oci: source.oci,
    localBase: `backlot/base:${name}`,
    suite: source.debootstrap,
    mirror: source.mirror,
  };
};

/** The files the guest image is built from, by name. */
export const guestRecipe = (folder: string): Array<{ name: string; content: Buffer }> =>
  readdirSync(folder)
    .sort()
    .map((name) => ({ name, content: readFileSync(join(folder, name)) }));

export const recipeHash = (files: ReadonlyArray<{ name: string; content: Buffer }>): string => {
  const hash = createHash("sha256");
  for (const { name, content } of files) hash.update(`${name}\n${content.length}\n`).update(content);
  return hash.digest("hex");
};
