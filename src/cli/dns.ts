import { getServers } from "node:dns";
import { existsSync } from "node:fs";
import type { Config } from "../config/settings.js";
import { type DnsPlace, pointingLines, type Resolving, undoingLines } from "./dns-texts.js";
import { findRunning, type Running } from "./running.js";

/** What resolves names on this machine, as far as its files tell. */
const resolving = (): Resolving => {
  if (process.platform === "darwin") return "macos";
  if (existsSync("/run/systemd/resolve/stub-resolv.conf")) return "systemd-resolved";
  if (existsSync("/etc/dnsmasq.d")) return "dnsmasq";
  return "resolv.conf";
};

const placeOf = (health: Record<string, unknown>): DnsPlace | undefined => {
  const { address, port } = (health.dns ?? {}) as { address?: unknown; port?: unknown };
  return typeof address === "string" && typeof port === "number" ? { address, port } : undefined;
};

/** The names of the account's domains; the first 500 are enough to see how it is done. */
const domainsOf = async ({ url, token }: Running): Promise<string[]> => {
  const response = await fetch(new URL("/v4/domains?page_size=500", url), { headers: { authorization: `Bearer ${token}` } });
  const { data } = (await response.json()) as { data?: Array<{ domain: string; status: string }> };
  return (data ?? []).filter(({ status }) => status !== "disabled").map(({ domain }) => domain.replace(/^\*\./, ""));
};

/** Exit code 0 when it could be said, 1 when no name server runs on this state folder. Undoing needs none. */
export const runDns = async (config: Config, { undo }: { undo: boolean }): Promise<number> => {
  const how = resolving();
  if (undo) {
    for (const line of undoingLines(how)) console.log(line);
    return 0;
  }
  const found = await findRunning(config.state);
  if (!found.running) {
    console.error(found.reason);
    return 1;
  }
  const place = placeOf(found.health);
  if (!place) {
    console.error("This Backlot answers no names: it was started with --dns-port off.");
    return 1;
  }
  for (const line of pointingLines(how, place, await domainsOf(found.running), getServers())) console.log(line);
  return 0;
};
