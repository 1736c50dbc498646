import { type Finding, good, problem } from "./finding.js";

const least = [20, 19] as const;

/** Whether this Node.js runs Backlot. Pure. */
export const versionFindings = (node: string, backlot: string, platform: string): Finding[] => {
  const [major = 0, minor = 0] = node.replace(/^v/, "").split(".").map(Number);
  const fits = major > least[0] || (major === least[0] && minor >= least[1]);
  const said = `Backlot ${backlot} on Node.js ${node.replace(/^v/, "")}, ${platform}`;
  if (fits) return [good("versions", `${said}.`)];
  return [problem("versions", `${said}: Node.js ${least.join(".")} or newer is needed.`, "npx --yes n 22")];
};
