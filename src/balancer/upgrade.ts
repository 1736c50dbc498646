import http from "node:http";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { codeOf } from "../kernel/remedy.js";
import { relayAnswer } from "./answer-relay.js";
import { type Attempt, connectReason } from "./attempt.js";
import { isPlainlyFramed, type RequestHead, upgradeHead } from "./headers.js";
import { joinStreams, sideOf } from "./tunnel.js";

/** Node lets go of a connection that asks for an upgrade; this gives it a response again, so that a refusal is framed like any other answer. */
export const detachedAnswer = (req: http.IncomingMessage, socket: Duplex): http.ServerResponse => {
  const res = new http.ServerResponse(req);
  res.shouldKeepAlive = false;
  res.assignSocket(socket as Parameters<http.ServerResponse["assignSocket"]>[0]);
  socket.on("drain", () => res.emit("drain"));
  socket.once("close", () => res.destroy());
  res.once("finish", () => {
    res.detachSocket(socket as Parameters<http.ServerResponse["detachSocket"]>[0]);
    socket.resume();
    socket.end(() => socket.destroy());
  });
  return res;
};

type Outgoing = (head: RequestHead, attempt: Attempt, agent: http.Agent, upgrade?: string) => http.RequestOptions;

/** The `ws` pass: asks a node for the upgrade, then joins both connections, or passes its refusal on. */
export const upgradePass =
  (outgoing: Outgoing) =>
  (req: http.IncomingMessage, socket: Duplex, options: { attempt: Attempt; answer: http.ServerResponse }, early: Buffer | undefined): true => {
    const { attempt, answer: res } = options;
    const head: RequestHead = { method: req.method ?? "GET", target: req.url ?? "/", raw: req.rawHeaders };
    const upstream = http.request(outgoing(head, attempt, attempt.agents.fresh, req.headers.upgrade));
    upstream.maxHeadersCount = 0;
    let reached = false;
    let settled = false;
    let answered = false;
    let timer = setTimeout(() => upstream.destroy(Object.assign(new Error("no connection"), { code: "NO_CONNECT" })), attempt.limits.connectMs);
    const settle: Attempt["settle"] = (outcome) => {
      if (settled) return;
      settled = true;
      clearTimeout(timer);
      socket.removeListener("close", clientLeft);
      attempt.settle(outcome);
    };
    const clientLeft = () => {
      settle({ kind: "gone" });
      upstream.destroy();
    };
    const fail = (error: unknown) => {
      if (answered) return;
      const code = codeOf(error);
      if (!reached) settle({ kind: "unreached", reason: connectReason(code === "NO_CONNECT" ? undefined : code) });
      else if (code === "NO_ANSWER") {
        settle({ kind: "broken", status: 504, token: "node-timed-out", reason: `did not answer within ${attempt.limits.answerMs} ms` });
      } else if (code?.startsWith("HPE_")) {
        settle({ kind: "broken", status: 502, token: "node-malformed", reason: `answered with something that is not HTTP (${code})` });
      } else settle({ kind: "broken", status: 502, token: "node-broke-off", reason: "closed the connection without an answer" });
    };
    socket.once("close", clientLeft);
    upstream.once("socket", (peer) =>
      peer.once("connect", () => {
        attempt.meter.requests++;
        reached = true;
        clearTimeout(timer);
        timer = setTimeout(() => upstream.destroy(Object.assign(new Error("no answer"), { code: "NO_ANSWER" })), attempt.limits.answerMs);
      }),
    );
    upstream.on("error", fail);
    upstream.once("upgrade", (answer, peer, peerHead) => {
      if (settled) {
        peer.destroy();
        return;
      }
      answered = true;
      clearTimeout(timer);
      attempt.answered(101);
      res.detachSocket(socket as Parameters<http.ServerResponse["detachSocket"]>[0]);
      socket.write(upgradeHead(answer.statusMessage ?? "", answer.rawHeaders, attempt.setCookie), "latin1");
      if (peerHead.length > 0) socket.write(peerHead);
      if (early && early.length > 0) peer.write(early);
      joinStreams(sideOf(socket), sideOf(peer), attempt.limits.halfTunnelMs, () => {
        attempt.meter.bytesIn += (peer as Socket).bytesWritten;
        attempt.meter.bytesOut += (peer as Socket).bytesRead;
        settle({ kind: "done" });
      });
    });
    upstream.once("response", (answer) => {
      if (settled) return answer.destroy();
      if (!isPlainlyFramed(answer.rawHeaders, answer.httpVersion)) {
        fail(Object.assign(new Error("unclear framing"), { code: "HPE_UNCLEAR_FRAMING" }));
        return upstream.destroy();
      }
      answered = true;
      clearTimeout(timer);
      try {
        relayAnswer(req, res, answer, attempt.setCookie, attempt.limits.readMs, (cut) =>
          settle(cut === undefined ? { kind: "done" } : { kind: "cut", reason: cut }),
        );
        attempt.answered(answer.statusCode ?? 0);
      } catch {
        answered = false;
        fail(Object.assign(new Error("unwritable head"), { code: "HPE_UNWRITABLE" }));
        upstream.destroy();
      }
    });
    upstream.once("close", () => fail(undefined));
    upstream.end();
    return true;
  };
