import type { Config } from "../config/settings.js";
import { abandonedDemoFolders } from "../demo/folders.js";
import { examine, type Finding } from "../index.js";
import { findRunning, type Running } from "./running.js";

type Listener = Parameters<typeof examine>[0]["listeners"][number];

const answerMs = 3_000;

/** What the running Backlot serves with https; nothing when it does not say. */
const secureListeners = async ({ url, token }: Running): Promise<Listener[]> => {
  const list = async (path: string): Promise<Array<Record<string, unknown>>> => {
    const headers = { authorization: `Bearer ${token}` };
    const response = await fetch(new URL(`${path}?page_size=500`, url), { headers, signal: AbortSignal.timeout(answerMs) });
    return ((await response.json()) as { data?: Array<Record<string, unknown>> }).data ?? [];
  };
  const found: Listener[] = [];
  for (const { id } of await list("/v4/balancers")) {
    for (const config of await list(`/v4/balancers/${String(id)}/configs`)) {
      const { status, address, port } = config.listener as { status: string; address: string; port: number };
      if (config.protocol === "https" && status === "open")
        found.push({ config: Number(config.id), address, port, commonName: String(config.ssl_commonname) });
    }
  }
  return found;
};

const words = { good: "ok", note: "note", problem: "problem" } as const;

const shown = ({ check, level, text, remedy }: Finding): string[] => [
  `${words[level].padEnd(7)}  ${check.padEnd(9)}  ${text}`,
  ...(remedy === undefined ? [] : [`${" ".repeat(20)}  $ ${remedy}`]),
];

/** Exit code 0 when Backlot will work here, 1 when something has to be mended first. */
export const runDoctor = async (config: Config, version: string, env: NodeJS.ProcessEnv): Promise<number> => {
  const presence = await findRunning(config.state);
  const findings = await examine({
    config,
    version,
    running: presence.running !== undefined,
    listeners: presence.running ? await secureListeners(presence.running).catch(() => []) : [],
    leftovers: (await abandonedDemoFolders()).map((folder) => `folder ${folder} of a demo that was killed`),
    env,
  });
  const isHealthy = findings.every(({ level }) => level !== "problem");
  if (config.json) console.log(JSON.stringify({ healthy: isHealthy, findings: findings.map((one) => ({ ...one, remedy: one.remedy ?? null })) }));
  else for (const line of findings.flatMap(shown)) console.log(line);
  return isHealthy ? 0 : 1;
};
