import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { Config } from "../config/settings.js";
import { type Backlot, startBacklot } from "../index.js";
import { Closers } from "../kernel/closers.js";
import { reasonOf } from "../kernel/fault.js";
import { connectCloud } from "./cloud.js";
import { playground } from "./ending.js";
import { makeDemoFolder } from "./folders.js";
import { bindTrial, candidateRanges, freeRange } from "./free-ports.js";
import { fact, type Stage, waitFor } from "./stage.js";
import { story } from "./story.js";
import { duration, type Outcome, provenTable, tickLine } from "./table.js";

export interface DemoOptions {
  /** The settings as the user gave them; port and state are the demo's own. */
  config: Config;
  /** True when the user chose the balancers' addresses: then none are looked for. */
  rangeChosen: boolean;
  /** Tear down after the story instead of staying up. */
  exit: boolean;
  /** Aborted by Ctrl-C. */
  signal: AbortSignal;
  print(line: string): void;
}

/** What a finished demo was: every step held, a step did not, or Ctrl-C came before the end. */
export type DemoEnd = "proven" | "failed" | "interrupted";

/** A first boot may build or fetch an image on Docker; a process has nothing to fetch. */
const bootLimitMs = { docker: 300_000, process: 20_000 } as const;

/** An address of the process runtime's that no instance is given: is a process of ours allowed to listen on port 80 there? */
const portTrialAddress = "127.192.255.254";

const chooseNodePort = async (runtime: Backlot["runtime"]): Promise<number> =>
  runtime === "docker" || (await bindTrial(portTrialAddress, 80)) === "free" ? 80 : 8000;

const chooseConfig = async ({ config, rangeChosen, print }: DemoOptions, state: string): Promise<Config> => {
  const settings: Config = {
    ...config,
    port: 0,
    dnsPort: 0,
    host: "127.0.0.1",
    state,
    token: undefined,
    certificates: "strict",
    onExit: "stop",
    json: false,
  };
  if (rangeChosen) return settings;
  const { range, taken } = await freeRange(candidateRanges(config.balancerAddresses));
  if (taken.length === 0) return settings;
  if (range === undefined) {
    print("  Ports 80 and 443 are taken on every loopback address that was tried; the balancer will say what it could not do.");
    return settings;
  }
  print(`  ${taken.join(" and ")} ${taken.length === 1 ? "is" : "are"} taken on this machine, so the balancer gets its address from ${range}.`);
  return { ...settings, balancerAddresses: range };
};

const performStory = async (stage: Stage, print: (line: string) => void): Promise<{ end: DemoEnd; outcomes: Outcome[] }> => {
  const outcomes: Outcome[] = [];
  for (const step of story) {
    const startedMs = performance.now();
    try {
      stage.signal.throwIfAborted();
      const outcome = { title: step.title, seen: await step.run(stage), tookMs: performance.now() - startedMs };
      outcomes.push(outcome);
      print(tickLine(outcome));
    } catch (error) {
      if (stage.signal.aborted) return { end: "interrupted", outcomes };
      print(`  ✗ ${step.title}: ${reasonOf(error).replace(/\s+/g, " ").trim()} (${duration(performance.now() - startedMs)})`);
      print("");
      print(`Step ${outcomes.length + 1} of ${story.length} did not hold: ${step.title}.`);
      return { end: "failed", outcomes };
    }
  }
  return { end: "proven", outcomes };
};

/** Removes every instance over the API and waits until it is gone, so that no machine outlives the demo. */
const removeInstances = async (stage: Stage): Promise<void> => {
  const { data } = await stage.cloud.get<{ data: Array<{ id: number; label: string }> }>("/v4/cloud/instances");
  await Promise.all(
    data.map(async ({ id, label }) => {
      const path = `/v4/cloud/instances/${id}`;
      // An instance that is busy (just killed, just booting) refuses for a moment.
      await waitFor(stage, {
        expected: `${label} deleted`,
        withinMs: 20_000,
        ask: () => stage.cloud.ask("DELETE", path),
        holds: ({ status }) => status === 200 || status === 404,
        tell: ({ status, body }) => `${status} ${JSON.stringify(body)}`,
      });
      await waitFor(stage, {
        expected: `${label} gone`,
        withinMs: 20_000,
        ask: () => stage.cloud.ask("GET", path),
        holds: ({ status }) => status === 404,
        tell: ({ status, body }) => `${status} ${JSON.stringify(body).slice(0, 300)}`,
      });
    }),
  );
};

const stayUp = async (backlot: Backlot, signal: AbortSignal): Promise<void> => {
  const interrupted = new Promise<void>((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
  await Promise.race([interrupted, backlot.closed]);
};

const tellEnd = async ({ facts }: Stage, backlot: Backlot, outcomes: readonly Outcome[], options: DemoOptions): Promise<void> => {
  const { print } = options;
  print("");
  for (const line of provenTable(outcomes)) print(line);
  print("");
  if (options.exit) return;
  const certFile = join(backlot.state, "demo-cert.pem");
  await writeFile(certFile, fact(facts.certificate, "certificate").cert);
  const balancerId = fact(facts.balancer, "balancer").id;
  for (const line of playground({ url: backlot.url, token: backlot.token, balancerId, door: fact(facts.tlsDoor, "TLS listener"), certFile }))
    print(line);
  await stayUp(backlot, options.signal);
};

/**
 * Starts a Backlot of its own in a temporary folder, walks the story over HTTP and removes everything again.
 * Throws what `startBacklot` throws, and what went wrong while tearing down.
 */
export const performDemo = async (options: DemoOptions): Promise<DemoEnd> => {
  const { print } = options;
  const closers = new Closers();
  try {
    const state = await makeDemoFolder();
    closers.add(() => rm(state, { recursive: true, force: true, maxRetries: 3 }));
    print("Backlot demo: a balanced HTTPS service, end to end.");
    const startedMs = performance.now();
    const backlot = await startBacklot(await chooseConfig(options, state), { onProgress: (line) => print(`    ${line}`) });
    closers.add(() => backlot.close({ machines: "stop" }));
    let closed = false;
    void backlot.closed.then(() => {
      closed = true;
    });
    const cloud = connectCloud(backlot.url, backlot.token);
    // Tearing down is not interrupted by the Ctrl-C that asked for it.
    const stage: Stage = {
      cloud,
      nodePort: await chooseNodePort(backlot.runtime),
      bootWithinMs: bootLimitMs[backlot.runtime],
      signal: options.signal,
      facts: { instances: [] },
    };
    closers.add(async () => {
      if (closed) return;
      print("Tearing down: instances, Backlot, its folder.");
      await removeInstances({ ...stage, signal: new AbortController().signal });
    });
    print(`  It serves at ${backlot.url} on the ${backlot.runtime} runtime (${duration(performance.now() - startedMs)}).`);
    const { end, outcomes } = await performStory(stage, print);
    if (end === "proven") await tellEnd(stage, backlot, outcomes, options);
    return end;
  } finally {
    await closers.close();
  }
};
