import { existsSync } from "node:fs";
import type { EngineConnection } from "./connection.js";
import { asking, openEngine } from "./engine.js";
import { labels, thisHost } from "./labels.js";
import { engineNetworks } from "./networks.js";
import { engineHost } from "./standing.js";

export interface EngineFacts {
  version: string;
  /** As `1.41`. */
  apiVersion: string;
  /** The engine's clock minus ours, in ms; undefined when it does not tell. */
  aheadMs: number | undefined;
  /** The other machine it is on, and how that is reached. */
  elsewhere: { host: string; by: "tcp" | "tls" | "ssh" } | undefined;
  /** Where it keeps images and containers, when that is a folder of this machine. */
  folder: string | undefined;
  /** Networks with a range, whoever made them; `owner` on a Backlot's, `stateFolder` when that is on this machine. */
  networks: Array<{ name: string; cidr: string; owner: string | undefined; stateFolder: string | undefined }>;
  /** Ranges that something that is not this owner's occupies, interfaces of this machine included, with who. */
  occupied: Array<{ cidr: string; owner: string }>;
}

/** What `backlot doctor` asks the engine. @throws Fault `unavailable` when it does not answer */
export const engineFacts = async (owner: string, connection?: EngineConnection): Promise<EngineFacts> => {
  const docker = openEngine(connection);
  return asking("describe itself", async () => {
    const version = await docker.version();
    const beforeMs = Date.now();
    const info = (await docker.info()) as { SystemTime?: string; DockerRootDir?: string };
    const saidMs = Date.parse(info.SystemTime ?? "");
    const rows = await docker.listNetworks();
    const elsewhere = engineHost(docker);
    return {
      version: version.Version,
      elsewhere,
      apiVersion: version.ApiVersion,
      aheadMs: Number.isNaN(saidMs) ? undefined : Math.max(0, saidMs - Date.now()) || Math.min(0, saidMs - beforeMs),
      folder: !elsewhere && info.DockerRootDir !== undefined && existsSync(info.DockerRootDir) ? info.DockerRootDir : undefined,
      networks: rows.flatMap((row) =>
        (row.IPAM?.Config ?? []).flatMap(({ Subnet }) =>
          Subnet === undefined
            ? []
            : [
                {
                  name: row.Name,
                  cidr: Subnet,
                  owner: row.Labels?.[labels.owner],
                  stateFolder: row.Labels?.[labels.host] === thisHost() ? row.Labels[labels.state] : undefined,
                },
              ],
        ),
      ),
      occupied: await engineNetworks(docker, { owner, stateFolder: "" }).occupied(),
    };
  });
};
