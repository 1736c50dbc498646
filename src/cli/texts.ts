import type { Problem } from "../kernel/fault.js";

/** What `backlot start` prints for people once it serves. */
export const welcome = (run: {
  url: string;
  linodeUrl: string | undefined;
  token: string;
  runtime: string;
  dns: { address: string; port: number } | null;
  state: string;
  onExit: "keep" | "stop";
}): string[] => {
  const bearer = `-H 'Authorization: Bearer ${run.token}'`;
  const balancer = `'{"region":"us-east","label":"web","client_conn_throttle":0}'`;
  return [
    `Backlot serves at ${run.url}`,
    ...(run.linodeUrl === undefined ? [] : [`  linode   ${run.linodeUrl} (the public spelling)`]),
    `  token    ${run.token}`,
    `  runtime  ${run.runtime}`,
    `  state    ${run.state}`,
    ...(run.dns ? [`  names    ${run.dns.address} port ${run.dns.port} (backlot dns says how this machine asks there)`] : []),
    "",
    "The next three commands to type:",
    `  curl ${run.url}/v4/regions`,
    `  curl ${bearer} -H 'Content-Type: application/json' -d ${balancer} ${run.url}/v4/balancers`,
    `  curl ${bearer} ${run.url}/v4/account/events`,
    "",
    `Ctrl-C stops it. The state is kept${run.onExit === "keep" ? " and so are the machines" : "; the machines are stopped"}.`,
  ];
};

/** The one line `start --json` begins with. */
export const machineLine = (run: {
  url: string;
  linodeUrl: string | undefined;
  token: string;
  runtime: string;
  pid: number;
  state: string;
}): string => JSON.stringify({ url: run.url, linode_url: run.linodeUrl, token: run.token, runtime: run.runtime, pid: run.pid, state: run.state });

/** One line a problem, the setting's name first. */
export const problemLines = (problems: readonly Problem[]): string[] =>
  problems.map(({ field, reason }) => (field === undefined || reason.includes(field) ? reason : `${field}: ${reason}`));

/** Line breaks would turn one cause into what looks like several. */
export const oneLine = (text: string): string =>
  text
    .split(/[\r\n]/)
    .map((line) => line.trim())
    .filter((line) => line !== "")
    .join(" ");

/** Members of the health answer that are shown first, in this order; the others follow as they come. */
const known = ["pid", "owner", "runtime", "state", "version", "uptime_s"];

const scalar = (value: unknown): string | undefined =>
  typeof value === "string" || typeof value === "number" || typeof value === "boolean" ? String(value) : undefined;

/** What `backlot status` prints, from whatever members the health answer has. */
export const statusLines = (url: string, health: Record<string, unknown>): string[] => {
  const rest = Object.keys(health).filter((name) => !known.includes(name) && name !== "status");
  const rows = [...known, ...rest].flatMap((name): Array<[string, string]> => {
    const value = health[name];
    const text = scalar(value);
    if (text !== undefined) return [[name, text]];
    if (typeof value !== "object" || value === null) return [];
    const parts = Object.entries(value).flatMap(([key, inner]) => (scalar(inner) === undefined ? [] : [`${key} ${scalar(inner)}`]));
    return parts.length === 0 ? [] : [[name, parts.join(", ")]];
  });
  const width = Math.max(0, ...rows.map(([name]) => name.length));
  return [`Backlot serves at ${url}`, ...rows.map(([name, text]) => `  ${name.padEnd(width)}  ${text}`)];
};
