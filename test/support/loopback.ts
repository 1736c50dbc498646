import { randomInt } from "node:crypto";

/**
 * A /24 of loopback addresses for one test, at random out of 127.64.0.0/10, so that suites side by side (other files, other
 * checkouts on this machine) do not bind each other's ports. Outside what Backlot takes by itself: 127.0, 127.18 and 127.192.
 */
export const ownRange = (): { cidr: string; first: string } => {
  const base = `127.${64 + randomInt(64)}.${randomInt(256)}`;
  return { cidr: `${base}.0/24`, first: `${base}.1` };
};
