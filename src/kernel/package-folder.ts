import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const upwards = (from: string): string => (existsSync(join(from, "package.json")) ? from : upwards(dirname(from)));

/** Absolute path of this package, where `fixtures` and `docker` lie. Looked for, since this module may be part of the one file in `dist/bin`. */
export const packageFolder = upwards(dirname(fileURLToPath(import.meta.url)));
