import http from "node:http";
import type { Via } from "../kernel/relay.js";
import { AGENT, checkConnection, checkStatus, failure, hostOf, isGood } from "./check-socket.js";
import type { Matcher } from "./matching.js";
import { NodeAgent } from "./node-agent.js";

export interface ProbeSpec {
  kind: "connection" | "http" | "http_body";
  host: string;
  port: number;
  /** Absent: it is dialled itself. */
  via?: Via | undefined;
  /** Request target for `http` and `http_body`, e.g. `/health`. */
  path: string;
  /** Source of a regular expression for `http_body`, matched in the first 16,384 bytes of the body (contract 8.2). */
  body: string;
  /** Real milliseconds for the whole probe. */
  timeoutMs: number;
  /** `Host` field; `host:port` when left out. */
  hostHeader?: string;
}

export interface ProbeResult {
  ok: boolean;
  /** A short sentence for people, also when it went well. */
  reason: string;
  durationMs: number;
}

type Verdict = Omit<ProbeResult, "durationMs">;

const BODY_BYTES = 16_384;

/** A check has a connection of its own. */
const agent = new NodeAgent({ keepAlive: false });

/** What a check tells. */
export interface Outcome {
  settle(verdict: Verdict): void;
  /** Everything came: what follows is our own time, not the node's. */
  heard(): void;
  /** The socket is gone. */
  closed(): void;
}

/** Starts the check; returns how to stop it. */
export type Check = (spec: ProbeSpec, matcher: Matcher, outcome: Outcome) => () => void;

const checkBody: Check = (spec, matcher, outcome) => {
  const headers = { Host: hostOf(spec), "User-Agent": AGENT, "Accept-Encoding": "identity" };
  let request: http.ClientRequest;
  try {
    request = http.request({ host: spec.host, port: spec.port, path: spec.path || "/", headers, via: spec.via, agent });
  } catch (error) {
    outcome.settle({ ok: false, reason: `the request cannot be made (${(error as Error).message})` });
    outcome.closed();
    return () => undefined;
  }
  let judged = false;
  const read = (answer: http.IncomingMessage) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const judge = () => {
      if (judged) return;
      judged = true;
      outcome.heard();
      void matcher.match(spec.body, Buffer.concat(chunks).subarray(0, BODY_BYTES).toString("utf8")).then((verdict) => outcome.settle(verdict));
      request.destroy();
    };
    answer.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= BODY_BYTES) judge();
    });
    answer.on("error", () => judged || outcome.settle({ ok: false, reason: "the answer broke off" }));
    answer.once("end", judge);
  };
  request.on("error", (error) => judged || outcome.settle({ ok: false, reason: failure(error) }));
  request.once("close", () => outcome.closed());
  request.once("upgrade", () => {
    outcome.settle({ ok: false, reason: "answered 101" });
    request.destroy();
  });
  request.once("response", (answer) => {
    const status = answer.statusCode ?? 0;
    if (isGood(status)) return read(answer);
    outcome.settle({ ok: false, reason: `answered ${status}` });
    answer.on("error", () => undefined);
    request.destroy();
  });
  request.end();
  return () => request.destroy();
};

const CHECKS = { connection: checkConnection, http: checkStatus, http_body: checkBody } as const;

/** A check under way. */
export class Probe implements Outcome {
  /** Never rejects: a stopped check is a failed one that says so. Resolves when its socket is closed. */
  readonly result: Promise<ProbeResult>;
  /** Somebody does not want to know any more. */
  stopped = false;
  readonly #startedMs = performance.now();
  #resolve: (result: ProbeResult) => void = () => {};
  #verdict: ProbeResult | undefined;
  #closed = false;
  #timer: NodeJS.Timeout | undefined;
  #end: (() => void) | undefined;

  constructor(spec: ProbeSpec, matcher: Matcher) {
    this.result = new Promise((resolve) => {
      this.#resolve = resolve;
    });
    this.#timer = setTimeout(() => this.#giveUp(`no answer within ${spec.timeoutMs} ms`), spec.timeoutMs);
    this.#end = CHECKS[spec.kind](spec, matcher, this);
  }

  stop(): void {
    this.stopped = true;
    this.#giveUp("the check was stopped");
  }

  #giveUp(reason: string): void {
    this.settle({ ok: false, reason });
    this.#end?.();
  }

  settle({ ok, reason }: Verdict): void {
    this.#verdict ??= { ok, reason, durationMs: Math.round((performance.now() - this.#startedMs) * 10) / 10 };
    if (this.#closed) this.#leave();
  }

  heard(): void {
    clearTimeout(this.#timer);
  }

  closed(): void {
    this.#closed = true;
    this.#end = undefined; // its socket may be another check's by now
    this.#leave();
  }

  #leave(): void {
    if (!this.#verdict) return;
    clearTimeout(this.#timer);
    this.#resolve(this.#verdict);
  }
}

/**
 * Asks a node once (contract 8.5): `connection` = it accepts; `http` = GET answers 2xx or 3xx (never followed); `http_body` = and the body
 * matches.
 */
export const startProbe = (spec: ProbeSpec, matcher: Matcher): Probe => new Probe(spec, matcher);
