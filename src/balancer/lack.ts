import { remedyOf } from "../kernel/remedy.js";

const prefix = "could not be asked: this machine";

/** What a connection takes of this machine, by the code of its lack (connect(2), socket(2)). */
const lacks: Readonly<Record<string, string>> = { EMFILE: "file descriptor", ENFILE: "file descriptor", EADDRNOTAVAIL: "port of its own" };

/** The reason when it is this machine that could not open a connection: that is no word about the node. Undefined for every other failure. */
export const lackReason = (code: string | undefined): string | undefined => {
  const lack = lacks[code ?? ""];
  return lack && `${prefix} has no ${lack} left for it (${code}); ${remedyOf({ code })}`;
};

export const isLack = (reason: string): boolean => reason.startsWith(prefix);
