import { Socket, type SocketConstructorOpts } from "node:net";
import { dialEndpoint, relayFailure } from "../kernel/relay.js";
import { plainAnswer } from "./fast/answer-head.js";
import { lackReason } from "./lack.js";
import type { Check, Outcome, ProbeSpec } from "./probe.js";

export const failure = (error: NodeJS.ErrnoException): string => {
  const code = error.code ?? "";
  if (code === "ECONNREFUSED") return "connection refused";
  if (code === "ECONNRESET" || code === "EPIPE") return "connection closed without an answer";
  if (code === "EHOSTUNREACH" || code === "ENETUNREACH") return "address not reachable";
  if (code === relayFailure) return error.message;
  if (code.startsWith("HPE_")) return "answered with something that is not HTTP";
  return lackReason(code) ?? `connection failed${code === "" ? "" : ` (${code})`}`;
};

export const isGood = (status: number): boolean => status >= 200 && status < 400;

export const AGENT = "backlot-check";
export const hostOf = (spec: ProbeSpec): string => spec.hostHeader ?? `${spec.host}:${spec.port}`;

/** What a request line or a field can hold without a second thought. */
const SENDABLE = /^[!-~]+$/;
const MAX_HEAD = 65_536;
/** Each read is looked at before the next one comes, so all checks share it. */
const readInto = Buffer.allocUnsafeSlow(8_192);
/** Sockets that wait for their next check. */
const idle: CheckSocket[] = [];
/** As many as may be under way at once. */
const MAX_IDLE = 256;

/**
 * A socket that checks one node after the other. A thousand nodes are asked every few seconds, and a socket of each one's own is kilobytes that
 * outlive young garbage; one that was closed may connect again (`socket.connect` says so). Only one that ended well does.
 */
class CheckSocket {
  readonly #socket: Socket;
  readonly #isRelayed: boolean;
  #outcome: Outcome | undefined;
  /** Undefined: whether the node accepts is all that is asked. */
  #request: string | undefined;
  #held = "";
  #endedWell = false;

  /** How to stop the check; made once. */
  readonly stop = (): void => void this.#socket.destroy();

  constructor(relayed: ProbeSpec | undefined) {
    const callback = (size: number): boolean => {
      this.#read(readInto.toString("latin1", 0, size));
      return true;
    };
    const onread = { buffer: readInto, callback };
    this.#isRelayed = relayed !== undefined;
    this.#socket = relayed ? dialEndpoint(relayed, { onread }) : new Socket({ onread } as SocketConstructorOpts); // an option its types lack
    this.#socket.on("connect", () => this.#ask());
    this.#socket.on("error", (error) => this.#fail(failure(error)));
    this.#socket.on("close", () => this.#leave());
  }

  check(spec: ProbeSpec, outcome: Outcome, request: string | undefined): void {
    this.#outcome = outcome;
    this.#request = request;
    this.#held = "";
    this.#endedWell = false;
    if (!this.#isRelayed) this.#socket.connect({ host: spec.host, port: spec.port });
  }

  #ask(): void {
    if (this.#request !== undefined) this.#socket.write(this.#request, "latin1");
    else {
      this.#endedWell = true;
      this.#outcome?.settle({ ok: true, reason: "connected" });
      this.#socket.resume();
      this.#socket.end(this.stop);
    }
  }

  #fail(reason: string): void {
    this.#endedWell = false;
    this.#outcome?.settle({ ok: false, reason });
  }

  #say(ok: boolean, reason: string): void {
    this.#endedWell = this.#socket.writableLength === 0;
    this.#outcome?.settle({ ok, reason });
    this.#socket.destroy();
  }

  /**
   * The status alone. Heads are read as strictly as real answers are: a node that real requests would get 502 for is not up.
   */
  #read(text: string): void {
    if (this.#request === undefined || this.#socket.destroyed) return;
    this.#held += text;
    for (;;) {
      const end = this.#held.indexOf("\r\n\r\n");
      if (end < 0 && this.#held.length < MAX_HEAD && "HTTP/1.".startsWith(this.#held.slice(0, 7))) return;
      const answer = end < 0 ? undefined : plainAnswer(this.#held, end + 2);
      // An interim answer is followed by another one.
      if (answer && answer.status < 200 && answer.status !== 101) this.#held = this.#held.slice(end + 4);
      else {
        if (answer) this.#say(isGood(answer.status), `answered ${answer.status}`);
        else this.#say(false, "answered with something that is not HTTP");
        return;
      }
    }
  }

  #leave(): void {
    const outcome = this.#outcome;
    this.#outcome = undefined;
    outcome?.settle({ ok: false, reason: "connection closed without an answer" });
    outcome?.closed();
    if (this.#endedWell && !this.#isRelayed && idle.length < MAX_IDLE) idle.push(this);
  }
}

const start = (spec: ProbeSpec, outcome: Outcome, request: string | undefined): (() => void) => {
  const socket = spec.via === undefined ? (idle.pop() ?? new CheckSocket(undefined)) : new CheckSocket(spec);
  socket.check(spec, outcome, request);
  return socket.stop;
};

export const checkConnection: Check = (spec, _matcher, outcome) => start(spec, outcome, undefined);

export const checkStatus: Check = (spec, _matcher, outcome) => {
  const target = spec.path || "/";
  const host = hostOf(spec);
  if (!SENDABLE.test(target) || !SENDABLE.test(host)) {
    outcome.settle({ ok: false, reason: "the request cannot be made (its path or host holds what cannot be sent)" });
    outcome.closed();
    return () => undefined;
  }
  const request = `GET ${target} HTTP/1.1\r\nHost: ${host}\r\nUser-Agent: ${AGENT}\r\nAccept-Encoding: identity\r\nConnection: close\r\n\r\n`;
  return start(spec, outcome, request);
};
