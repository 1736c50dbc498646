import { setTimeout as pause } from "node:timers/promises";
import { selfSignedCertificate } from "../kernel/certificate.js";
import { backEnd } from "./page.js";
import { counts, readConfig } from "./preparation.js";
import { expectThat, fact, type Stage, type Step, waitFor } from "./stage.js";
import { type Door, servedFingerprint, visit } from "./visitor.js";

/** What a visitor who never stopped asking has seen. */
interface Traffic {
  served: Map<string, number>;
  total: number;
  failures: string[];
}

/** A breath between two requests, so that the visitor leaves the machine to what it measures. */
const betweenVisitsMs = 5;

/** Sends one request after the other until `over` is aborted. A failed one is noted, never repeated. */
const keepVisiting = async (door: Door, over: AbortSignal, traffic: Traffic): Promise<void> => {
  while (!over.aborted) {
    try {
      const page = await visit(door);
      const label = backEnd(page.body)?.label;
      if (page.status === 200 && label !== undefined) traffic.served.set(label, (traffic.served.get(label) ?? 0) + 1);
      else traffic.failures.push(`${page.status} ${page.body.slice(0, 120)}`);
    } catch (error) {
      traffic.failures.push(String(error));
    }
    traffic.total += 1;
    await pause(betweenVisitsMs);
  }
};

const killWhileVisited = async (stage: Stage, traffic: Traffic): Promise<string> => {
  const victim = fact(stage.facts.instances[0], "instance");
  const survivor = fact(stage.facts.instances[1], "second instance");
  const reached = (count: number, what: string) =>
    waitFor(stage, {
      expected: what,
      withinMs: 10_000,
      ask: async () => traffic.total,
      holds: (total) => total >= count || traffic.failures.length > 0,
      tell: (total) => `${total} requests`,
    });
  await reached(4, "requests before the crash");
  await stage.cloud.post(`/_backlot/instances/${victim.id}/kill`);
  const config = await waitFor(stage, {
    expected: "up 1, down 1",
    withinMs: 10_000,
    ask: () => readConfig(stage),
    holds: ({ nodes_status: { up, down } }) => up === 1 && down === 1,
    tell: counts,
  });
  const before = traffic.served.get(survivor.label) ?? 0;
  await reached(traffic.total + 4, "requests after the crash");
  // A failed request is the news then, and the caller tells it with its answer.
  const servedOn = traffic.failures.length > 0 || (traffic.served.get(survivor.label) ?? 0) > before;
  expectThat(servedOn, `answers of ${survivor.label} after the crash`, "none");
  return counts(config);
};

export const crash: readonly Step[] = [
  {
    title: "one instance killed while requests go on",
    run: async (stage) => {
      const over = new AbortController();
      const traffic: Traffic = { served: new Map(), total: 0, failures: [] };
      const visiting = keepVisiting(fact(stage.facts.tlsDoor, "TLS listener"), over.signal, traffic);
      let seen: string;
      try {
        seen = await killWhileVisited(stage, traffic);
      } finally {
        over.abort();
        await visiting;
      }
      const { failures, total } = traffic;
      expectThat(failures.length === 0, `${total} of ${total} requests answered`, `${failures.length} failed, the first with: ${failures[0]}`);
      return `${seen}; ${total} requests, 0 failed`;
    },
  },
  {
    title: "a certificate with a blank subject is refused",
    run: async (stage) => {
      const door = fact(stage.facts.tlsDoor, "TLS listener");
      const blank = await selfSignedCertificate({
        commonName: door.hostname,
        country: null,
        altNames: [door.hostname],
        days: 30,
        blankSubject: true,
      });
      const path = `/v4/balancers/${fact(stage.facts.balancer, "balancer").id}/configs/${fact(stage.facts.configId, "config")}`;
      const answer = await stage.cloud.ask("PUT", path, { ssl_cert: blank.cert, ssl_key: blank.key });
      const errors = (answer.body as { errors?: Array<{ reason: string; field?: string }> }).errors ?? [];
      const refusal = errors.find(({ field }) => field === "ssl_cert");
      expectThat(
        answer.status === 400 && refusal !== undefined,
        "400 with a problem on ssl_cert",
        `${answer.status} ${JSON.stringify(answer.body).slice(0, 300)}`,
      );
      const fingerprint = await servedFingerprint(door);
      const { fingerprint: ours } = fact(stage.facts.certificate, "certificate");
      expectThat(fingerprint === ours, `the old certificate ${ours} still served`, fingerprint);
      const { status } = await visit(door);
      expectThat(status === 200, "200 over the old certificate", `${status}`);
      return `400 "${refusal?.reason}"; the old one is still served`;
    },
  },
];
