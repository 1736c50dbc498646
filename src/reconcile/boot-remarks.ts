import type { Machine } from "../runtime/driver.js";

/** What whoever asked for a boot has to know of what came of it; nothing when it is what was asked for. */
export const bootRemarks = (image: string | null, machine: Machine): string[] => [
  ...(machine.substitutedImage === undefined ? [] : [`${image} cannot be had here; ${machine.substitutedImage} was booted instead.`]),
  ...(machine.ownEntrypoint ? ["It runs its image's own entrypoint: root_pass, authorized_keys and services of Backlot's guests are not used."] : []),
];
