import { X509Certificate } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as pause } from "node:timers/promises";
import { selfSignedCertificate } from "#backlot/kernel/certificate.js";
import { commandLineGround, type Json } from "../support/cloud.js";
import { until } from "../support/until.js";
import { everything, openLedger } from "./ledger.js";
import { launch, type OwnProcess } from "./own-process.js";
import { chanceOf } from "./seed.js";
import { listenerProblems, type Rows, type World } from "./world.js";
import { type Pair, write } from "./writers.js";

interface CrashLoopOptions {
  runtime: "process" | "docker";
  cycles: number;
  seed: number;
  openWorld(state: string): World;
  /** Clients that write at once. */
  writers: number;
  /** Instances each of them may have. */
  mostInstances: number;
  /** The latest moment of a kill, in ms after the writers began. */
  latestMs: number;
  /** How long all may take to be as the rows say after a restart, in ms. */
  withinMs: number;
}

export interface CrashFigures {
  cycles: number;
  /** Writes that were answered with 200. */
  acknowledged: number;
  /** Of the cycles, those in which it was killed while it started. */
  duringStart: number;
  /** From the answer to the first request after a restart until everything was as its row says; ms, the median and the worst. */
  settledMs: { median: number; worst: number };
}

const pairOf = async (commonName: string): Promise<Pair> => {
  const { cert, key } = await selfSignedCertificate({ commonName, country: "DE", altNames: [commonName], days: 30 });
  return { cert, key, fingerprint: new X509Certificate(cert).fingerprint };
};

/**
 * Starts a Backlot on a state, lets clients write, kills it with SIGKILL at a moment the seed chooses (while it starts, on an
 * acknowledgement, or amid the writes), starts it again and compares: what was acknowledged with what the API shows, and the rows with what the
 * machine really has. Throws at the first difference that does not go.
 */
export const crashLoop = async (options: CrashLoopOptions): Promise<CrashFigures> => {
  const { runtime, cycles, seed } = options;
  const chance = chanceOf(seed);
  const state = join(mkdtempSync(join(tmpdir(), "backlot-crash-")), "state");
  const { privatePool, balancerAddresses } = await commandLineGround();
  const prefix = balancerAddresses.replace(/\d+\/\d+$/, "");
  const words = ["--state", state, "--runtime", runtime, "--private-pool", privatePool, "--balancer-addresses", balancerAddresses];
  words.push("--dns-port", "off", "--speed", "50");
  const pairs = await Promise.all(["one.test", "two.test", "three.test"].map(pairOf));
  const ledger = openLedger();
  const world = options.openWorld(state);
  const settled: number[] = [];
  /** The run of each machine that ran when all was settled last. */
  let runs = new Map<string, string | undefined>();
  let duringStart = 0;
  let backlot: OwnProcess | undefined;
  let owner: string | undefined;

  const check = async ({ api, pid, url }: OwnProcess): Promise<true> => {
    const found = await everything(api);
    const rows: Rows = {
      balancers: found.get("balancer") ?? [],
      configs: found.get("config") ?? [],
      instances: found.get("instance") ?? [],
      volumes: found.get("volume") ?? [],
    };
    owner ??= (await api.get("/_backlot/health")).body.owner as string;
    const whose = owner;
    const now = new Map<string, string | undefined>();
    for (const { id, label, status } of rows.instances) if (status === "running") now.set(label, await world.machineOf(whose, id));
    const restarted = [...runs].filter(([label, run]) => !ledger.isTouched("instance", label) && now.get(label) !== run);
    const problems = [
      ...restarted.map(([label]) => `instance ${label} was not asked for anything, and was started anew`),
      ...(await listenerProblems(pid, url, prefix, rows)),
      ...(await world.problems(whose, rows)),
      ...ledger.differences(found),
    ];
    if (problems.length > 0) throw new Error(problems.join("\n"));
    ledger.settle(found);
    runs = now;
    return true;
  };

  /** The newest events that failed, for people. */
  const failures = async ({ api }: OwnProcess): Promise<string> => {
    const { body } = await api.get("/v4/account/events?page_size=100", { "X-Filter": JSON.stringify({ status: "failed" }) });
    return body.data
      .slice(0, 10)
      .map((event: Json) => `\n${event.created} ${event.action} ${event.entity?.label}: ${event.message}`)
      .join("");
  };

  /** Everything deleted by its owner leaves nothing. */
  const removeAll = async (current: OwnProcess): Promise<void> => {
    const { api } = current;
    const found = await everything(api);
    for (const { id } of found.get("balancer") ?? []) await api.del(`/v4/balancers/${id}`);
    for (const { id } of found.get("instance") ?? []) await api.del(`/v4/cloud/instances/${id}`);
    await until(async () => (await api.get("/v4/cloud/instances")).body.results === 0, { withinMs: options.withinMs, what: "no instance" });
    for (const { id } of found.get("volume") ?? []) await api.del(`/v4/volumes/${id}`);
    await until(async () => (await api.get("/v4/volumes")).body.results === 0, { withinMs: options.withinMs, what: "no volume" });
    const nothing: Rows = { balancers: [], configs: [], instances: [], volumes: [] };
    const whose = owner ?? "";
    const left = async () => [...(await listenerProblems(current.pid, current.url, prefix, nothing)), ...(await world.problems(whose, nothing))];
    await until(
      async () => {
        const problems = await left();
        if (problems.length > 0) throw new Error(problems.join("\n"));
        return true;
      },
      { withinMs: options.withinMs, what: "nothing left behind" },
    );
  };

  try {
    for (let cycle = 0; cycle <= cycles; cycle += 1) {
      const started = launch(words);
      if (cycle > 0 && cycle < cycles && chance.below(8) === 0) {
        duringStart += 1;
        await pause(chance.below(700));
        await started.kill();
        continue;
      }
      backlot = await started.serving;
      if (!backlot) throw new Error(`cycle ${cycle} of seed ${seed}: it did not start: ${started.said()}`);
      const current = backlot;
      const beganMs = performance.now();
      const what = `cycle ${cycle} of seed ${seed}: everything as acknowledged`;
      await until(() => check(current), { withinMs: options.withinMs, what }).catch(async (error) => {
        throw new Error(`${error.message}\nwhat failed lately: ${await failures(current)}`, { cause: error });
      });
      settled.push(performance.now() - beganMs);
      if (cycle === cycles) break;

      const stop = new AbortController();
      const onAcknowledgement = chance.below(2) === 0 ? 1 + chance.below(12) : Number.POSITIVE_INFINITY;
      let acknowledged = 0;
      let die = (): void => {};
      const dying = new Promise<void>((resolve) => {
        die = resolve;
      });
      const timer = setTimeout(die, 20 + chance.below(options.latestMs));
      const clients = Array.from({ length: options.writers }, (_, index) =>
        write(`w${index}`, {
          api: current.api,
          ledger,
          chance,
          pairs,
          run: String(cycle),
          mostInstances: options.mostInstances,
          signal: stop.signal,
          onAcknowledged: () => {
            acknowledged += 1;
            if (acknowledged === onAcknowledgement) die();
          },
        }),
      );
      const ends = Promise.allSettled(clients);
      await Promise.race([dying, ends]);
      clearTimeout(timer);
      const killed = current.kill();
      stop.abort();
      await killed;
      for (const end of await ends)
        if (end.status === "rejected" && /nobody expected/.test(String(end.reason))) throw new Error(`cycle ${cycle} of seed ${seed}: ${end.reason}`);
    }
    if (backlot) await removeAll(backlot);
    const inOrder = settled.toSorted((a, b) => a - b);
    return {
      cycles,
      acknowledged: ledger.count(),
      duringStart,
      settledMs: { median: Math.round(inOrder[inOrder.length >> 1] ?? 0), worst: Math.round(inOrder.at(-1) ?? 0) },
    };
  } finally {
    await backlot?.kill();
    if (owner !== undefined) await world.close(owner);
    rmSync(join(state, ".."), { recursive: true, force: true });
  }
};
