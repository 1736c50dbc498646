import { noNodeLeft } from "../answer.js";
import { connectReason, isIll } from "../attempt.js";
import type { Refusal } from "../headers.js";
import { HIGH_WATER_BYTES } from "../limits.js";
import type { Meter } from "../meter.js";
import type { NodeSpec } from "../plane.js";
import { AnswerReader, type AnswerSink } from "./answer-reader.js";
import type { Lane } from "./lane.js";
import type { Exchange, NodeConnection } from "./node-connection.js";
import type { Patience } from "./patience.js";
import { isIdempotent, type PlainRequest } from "./request-head.js";

const NONE: ReadonlySet<number> = new Set();

/** The client's side of a session, as its upstream sees it. */
export interface Downstream extends AnswerSink {
  /** The client was told something about this request. */
  readonly answerBegun: boolean;
  /** Nothing of the request's body is missing. */
  readonly bodyDone: boolean;
  /** No more of the body is to be read until `sendBody`. */
  holdBody(): void;
  /** The head is on its way: what has come of the body follows, and whoever has to speak next is waited for. */
  sendBody(): void;
  /** The node takes more again. */
  onUpstreamDrain(): void;
  refuse(refusal: Refusal): void;
  /** The answer that has begun cannot be finished: the missing end of its framing is to say so. */
  cut(): void;
}

interface UpstreamOptions {
  lane: Lane;
  client: Downstream;
  /** The client's address. */
  address: string;
  /** The end of every head a node is sent: the fields a balancer adds, from the value of `X-Forwarded-For` on. */
  forwardedTail: string;
  patience: Patience;
}

/** The nodes' side of a session: which node has the request that is under way, and what happens when that one fails. */
export class Upstream implements Exchange {
  readonly #lane: Lane;
  readonly #client: Downstream;
  readonly #address: string;
  readonly #forwardedTail: string;
  readonly #patience: Patience;
  readonly #answer: AnswerReader;
  /** When the head of the latest request had come; 0: there was none. */
  startedMs = 0;
  /** To be added to the answer. */
  setCookie: string | undefined;
  #request: PlainRequest | undefined;
  #tried: ReadonlySet<number> = NONE;
  #reasons: string[] = [];
  /** A node broke off without an answer, and another one was asked. */
  #replayed = false;
  #node: NodeSpec | undefined;
  #meter: Meter | undefined;
  #connection: NodeConnection | undefined;
  #sent = false;
  /** The node waits until the client has read what is there for it. */
  paused = false;

  constructor({ lane, client, address, forwardedTail, patience }: UpstreamOptions) {
    this.#lane = lane;
    this.#client = client;
    this.#address = address;
    this.#forwardedTail = forwardedTail;
    this.#patience = patience;
    this.#answer = new AnswerReader(client);
  }

  begin(request: PlainRequest) {
    this.#request = request;
    this.startedMs = performance.now();
    this.#tried = NONE;
    this.#reasons = [];
    this.#replayed = false;
    this.#attempt();
  }

  /** The request was written to a node that has not been given up. */
  get sent(): boolean {
    return this.#sent && this.#connection !== undefined;
  }

  #attempt() {
    const request = this.#request as PlainRequest;
    const { roster, pool } = this.#lane;
    const choice = roster.choose({ address: this.#address, cookie: request.cookie }, this.#tried, this.startedMs);
    if (!choice) return this.#client.refuse(noNodeLeft(this.#reasons, this.#replayed));
    this.#node = choice.node;
    this.setCookie = choice.setCookie;
    this.#meter = roster.enter(choice.node.id);
    // What must not be sent twice never rides on a connection that may be dead: no stale 502 for a POST, and no second POST.
    const kept = this.#client.bodyDone && isIdempotent(request.method) ? pool.take(choice.node.endpoint) : undefined;
    if (kept) this.#send(kept);
    else this.#connect();
  }

  #connect() {
    const connection = this.#lane.pool.open((this.#node as NodeSpec).endpoint);
    connection.exchange = this;
    this.#connection = connection;
    this.#sent = false;
    this.#patience.wait("connect", this.#lane.limits.connectMs);
    // Until it is open, no body is read: another node may have to be asked.
    if (!this.#client.bodyDone) this.#client.holdBody();
  }

  onConnect() {
    this.#send(this.#connection as NodeConnection);
  }

  #send(connection: NodeConnection) {
    const request = this.#request as PlainRequest;
    const meter = this.#meter as Meter;
    connection.exchange = this;
    this.#connection = connection;
    this.#sent = true;
    this.#answer.begin(request.method === "HEAD");
    const before = request.forwardedFor === undefined ? "X-Forwarded-For: " : `X-Forwarded-For: ${request.forwardedFor}, `;
    const head = `${request.kept}${before}${this.#forwardedTail}\r\n`;
    meter.requests++;
    meter.bytesIn += head.length;
    const { socket } = connection;
    const alone = this.#client.bodyDone;
    if (!alone) socket.cork();
    socket.write(head, "latin1");
    this.#client.sendBody();
    if (!alone) socket.uncork();
  }

  /** Sends body bytes. False: the node is to take these before it gets more. */
  write(piece: Buffer): boolean {
    const socket = this.#connection?.socket;
    if (!socket || !this.#meter) return true; // answered before it was read: dropped
    this.#meter.bytesIn += piece.length;
    socket.write(piece);
    return socket.writableLength <= HIGH_WATER_BYTES;
  }

  onNodeDrain() {
    if (this.#sent) this.#client.onUpstreamDrain();
  }

  onNodeGone(code: string | undefined, clean: boolean) {
    const connection = this.#connection;
    this.#connection = undefined;
    if (!connection || !this.#request) return;
    if (!this.#sent) return this.unreached(connectReason(code));
    if (clean && this.#answer.ended()) return;
    if (this.#client.answerBegun) return this.#cut();
    if (connection.used && this.#answer.untouched) {
      // It was idle for too long and nobody has read this request, or it may be asked twice: `#attempt` took care of that.
      if (this.#meter) this.#meter.requests--;
      return this.#connect();
    }
    const reason = "closed the connection without an answer";
    const { method, body } = this.#request;
    if (this.#replayed || !this.#answer.untouched || body !== 0 || !isIdempotent(method)) return this.#broken(502, "node-broke-off", reason);
    this.#replayed = true;
    this.unreached(reason);
  }

  onNodeBytes(bytes: Buffer, size: number) {
    (this.#meter as Meter).bytesOut += size;
    this.#answer.read(bytes, size);
  }

  /** See `Intake.hold`. */
  hold(): (() => void) | undefined {
    return this.#connection?.hold();
  }

  pause() {
    this.paused = true;
    this.#connection?.socket.pause();
  }

  resume() {
    this.paused = false;
    this.#connection?.socket.resume();
  }

  /** The head of the answer is there. */
  answered(status: number) {
    const meter = this.#meter as Meter;
    meter.took(performance.now() - this.startedMs);
    if (!isIll(status)) return;
    meter.errors++;
    this.#lane.hint((this.#node as NodeSpec).id, `answered ${status}`);
  }

  /** The answer is whole. `keep`: the connection may carry another request. */
  finish(keep: boolean) {
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection) {
      if (this.paused) connection.socket.resume();
      if (keep) this.#lane.pool.give(connection, performance.now());
      else connection.destroy();
    }
    this.paused = false;
    this.release();
  }

  /** The exchange is over, however it ended. */
  release() {
    this.#connection?.destroy();
    this.#connection = undefined;
    if (this.#meter && this.#node) this.#lane.roster.leave(this.#node.id);
    this.#meter = undefined;
  }

  /** Nothing was sent, or what was may be sent again: the next node is asked. */
  unreached(reason: string) {
    const node = this.#fail(reason);
    this.#reasons.push(`${node.label} (${node.address}) ${reason}`);
    this.#tried = new Set(this.#tried).add(node.id);
    this.#attempt();
  }

  timedOut() {
    this.#broken(504, "node-timed-out", `did not answer within ${this.#lane.limits.answerMs} ms`);
  }

  malformed(reason: string) {
    if (this.#client.answerBegun) this.#cut();
    else this.#broken(502, "node-malformed", `answered with something that is not HTTP (${reason})`);
  }

  #broken(status: 502 | 504, token: string, reason: string) {
    const node = this.#fail(reason);
    this.#client.refuse({ status, token, sentence: `${node.label} (${node.address}) ${reason}.` });
  }

  #cut() {
    this.#fail("broke off in the middle of its answer");
    this.#client.cut();
  }

  #fail(reason: string): NodeSpec {
    const node = this.#node as NodeSpec;
    if (this.#meter) this.#meter.errors++;
    this.release();
    this.#lane.hint(node.id, reason);
    return node;
  }
}
