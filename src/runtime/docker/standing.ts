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
  /** On another machine. */
  | { place: "away"; host: string }
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

/** @throws Fault `unavailable` when the engine does not answer */
export const standingOf = async (docker: Docker): Promise<Standing> => {
  // A container of the engine that has our interface's addresses is the one we are in: names can be chosen, these cannot.
  const ours = new Set(ownAddresses().map(({ mac, address }) => `${mac} ${address}`));
  for (const { NetworkSettings } of await asking("list containers", () => docker.listContainers())) {
    for (const [network, { MacAddress, IPAddress }] of Object.entries(NetworkSettings?.Networks ?? {}))
      if (ours.has(`${MacAddress} ${IPAddress}`)) return { place: "inside", network };
  }
  const { protocol, host, socketPath } = docker.modem as Modem;
  if (socketPath !== undefined || host === undefined || host === "localhost" || isLoopback(host)) return { place: "beside" };
  if (protocol !== "ssh") return { place: "away", host };
  const reason = `The engine is reached over ssh (${host}), and nothing else of that machine can be reached that way. Use DOCKER_HOST=tcp://${host}:PORT with TLS, or run Backlot there.`;
  return { place: "nowhere", reason };
};
