import { readFileSync } from "node:fs";
import { join } from "node:path";

/** A catalogue entry as it is served, already in wire spelling; only the members the rules need are named. */
interface Entry {
  id: string;
  [member: string]: unknown;
}
interface TypeEntry extends Entry {
  label: string;
  /** MiB */
  memory: number;
  /** MiB */
  disk: number;
  vcpus: number;
  gpus: number;
  /** GB a month */
  transfer: number;
}
interface ImageEntry extends Entry {
  label: string;
}

/** A public script (contract 13.2) with its text. */
export interface ScriptEntry {
  id: number;
  label: string;
  images: readonly string[];
  script: string;
  user_defined_fields: ReadonlyArray<{ name: string; label: string; default?: string; oneof?: string; manyof?: string }>;
  [member: string]: unknown;
}

/** What never changes while Backlot runs. Rows come from `fixtures/`, the order is the public API's. */
export interface Catalogue {
  regions: readonly Entry[];
  images: readonly ImageEntry[];
  types: readonly TypeEntry[];
  kernels: readonly Entry[];
  scripts: readonly ScriptEntry[];
  volumeTypes: readonly Entry[];
}

const readRows = <R>(path: string): R[] => JSON.parse(readFileSync(path, "utf8")) as R[];

/** Reads the catalogue from the fixtures' folder. */
export const readCatalogue = (fixtures: string): Catalogue => {
  const scripts = join(fixtures, "scripts");
  const withText = ({ script_file, ...entry }: ScriptEntry & { script_file: string }): ScriptEntry => ({
    ...entry,
    mine: false,
    script: readFileSync(join(scripts, script_file), "utf8"),
  });
  return {
    regions: readRows(join(fixtures, "catalogue", "regions.json")),
    images: readRows(join(fixtures, "catalogue", "images.json")),
    types: readRows(join(fixtures, "catalogue", "types.json")),
    kernels: readRows(join(fixtures, "catalogue", "kernels.json")),
    scripts: readRows<ScriptEntry & { script_file: string }>(join(scripts, "scripts.json")).map(withText),
    volumeTypes: readRows(join(fixtures, "catalogue", "volume_types.json")),
  };
};
