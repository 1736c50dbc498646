import { getServers } from "node:dns";
import { Resolver } from "node:dns/promises";
import { type Finding, good, problem } from "./finding.js";

const withinMs = 2_000;

/** Whether the resolvers that instances' names beyond ours are looked up with answer: any answer, an unknown name's too. */
export const resolverFindings = async (setting: string | undefined): Promise<Finding[]> => {
  const servers = setting?.split(",").map((server) => server.trim()) ?? getServers();
  const remedy = "backlot start --dns-upstream 1.1.1.1";
  if (servers.length === 0) return [problem("resolver", "This machine has no resolver: instances look up Backlot's own names only.", remedy)];
  const resolver = new Resolver({ timeout: withinMs, tries: 1 });
  resolver.setServers(servers);
  try {
    await resolver.resolve("localhost", "A");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === "ETIMEOUT" || code === "ECONNREFUSED" || code === "ETIMEDOUT")
      return [problem("resolver", `None of this machine's resolvers (${servers.join(", ")}) answers (${code}).`, remedy)];
  } finally {
    resolver.cancel();
  }
  return [good("resolver", `Other names are looked up with ${servers.join(", ")}, which answers.`)];
};
