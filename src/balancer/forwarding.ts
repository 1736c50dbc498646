import http from "node:http";
import type { Socket } from "node:net";
import httpProxy from "http-proxy";
import { codeOf } from "../kernel/remedy.js";
import { relayAnswer } from "./answer-relay.js";
import { type Attempt, connectReason } from "./attempt.js";
import { hasBody, isPlainlyFramed, isReplayable, type RequestHead, requestHeaders } from "./headers.js";
import { upgradePass } from "./upgrade.js";

/** Options as our passes receive them: http-proxy copies what `web` and `ws` are given. */
interface ForwardOptions {
  target: { host: string; port: number };
  attempt: Attempt;
}

const CONTINUE_AFTER_MS = 1_000;

/** What `http.request` needs to say exactly what the client said to one node. */
const outgoing = (head: RequestHead, attempt: Attempt, agent: http.Agent, upgrade?: string): http.RequestOptions => ({
  host: attempt.node.endpoint.host,
  port: attempt.node.endpoint.port,
  via: attempt.node.endpoint.via,
  method: head.method,
  // The raw target: `//`, `*` and absolute URLs arrive as the client wrote them.
  path: head.target,
  headers: requestHeaders(head, attempt.arrival, upgrade),
  agent,
  maxHeaderSize: 65_536,
});

/** 102 and 103 reach clients that can read them; an early hint without a well-formed `Link` is dropped. */
const passInformation = (res: http.ServerResponse, info: http.InformationEvent): void => {
  if (res.headersSent || info.httpVersionMajor !== 1 || res.req.httpVersion !== "1.1") return;
  if (info.statusCode === 102) res.writeProcessing();
  if (info.statusCode === 103 && info.headers.link !== undefined) {
    try {
      res.writeEarlyHints(info.headers as Record<string, string | string[]>);
    } catch {
      // Node checks the syntax of Link; a hint may be lost, the answer may not.
    }
  }
};

/**
 * Watches a request to a node until it is answered: a bound on connecting, and a bound on silence that starts when the request is complete.
 */
const watchDeadlines = (req: http.IncomingMessage, upstream: http.ClientRequest, attempt: Attempt, body: boolean, connected: () => void) => {
  let timer: NodeJS.Timeout | undefined;
  const arm = (ms: number, code: string, text: string) => {
    clearTimeout(timer);
    timer = setTimeout(() => upstream.destroy(Object.assign(new Error(text), { code })), ms);
  };
  const complete = () => {
    if (!upstream.destroyed) arm(attempt.limits.answerMs, "NO_ANSWER", "no answer");
  };
  upstream.once("socket", (socket) => {
    const ready = () => {
      clearTimeout(timer);
      connected();
      if (!body || req.complete) complete();
      else req.once("end", complete);
    };
    if (!socket.connecting) return ready();
    arm(attempt.limits.connectMs, "NO_CONNECT", "no connection");
    socket.once("connect", ready);
  });
  return {
    stop: () => {
      clearTimeout(timer);
      req.removeListener("end", complete);
    },
  };
};

/** Sends the request on one connection, settles the attempt, or (a kept connection that was dead already) sends it again on a fresh one. */
const send = (req: http.IncomingMessage, res: http.ServerResponse, attempt: Attempt, fresh: boolean): void => {
  const head: RequestHead = { method: req.method ?? "GET", target: req.url ?? "/", raw: req.rawHeaders };
  const replayable = isReplayable(head);
  const body = hasBody(head.raw);
  let state: "connecting" | "sent" | "answered" | "settled" = "connecting";

  // What must not be sent twice never rides on a connection that may be dead: no stale 502 for a POST, and no second POST.
  const upstream = http.request(outgoing(head, attempt, replayable && !fresh ? attempt.agents.kept : attempt.agents.fresh));
  upstream.maxHeadersCount = 0;
  const deadlines = watchDeadlines(req, upstream, attempt, body, () => {
    state = "sent";
    if (!fresh) attempt.meter.requests++;
    if (body) req.pipe(upstream);
  });
  const clientLeft = () => {
    if (state === "settled") return;
    finish();
    upstream.destroy();
    attempt.settle({ kind: "gone" });
  };
  let peer: Socket | undefined;
  let [sentBefore, readBefore] = [0, 0];
  upstream.once("socket", (socket) => {
    peer = socket;
    [sentBefore, readBefore] = [socket.bytesWritten, socket.bytesRead];
  });
  const finish = () => {
    state = "settled";
    attempt.meter.bytesIn += (peer?.bytesWritten ?? 0) - sentBefore;
    attempt.meter.bytesOut += (peer?.bytesRead ?? 0) - readBefore;
    deadlines.stop();
    res.removeListener("close", clientLeft);
  };
  /** The node may have answered without reading the whole body: what is left is read and dropped, so that the client can go on. */
  const letGo = () => {
    const drop = () => {
      req.unpipe(upstream);
      req.resume();
    };
    if (upstream.destroyed) drop();
    else upstream.once("close", drop);
  };
  const fail = (error: unknown) => {
    if (state === "settled" || state === "answered") return;
    const code = codeOf(error);
    const reached = state === "sent";
    const silent = code === "ECONNRESET" || code === "EPIPE";
    finish();
    req.unpipe(upstream);
    if (reached && upstream.reusedSocket && replayable && !fresh && silent) send(req, res, attempt, true);
    else if (code === "NO_CONNECT")
      attempt.settle({ kind: "unreached", reason: `did not accept a connection within ${attempt.limits.connectMs} ms` });
    else if (!reached) attempt.settle({ kind: "unreached", reason: connectReason(code) });
    else if (code === "NO_ANSWER") {
      const reason = `did not answer within ${attempt.limits.answerMs} ms`;
      attempt.settle({ kind: "broken", status: 504, token: "node-timed-out", reason });
    } else if (code?.startsWith("HPE_")) {
      attempt.settle({ kind: "broken", status: 502, token: "node-malformed", reason: `answered with something that is not HTTP (${code})` });
    } else {
      const reason = "closed the connection without an answer";
      const untouched = silent && peer?.bytesRead === readBefore;
      attempt.settle({ kind: "broken", status: 502, token: "node-broke-off", reason, replayable: replayable && untouched });
    }
  };

  res.once("close", clientLeft);
  upstream.on("error", fail);
  upstream.once("close", () => fail(undefined));
  upstream.on("information", (info) => passInformation(res, info));
  upstream.once("upgrade", (_answer, socket) => {
    socket.destroy();
    fail(Object.assign(new Error("switched protocols unasked"), { code: "HPE_UNASKED_UPGRADE" }));
  });
  upstream.once("response", (answer) => {
    if (state !== "sent") return answer.destroy();
    if (!isPlainlyFramed(answer.rawHeaders, answer.httpVersion)) {
      fail(Object.assign(new Error("unclear framing"), { code: "HPE_UNCLEAR_FRAMING" }));
      return upstream.destroy();
    }
    state = "answered";
    deadlines.stop();
    try {
      relayAnswer(req, res, answer, attempt.setCookie, attempt.limits.readMs, (cut) => {
        if (state === "settled") return;
        finish();
        if (body && !req.complete) letGo();
        attempt.settle(cut === undefined ? { kind: "done" } : { kind: "cut", reason: cut });
      });
      attempt.answered(answer.statusCode ?? 0);
    } catch {
      state = "sent";
      fail(Object.assign(new Error("unwritable head"), { code: "HPE_UNWRITABLE" }));
      upstream.destroy();
    }
  });
  if (!body) upstream.end();
  else if (req.headers.expect !== undefined) awaitContinue(req, res, upstream);
};

/**
 * `Expect: 100-continue` goes to the node, and its 100 back to the client. A node that says nothing does not stop the client for ever
 * (RFC 9110 section 10.1.1).
 */
const awaitContinue = (req: http.IncomingMessage, res: http.ServerResponse, upstream: http.ClientRequest): void => {
  let said = false;
  const say = () => {
    if (!said && !res.headersSent && !res.destroyed && !req.complete) res.writeContinue();
    said = true;
  };
  const timer = setTimeout(say, CONTINUE_AFTER_MS);
  upstream.once("continue", say);
  upstream.once("response", () => clearTimeout(timer));
  upstream.once("close", () => clearTimeout(timer));
  upstream.flushHeaders();
};

/**
 * http-proxy 1.18.1, repaired from outside (DESIGN section 6). A pass that answers `true` ends the row, so ours stand first and none of the
 * library's own runs: not `deleteLength` (smuggling, CVE-2026-29057), not `stream` (hangs, stale 502, folded paths, dead back ends).
 */
export const createForwarder = (): httpProxy => {
  const proxy = httpProxy.createProxyServer({});
  const extensible = proxy as httpProxy & { before(type: "web" | "ws", pass: string, ours: (...args: never[]) => true): void };
  extensible.before("web", "deleteLength", (req: http.IncomingMessage, res: http.ServerResponse, options: ForwardOptions) => {
    send(req, res, options.attempt, false);
    return true;
  });
  extensible.before("ws", "checkMethodAndHeader", upgradePass(outgoing));
  return proxy;
};
