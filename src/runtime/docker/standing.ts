import { lookup } from "node:dns/promises";
import { networkInterfaces } from "node:os";
import type Docker from "dockerode";
import { contains, isLoopback, parseCidr } from "../../kernel/addresses.js";
import { asking } from "./engine.js";

/** Where this process stands, as seen from the engine: it says how a container's port can be reached from here. */
export type Standing =
  /** On the machine whose loopback the engine publishes ports on (Docker Desktop's included). */
  | { place: "beside" }
  /** In a container of that engine, on this network of it. */
  | { place: "inside"; network: string }
  /** On another machine than the engine's, which we reach by that name at that address (IPv4; every address of that machine when the name has none). */
  | { place: "away"; host: string; address: string }
  | { place: "nowhere"; reason: string };

interface Modem {
  protocol?: string;
  host?: string;
  socketPath?: string;
}

const ownAddresses = () => Object.values(networkInterfaces()).flatMap((addresses) => (addresses ?? []).filter(({ internal }) => !internal));

/** Has this machine an interface in that network? Only then an answer from one of its addresses comes from a machine of ours. */
export const isOnLink = (subnet: string): boolean => {
  const range = parseCidr(subnet);
  return range !== undefined && ownAddresses().some(({ family, address }) => family === "IPv4" && contains(range, address));
};

/** Every address of the engine's machine: what it is reached at need not be its own, as with a public address that somebody translates. */
export const anyAddress = "0.0.0.0";

/** The other machine that the engine is on, as far as the connection to it tells: nothing is asked. */
export const engineHost = (docker: Docker): { host: string; by: "tcp" | "tls" | "ssh" } | undefined => {
  const { protocol, host, socketPath } = docker.modem as Modem;
  if (socketPath !== undefined || host === undefined || host === "localhost" || isLoopback(host)) return undefined;
  if (ownAddresses().some(({ address }) => address === host)) return undefined;
  return { host, by: protocol === "ssh" ? "ssh" : protocol === "https" ? "tls" : "tcp" };
};

/** @throws Fault `unavailable` when the engine does not answer */
export const standingOf = async (docker: Docker): Promise<Standing> => {
  // A container of the engine that has our interface's addresses is the one we are in: names can be chosen, these cannot.
  const ours = new Set(ownAddresses().map(({ mac, address }) => `${mac} ${address}`));
  for (const { NetworkSettings } of await asking("list containers", () => docker.listContainers())) {
    for (const [network, { MacAddress, IPAddress }] of Object.entries(NetworkSettings?.Networks ?? {}))
      if (ours.has(`${MacAddress} ${IPAddress}`)) return { place: "inside", network };
  }
  const there = engineHost(docker);
  if (!there) return { place: "beside" };
  const { host, by } = there;
  if (by !== "ssh")
    return {
      place: "away",
      host,
      address: await lookup(host, 4).then(
        ({ address }) => address,
        () => anyAddress,
      ),
    };
  const reason = `The engine is reached over ssh (${host}), and nothing else of that machine can be reached that way. Use DOCKER_HOST=tcp://${host}:PORT with TLS, or run Backlot there.`;
  return { place: "nowhere", reason };
};
