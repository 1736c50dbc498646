import type { Reader } from "../cloud.js";

/** Every file system that a row explains; the runtime is told to remove all others. */
export const namedFileSystems = (reader: Reader): ReadonlySet<string> =>
  new Set([
    ...reader.list("disk").flatMap(({ fingerprint, copyOf }) => (copyOf === null ? [fingerprint] : [fingerprint, copyOf])),
    ...reader.list("backup").flatMap(({ disks }) => disks.flatMap(({ copy }) => copy ?? [])),
  ]);
