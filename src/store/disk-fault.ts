import { cannotStart, Fault, reasonOf } from "../kernel/fault.js";
import { codeOf, remedyOf } from "../kernel/remedy.js";

/** A change that could not be made durable. Nothing of it remains, and the next one is tried again. */
export const unavailable = (path: string, error: unknown): Fault =>
  new Fault(
    "unavailable",
    [{ reason: `The change was not saved because ${path} cannot be written (${reasonOf(error)}); ${remedyOf(error)} and try again.` }],
    {
      cause: error,
    },
  );

/** Any failure of the disk while a state is opened. */
export const cannotOpen = (folder: string, error: unknown): Fault => {
  // Nobody removed what was never there: below /proc, for one, no folder can be made.
  const remedy =
    codeOf(error) === "ENOENT"
      ? "no folder can be made there, so start with another state folder"
      : `${remedyOf(error)}, or start with another state folder`;
  return cannotStart(`The state folder ${folder} cannot be used (${reasonOf(error)}); ${remedy}.`, error);
};

/** The way back when nothing beside a damaged file can replace it. The whole folder: its files belong together. */
export const restoringBackup = (folder: string): string =>
  `put a backup of ${folder} in its place (a copy of the whole folder that was made while Backlot was stopped)`;
