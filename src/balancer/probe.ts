import http from "node:http";
import { dialEndpoint, relayFailure, type Via } from "../kernel/relay.js";
import { plainAnswer } from "./fast/answer-head.js";
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

const AGENT = "backlot-check";
const hostOf = (spec: ProbeSpec): string => spec.hostHeader ?? `${spec.host}:${spec.port}`;

/** What a request line or a field can hold without a second thought. */
const SENDABLE = /^[!-~]+$/;
const MAX_HEAD = 65_536;
/** Each read is looked at before the next one comes, so all status checks share it. */
const readInto = Buffer.allocUnsafeSlow(8_192);

/**
 * The status alone, on a bare socket, since a thousand nodes are asked every few seconds. Heads are read as strictly as real answers are: a node
 * that real requests would get 502 for is not up.
 */
const checkStatus: Check = (spec, _matcher, { settle, closed }) => {
  const target = spec.path || "/";
  const host = hostOf(spec);
  if (!SENDABLE.test(target) || !SENDABLE.test(host)) {
    settle({ ok: false, reason: "the request cannot be made (its path or host holds what cannot be sent)" });
    closed();
    return () => undefined;
  }
  const onread = {
    buffer: readInto,
    callback: (size: number) => {
      read(readInto.toString("latin1", 0, size));
      return true;
    },
  };
  const socket = dialEndpoint(spec, { onread });
  const say = (ok: boolean, reason: string) => {
    settle({ ok, reason });
    socket.destroy();
  };
  let held = "";
  const read = (text: string) => {
    if (socket.destroyed) return;
    held += text;
    for (;;) {
      const end = held.indexOf("\r\n\r\n");
      if (end < 0 && held.length < MAX_HEAD && "HTTP/1.".startsWith(held.slice(0, 7))) return;
      const answer = end < 0 ? undefined : plainAnswer(held, end + 2);
      if (!answer) return say(false, "answered with something that is not HTTP");
      if (answer.status >= 200 || answer.status === 101) return say(isGood(answer.status), `answered ${answer.status}`);
      held = held.slice(end + 4); // an interim answer
    }
  };
  socket.on("error", (error) => settle(failure(error)));
  socket.once("close", () => {
    settle({ ok: false, reason: "connection closed without an answer" });
    closed();
  });
  socket.write(`GET ${target} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: ${AGENT}\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n`, "latin1");
  return () => socket.destroy();
};

const checkBody: Check = (spec, matcher, { settle, heard, closed }) => {
  const headers = { Host: hostOf(spec), "User-Agent": AGENT, "Accept-Encoding": "identity" };
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
    if (isGood(status)) return read(answer);
    settle({ ok: false, reason: `answered ${status}` });
    answer.on("error", () => undefined);
    request.destroy();
  });
  request.end();
  return () => request.destroy();
};

const CHECKS = { connection: checkConnection, http: checkStatus, http_body: checkBody } as const;

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
    const stop = result ? () => undefined : CHECKS[spec.kind](spec, matcher, { settle, heard: () => clearTimeout(timer), closed: leave });
    if (result && signal?.aborted) leave();
  });
