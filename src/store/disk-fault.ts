import { cannotStart, Fault, reasonOf } from "../kernel/fault.js";
import { codeOf } from "./disk.js";

const FULL = "free some space on that disk";
const CLOSED = "make it writable to the user Backlot runs as";
const REMEDIES: Readonly<Record<string, string>> = {
  ENOSPC: FULL,
  EDQUOT: FULL,
  EFBIG: "raise the file size limit of the user Backlot runs as",
  EACCES: CLOSED,
  EPERM: CLOSED,
  EROFS: "make that file system writable",
  EIO: "check that disk",
  EMFILE: "raise the open file limit of the user Backlot runs as",
  ENOENT: "restart Backlot: somebody removed the file",
};

export const remedyOf = (error: unknown): string => REMEDIES[codeOf(error) ?? ""] ?? "check that disk";

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
