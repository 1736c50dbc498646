import { readFileSync } from "node:fs";

const listening = "0A";
/** Nobody's: the kernel alone still has it, for a while. */
const nobody = "0";

/** How many connections to a port of 127.0.0.1 some process holds at that port's end, as the kernel says (proc(5), /proc/net/tcp). */
export const heldOn = (port: number): number => {
  const end = `:${port.toString(16).toUpperCase().padStart(4, "0")}`;
  const rows = readFileSync("/proc/net/tcp", "utf8").split("\n").slice(1);
  return rows
    .map((row) => row.trim().split(/\s+/))
    .filter(([, local, , state, , , , , , inode]) => local?.endsWith(end) && state !== listening && inode !== nobody).length;
};
