import { join } from "node:path";
import type { Config } from "../config/settings.js";
import { packageFolder } from "../kernel/package-folder.js";
import type { EngineFacts } from "../runtime/docker/facts.js";
import { type Finding, good, note, problem, quoted } from "./finding.js";

/** API 1.41 is the first that the driver was made for (engine 20.10). */
const leastApi = [1, 41] as const;

const setUp = `sudo bash ${quoted(join(packageFolder, "docker/ensure-engine.sh"))}`;

/** The command for an engine that does not answer, from the reason it gave. Pure. */
const engineRemedy = (reason: string, dockerHost: string | undefined): string => {
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

/** Pure. */
export const engineFindings = ({ version, apiVersion }: EngineFacts): Finding[] => {
  const [major = 0, minor = 0] = apiVersion.split(".").map(Number);
  const fits = major > leastApi[0] || (major === leastApi[0] && minor >= leastApi[1]);
  const said = `A Docker engine ${version} answers (API ${apiVersion})`;
  if (fits) return [good("engine", `${said}.`)];
  return [problem("engine", `${said}; API ${leastApi.join(".")} is the oldest that works.`, "sudo apt-get install --only-upgrade docker.io")];
};
