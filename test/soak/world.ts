import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { connect } from "node:tls";
import type { Json } from "../support/cloud.js";

export type Row = Json;

export interface Rows {
  balancers: readonly Row[];
  configs: readonly Row[];
  instances: readonly Row[];
  volumes: readonly Row[];
}

/** What a runtime's machines are, asked of the machine they run on and never of Backlot. */
export interface World {
  /** Names one run of a machine: another name, another start. */
  machineOf(owner: string, instance: number): Promise<string | undefined>;
  /** Sentences: what no row explains, and rows that nothing is there for. */
  problems(owner: string, rows: Rows): Promise<string[]>;
  /** Ends and removes what a failed run left. */
  close(owner: string): Promise<void>;
}

interface Listening {
  address: string;
  port: number;
  inode: string;
}

/** Of /proc/net/tcp (proc(5)): addresses in hexadecimal, least significant byte first, and 0A is LISTEN. */
const allListening = (): Listening[] =>
  readFileSync("/proc/net/tcp", "utf8")
    .trim()
    .split("\n")
    .slice(1)
    .flatMap((line) => {
      const [, local = "", , state, , , , , , inode = ""] = line.trim().split(/\s+/);
      if (state !== "0A") return [];
      const [host = "", port = ""] = local.split(":");
      const address = (host.match(/../g) ?? []).reverse().map((byte) => Number.parseInt(byte, 16));
      return [{ address: address.join("."), port: Number.parseInt(port, 16), inode }];
    });

const socketsOf = (pid: number): Set<string> =>
  new Set(
    readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? [];
      } catch {
        return []; // closed meanwhile
      }
    }),
  );

/** SHA-1 of the certificate that is served there; undefined when nobody speaks TLS. */
const servedCertificate = (host: string, port: number): Promise<string | undefined> =>
  new Promise((resolve) => {
    const socket = connect({ host, port, rejectUnauthorized: false, timeout: 2_000 }, () => {
      const { fingerprint } = socket.getPeerCertificate();
      socket.destroy();
      resolve(fingerprint);
    });
    socket.once("timeout", () => socket.destroy());
    socket.once("error", () => resolve(undefined));
    socket.once("close", () => resolve(undefined));
  });

/**
 * Listeners: every config has one, with its certificate; nothing else listens on the balancers' addresses, and the process itself listens
 * nowhere but there and at its API. `prefix`: how the balancers' addresses begin.
 */
export const listenerProblems = async (pid: number, url: string, prefix: string, { balancers, configs }: Rows): Promise<string[]> => {
  const own = socketsOf(pid);
  const listening = allListening();
  const explained = new Set([`127.0.0.1:${new URL(url).port}`]);
  const problems: string[] = [];
  for (const { label, protocol, port, listener, balancer_id, ssl_fingerprint } of configs) {
    const address = balancers.find(({ id }) => id === balancer_id)?.ipv4;
    const place = `${address}:${port}`;
    explained.add(place);
    if (listener.status !== "open") problems.push(`config ${label} does not listen: ${listener.reason}`);
    else if (!listening.some((one) => `${one.address}:${one.port}` === place && own.has(one.inode))) problems.push(`nothing listens at ${place}`);
    else if (protocol === "https" && (await servedCertificate(address, port)) !== ssl_fingerprint)
      problems.push(`another certificate is served at ${place}`);
  }
  for (const { address, port, inode } of listening) {
    const place = `${address}:${port}`;
    if ((own.has(inode) || address.startsWith(prefix)) && !explained.has(place)) problems.push(`${place} listens and no row explains it`);
  }
  return problems;
};
