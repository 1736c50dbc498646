import http from "node:http";
import { dialEndpoint, relayFailure, type Via } from "../kernel/relay.js";
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
const failure = (error: NodeJS.ErrnoException): Verdict => {
  const code = error.code ?? "";
  if (code === "ECONNREFUSED") return { ok: false, reason: "connection refused" };
  if (code === "ECONNRESET" || code === "EPIPE") return { ok: false, reason: "connection closed without an answer" };
  if (code === "EHOSTUNREACH" || code === "ENETUNREACH") return { ok: false, reason: "address not reachable" };
  if (code === relayFailure) return { ok: false, reason: error.message };
  if (code.startsWith("HPE_")) return { ok: false, reason: "answered with something that is not HTTP" };
  return { ok: false, reason: `connection failed${code === "" ? "" : ` (${code})`}` };
};

/** A check has a connection of its own. */
const agent = new NodeAgent({ keepAlive: false });

const isGood = (status: number): boolean => status >= 200 && status < 400;

interface Outcome {
  settle(verdict: Verdict): void;
  /** Everything came: what follows is our own time, not the node's. */
  heard(): void;
  /** The socket is gone. */
  closed(): void;
}

/** Starts the check; returns how to stop it. */
type Check = (spec: ProbeSpec, matcher: Matcher, outcome: Outcome) => () => void;

const checkConnection: Check = (spec, _matcher, { settle, closed }) => {
  const socket = dialEndpoint(spec);
  socket.on("error", (error) => settle(failure(error)));
  socket.once("close", closed);
  socket.once("connect", () => {
    settle({ ok: true, reason: "connected" });
    socket.resume();
    socket.end(() => socket.destroy());
  });
  return () => socket.destroy();
};

const checkHttp: Check = (spec, matcher, { settle, heard, closed }) => {
  const host = spec.hostHeader ?? `${spec.host}:${spec.port}`;
  const headers = { Host: host, "User-Agent": "backlot-check", "Accept-Encoding": "identity" };
  let request: http.ClientRequest;
  try {
    request = http.request({ host: spec.host, port: spec.port, path: spec.path || "/", headers, via: spec.via, agent });
  } catch (error) {
    settle({ ok: false, reason: `the request cannot be made (${(error as Error).message})` });
    closed();
    return () => undefined;
  }
  let judged = false;
  const read = (answer: http.IncomingMessage) => {
    const chunks: Buffer[] = [];
    let size = 0;
    const judge = () => {
      if (judged) return;
      judged = true;
      heard();
      void matcher.match(spec.body, Buffer.concat(chunks).subarray(0, BODY_BYTES).toString("utf8")).then(settle);
      request.destroy();
    };
    answer.on("data", (chunk: Buffer) => {
      chunks.push(chunk);
      size += chunk.length;
      if (size >= BODY_BYTES) judge();
    });
    answer.on("error", () => judged || settle({ ok: false, reason: "the answer broke off" }));
    answer.once("end", judge);
  };
  request.on("error", (error) => judged || settle(failure(error)));
  request.once("close", closed);
  request.once("upgrade", () => {
    settle({ ok: false, reason: "answered 101" });
    request.destroy();
  });
  request.once("response", (answer) => {
    const status = answer.statusCode ?? 0;
    if (isGood(status) && spec.kind === "http_body") return read(answer);
    settle({ ok: isGood(status), reason: `answered ${status}` });
    answer.on("error", () => undefined);
    request.destroy();
  });
  request.end();
  return () => request.destroy();
};

/**
 * Asks a node once (contract 8.5): `connection` = it accepts; `http` = GET answers 2xx or 3xx (never followed); `http_body` = and the body
 * matches. Never rejects: an aborted probe is a failed one that says so. Resolves when its socket is closed.
 */
export const probe = (spec: ProbeSpec, matcher: Matcher, signal?: AbortSignal): Promise<ProbeResult> =>
  new Promise((resolve) => {
    const startedMs = performance.now();
    let result: ProbeResult | undefined;
    let closed = false;
    const settle = (verdict: Verdict) => {
      result ??= { ...verdict, durationMs: Math.round((performance.now() - startedMs) * 10) / 10 };
      if (closed) leave();
    };
    const leave = () => {
      closed = true;
      if (!result) return;
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
      resolve(result);
    };
    const giveUp = (reason: string) => {
      settle({ ok: false, reason });
      stop();
    };
    const onAbort = () => giveUp("the check was stopped");
    const timer = setTimeout(() => giveUp(`no answer within ${spec.timeoutMs} ms`), spec.timeoutMs);
    if (signal?.aborted) settle({ ok: false, reason: "the check was stopped" });
    signal?.addEventListener("abort", onAbort, { once: true });
    const stop = result
      ? () => undefined
      : (spec.kind === "connection" ? checkConnection : checkHttp)(spec, matcher, { settle, heard: () => clearTimeout(timer), closed: leave });
    if (result && signal?.aborted) leave();
  });
