import { cannotStart, Fault, reasonOf } from "../kernel/fault.js";
import { remedyOf } from "../kernel/remedy.js";

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
export const cannotOpen = (folder: string, error: unknown): Fault =>
  cannotStart(`The state folder ${folder} cannot be used (${reasonOf(error)}); ${remedyOf(error)}, or start with another state folder.`, error);
