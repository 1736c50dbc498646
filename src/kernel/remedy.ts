import { Fault, reasonOf } from "./fault.js";

const full = "free some space on that disk";
const closed = "make it writable to the user Backlot runs as";
const descriptors = "raise the open file limit of the user Backlot runs as (ulimit -n), or close what holds connections open";
/** What to do about what the system refuses, by its code (errno(3)). */
const remedies: Readonly<Record<string, string>> = {
  ENOSPC: full,
  EDQUOT: full,
  EFBIG: "raise the file size limit of the user Backlot runs as",
  EACCES: closed,
  EPERM: closed,
  EROFS: "make that file system writable",
  EIO: "check that disk",
  EMFILE: descriptors,
  ENFILE: "raise the system's limit of open files (fs.file-max)",
  ENOMEM: "give this machine more memory, or end what uses it",
  EAGAIN: "raise the process limit of the user Backlot runs as (ulimit -u)",
  EADDRNOTAVAIL: "widen this machine's range of local ports (net.ipv4.ip_local_port_range)",
  ENOENT: "restart Backlot: somebody removed the file",
};

export const codeOf = (error: unknown): string | undefined => (error as NodeJS.ErrnoException | undefined)?.code;

/** What to do about what the system refused, in the imperative; a failure of the disk, where the code tells nothing. */
export const remedyOf = (error: unknown): string => remedies[codeOf(error) ?? ""] ?? "check that disk";

/** Not ENOENT and its like: those say something of a file, these of the machine. */
const exhaustions: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT", "EROFS", "EIO", "EMFILE", "ENFILE", "ENOMEM"]);

/** Is the machine out of something, so that the same may work again later? */
export const isExhaustion = (error: unknown): boolean => exhaustions.has(codeOf(error) ?? "");

/** What could not be done because the machine is out of something: no bug of ours, and no fault of the caller's. */
export const exhausted = (error: unknown): Fault | undefined =>
  isExhaustion(error)
    ? new Fault("unavailable", [{ reason: `This machine refused it (${reasonOf(error)}); ${remedyOf(error)} and try again.` }], { cause: error })
    : undefined;
