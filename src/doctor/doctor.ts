import { cleanMachine, hasNoOwner } from "../clean.js";
import type { Config } from "../config/settings.js";
import { reasonOf } from "../kernel/fault.js";
import type { EngineFacts } from "../runtime/docker/facts.js";
import { stateOwner } from "../store/state-owner.js";
import { engineFindings, engineRemedy, noEngineFinding } from "./engine.js";
import { type CheckName, type Finding, good, note, problem } from "./finding.js";
import { clockFindings, engineRoomFindings, stateFindings } from "./machine.js";
import { resolverFindings } from "./names.js";
import { networkFindings } from "./networks.js";
import { portFindings } from "./ports.js";
import { type SecureListener, trustFindings, trustStore } from "./trust.js";
import { versionFindings } from "./versions.js";

export interface Examined {
  config: Config;
  version: string;
  /** A Backlot runs on the state folder of these settings. */
  running: boolean;
  /** Its listeners that speak https. */
  listeners: readonly SecureListener[];
  /** Leftovers that only the caller knows of. */
  leftovers: readonly string[];
  env: { DOCKER_HOST?: string | undefined; NODE_EXTRA_CA_CERTS?: string | undefined };
}

/** The first commit's day: a clock before it is wrong. */
const builtMs = Date.UTC(2026, 0, 1);

/** A check that fails itself says so and stops no other. */
const guarded = async (check: CheckName, look: () => Promise<Finding[]>): Promise<Finding[]> => {
  try {
    return await look();
  } catch (error) {
    return [problem(check, `This could not be looked at: ${reasonOf(error)}.`, "backlot doctor")];
  }
};

const askEngine = async (
  runtime: Config["runtime"],
  owner: string,
  dockerHost: string | undefined,
): Promise<{ facts?: EngineFacts; findings: Finding[] }> => {
  const { engineAnswers } = await import("../runtime/docker/engine.js");
  const answer = await engineAnswers();
  if ("reason" in answer) return { findings: [noEngineFinding(answer.reason, runtime, dockerHost)] };
  const { engineFacts } = await import("../runtime/docker/facts.js");
  const facts = await engineFacts(owner);
  return { facts, findings: engineFindings(facts) };
};

const shownLeftovers = 5;

const leftoverFindings = async (more: readonly string[], runtime: Config["runtime"], dockerHost: string | undefined): Promise<Finding[]> => {
  const left = await cleanMachine({ dryRun: true });
  const found = [...more, ...left.flatMap(({ what, unknown, unseen }) => (unknown || unseen ? [] : [what]))];
  const [unseen] = left.filter((one) => one.unseen);
  if (found.length > 0) {
    const shown = [...found.slice(0, shownLeftovers), ...(found.length > shownLeftovers ? [`and ${found.length - shownLeftovers} more`] : [])];
    return [problem("leftovers", `Left behind by Backlots that are no more: ${shown.join("; ")}.`, "backlot clean")];
  }
  if (!unseen) return [good("leftovers", "Nothing of a Backlot that is no more is left on this machine.")];
  const text = "Nothing of a Backlot that is no more runs as a process; the Docker engine could not be asked, and what is there was not looked at.";
  // Who wants no engine has nothing to mend.
  return runtime === "process" ? [good("leftovers", text)] : [note("leftovers", text, engineRemedy(unseen.reason ?? "", dockerHost))];
};

/** `backlot doctor`: looks at everything a Backlot with these settings stands on. Changes nothing. */
export const examine = async ({ config, version, running, listeners, leftovers, env }: Examined): Promise<Finding[]> => {
  const found = await stateOwner(config.state);
  const owner = typeof found === "object" ? found.owner : "";
  let facts: EngineFacts | undefined;
  const engine =
    config.runtime === "process"
      ? [good("engine", "The process runtime is asked for: no engine is needed.")]
      : await guarded("engine", async () => {
          const asked = await askEngine(config.runtime, owner, env.DOCKER_HOST);
          facts = asked.facts;
          return asked.findings;
        });
  const known = facts;
  const ownerless = new Set<string>();
  for (const { owner: other, stateFolder } of known?.networks ?? [])
    if (other !== undefined && stateFolder !== undefined && (await hasNoOwner({ owner: other, stateFolder }))) ownerless.add(other);
  const nowMs = Date.now();
  return [
    ...versionFindings(process.version, version, process.platform),
    ...engine,
    ...(known
      ? networkFindings(config.privatePool, known, ownerless, owner)
      : [good("networks", "Private addresses are loopback addresses of this machine.")]),
    ...(await guarded("ports", () => portFindings(config, running))),
    ...(await guarded("resolver", () => resolverFindings(config.dnsUpstream))),
    ...(await guarded("trust", async () => trustFindings(await trustStore(), env.NODE_EXTRA_CA_CERTS, listeners))),
    ...(await guarded("leftovers", () => leftoverFindings(leftovers, config.runtime, env.DOCKER_HOST))),
    ...clockFindings(nowMs, builtMs, known?.aheadMs === undefined ? undefined : nowMs + known.aheadMs),
    ...(await guarded("disk", () => stateFindings(config.state))),
    ...(known?.folder === undefined ? [] : await guarded("disk", () => engineRoomFindings(known.folder ?? ""))),
  ];
};
