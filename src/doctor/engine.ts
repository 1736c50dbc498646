import { join } from "node:path";
import type { Config } from "../config/settings.js";
import { packageFolder } from "../kernel/package-folder.js";
import type { EngineFacts } from "../runtime/docker/facts.js";
import { type Finding, good, note, problem, quoted } from "./finding.js";

/** API 1.41 is the first that the driver was made for (engine 20.10). */
const leastApi = [1, 41] as const;

const setUp = `sudo bash ${quoted(join(packageFolder, "docker/ensure-engine.sh"))}`;

/** The command for an engine that does not answer, from the reason it gave. Pure. */
export const engineRemedy = (reason: string, dockerHost: string | undefined): string => {
  if (dockerHost !== undefined && dockerHost !== "") return "unset DOCKER_HOST";
  if (reason.includes("EACCES")) return 'sudo usermod -aG docker "$USER" && newgrp docker';
  if (reason.includes("within")) return "sudo systemctl restart docker";
  return setUp;
};

/** Without an engine instances are processes: less than it could be, unless the engine was asked for. Pure. */
export const noEngineFinding = (reason: string, runtime: Config["runtime"], dockerHost: string | undefined): Finding => {
  const remedy = engineRemedy(reason, dockerHost);
  if (runtime === "docker") return problem("engine", `The docker runtime is asked for, and no engine answers. ${reason}`, remedy);
  return note("engine", `No engine answers, so instances are processes of this machine. ${reason}`, remedy);
};

/** What is otherwise with an engine on another machine. Pure. */
const elsewhereFindings = ({ host, by }: NonNullable<EngineFacts["elsewhere"]>): Finding[] => {
  const mend = `export DOCKER_HOST=tcp://${host}:2376 DOCKER_TLS_VERIFY=1 DOCKER_CERT_PATH=~/.docker`;
  const place = `The engine is on another machine (${host})`;
  if (by === "ssh") return [problem("engine", `${place}, reached over ssh: its instances run, and no balancer reaches them from here.`, mend)];
  const relays = good("engine", `${place}: instances are reached by relays, at ports it publishes there; a firewall must let this machine to them.`);
  if (by === "tls") return [relays];
  return [relays, note("engine", `${place}, reached without TLS: who reaches that port is root there, and its instances may reach it.`, mend)];
};

/** Pure. */
export const engineFindings = ({ version, apiVersion, elsewhere }: Pick<EngineFacts, "version" | "apiVersion" | "elsewhere">): Finding[] => {
  const [major = 0, minor = 0] = apiVersion.split(".").map(Number);
  const fits = major > leastApi[0] || (major === leastApi[0] && minor >= leastApi[1]);
  const said = `A Docker engine ${version} answers (API ${apiVersion})`;
  if (fits) return [good("engine", `${said}.`), ...(elsewhere ? elsewhereFindings(elsewhere) : [])];
  return [problem("engine", `${said}; API ${leastApi.join(".")} is the oldest that works.`, "sudo apt-get install --only-upgrade docker.io")];
};
