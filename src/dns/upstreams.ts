import { getServers, Resolver } from "node:dns";
import { serverPlace } from "../kernel/names.js";
import type { Upstream } from "./forwarder.js";

/** How long the system's list is believed, in ms: a laptop changes its network. */
const believedMs = 5_000;

const placesOf = (servers: readonly string[]): Upstream[] => servers.flatMap((server) => serverPlace(server.trim()) ?? []);

/** @param setting addresses with commas between them; undefined: the resolvers of this machine, as they are at the moment */
export const upstreamsOf = (setting: string | undefined): (() => readonly Upstream[]) => {
  if (setting !== undefined) {
    const fixed = placesOf(setting.split(","));
    return () => fixed;
  }
  let known = placesOf(getServers());
  let sinceMs = performance.now();
  return () => {
    if (performance.now() - sinceMs > believedMs) {
      known = placesOf(new Resolver().getServers());
      sinceMs = performance.now();
    }
    return known;
  };
};
