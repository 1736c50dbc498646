const prefix = "could not be asked: this machine";

/** What a connection takes of this machine, by the code of its lack (connect(2), socket(2)). */
const lacks: Readonly<Record<string, string>> = {
  EMFILE: "has no file descriptor left for it; raise the open file limit of the user Backlot runs as, ulimit -n",
  ENFILE: "has no file descriptor left for it; raise fs.file-max",
  EADDRNOTAVAIL: "has no free port to ask from; widen net.ipv4.ip_local_port_range",
};

/** The reason when it is this machine that could not open a connection: that is no word about the node. Undefined for every other failure. */
export const lackReason = (code: string | undefined): string | undefined => {
  const lack = lacks[code ?? ""];
  return lack && `${prefix} ${lack} (${code})`;
};

export const isLack = (reason: string): boolean => reason.startsWith(prefix);
