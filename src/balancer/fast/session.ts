import type { Socket } from "node:net";
import { rawRefusal } from "../answer.js";
import { giveUp } from "../cut.js";
import type { Refusal } from "../headers.js";
import { HIGH_WATER_BYTES } from "../limits.js";
import type { PlainAnswer } from "./answer-head.js";
import type { Lane } from "./lane.js";
import { Patience } from "./patience.js";
import { RequestBody } from "./request-body.js";
import { type PlainRequest, plainRequest } from "./request-head.js";
import { type Downstream, Upstream } from "./upstream.js";

/** Where the end of a head is looked for first. */
const USUAL_HEAD_BYTES = 4_096;
/** A head that is not whole in what was read first, or longer, belongs to the careful lane. */
const MAX_HEAD_BYTES = 16_384;
/** How long the last words of a connection may take to be read. */
const LINGER_MS = 1_000;

/**
 * One client connection in the fast lane, and the one request on it that is under way. Requests of a pipeline are taken one after the other: what
 * was read too early is put back, so that `end` comes behind it. It is a class for its state's sake: nothing is allocated per byte.
 */
export class Session implements Downstream {
  readonly #lane: Lane;
  readonly #client: Socket;
  readonly #patience = new Patience();
  readonly #upstream: Upstream;
  readonly #body = new RequestBody();
  #request: PlainRequest | undefined;
  #bodyComplained = false;
  answerBegun = false;
  #closeAfter = false;
  #leaving = false;
  /** For how many turns nothing was said to a half-closed client, and how much had been by then. */
  #quietTurns = 0;
  #quietBytes = -1;
  /** Nothing will come any more. */
  #clientEnded = false;
  /** Not read from: something else has to happen first. */
  #clientPaused = false;
  /** The client has more answers to take than it may; what it sent ahead waits. */
  #stalled = false;
  /** The last bytes for the client are written. */
  #over = false;

  readonly #onData = (bytes: Buffer): void => this.#read(bytes);
  readonly #onEnd = (): void => this.#clientEnd();
  readonly #onDrain = (): void => {
    if (this.#stalled) this.#goOn();
    if (!this.#upstream.paused) return;
    if (this.#patience.what === "reader") {
      if (this.#clientEnded) this.#patience.wait("half-closed", this.#lane.limits.halfClosedMs);
      else this.#patience.end();
    }
    this.#upstream.resume();
  };
  readonly #onClose = (): void => {
    this.#upstream.release();
    this.#lane.leave(this);
  };
  readonly #toNode = (piece: Buffer): void => {
    if (!this.#upstream.write(piece)) this.#pauseClient();
  };

  constructor(lane: Lane, client: Socket, address: string) {
    this.#lane = lane;
    this.#client = client;
    const proto = "encrypted" in client ? "https" : "http";
    const forwardedTail = `${address}\r\nX-Forwarded-Proto: ${proto}\r\nX-Forwarded-Port: ${client.localPort ?? 0}\r\n`;
    this.#upstream = new Upstream({ lane, client: this, address, forwardedTail, patience: this.#patience });
    this.#patience.wait("idle", lane.limits.headMs);
    client.on("data", this.#onData);
    client.on("end", this.#onEnd);
    client.on("drain", this.#onDrain);
    client.on("close", this.#onClose);
    client.on("error", () => undefined); // its "close" follows
  }

  get bodyDone(): boolean {
    return this.#body.done;
  }

  /** Ends the connection now when nothing is under way, else after the current answer. */
  retire() {
    this.#leaving = true;
    if (!this.#request && this.#client.readableLength === 0) this.#endIdle();
  }

  /** Called with every beat. */
  beat(nowMs: number) {
    if (!this.#patience.isOver(nowMs)) return;
    switch (this.#patience.what) {
      case "connect":
        return this.#upstream.unreached(`did not accept a connection within ${this.#lane.limits.connectMs} ms`);
      case "answer":
        return this.#upstream.timedOut();
      case "body":
        return this.#refuseBody({ status: 408, token: "too-slow", sentence: "The request body did not arrive in time." });
      case "half-closed":
        return this.#askHalfClosed();
      case "idle":
        // Silent from the start: told why, as in the careful lane. Between requests: closed without a word (RFC 9112 section 9.5).
        if (this.#upstream.startedMs > 0) return this.#endIdle();
        return this.#sayLast({ status: 408, token: "too-slow", sentence: "The request head did not arrive in time." });
      case "reader":
        return giveUp(this.#client);
      default:
        this.#client.destroy();
    }
  }

  // ---- from the client

  #pauseClient() {
    this.#clientPaused = true;
    this.#client.pause();
  }

  #resumeClient() {
    this.#clientPaused = false;
    this.#client.resume();
  }

  #putBack(bytes: Buffer) {
    this.#pauseClient();
    this.#client.unshift(bytes);
  }

  #read(bytes: Buffer) {
    if (this.#over) return;
    if (this.#stalled || (this.#request && this.#body.done)) this.#putBack(bytes);
    else if (this.#request) this.#readBody(bytes);
    else this.#readHead(bytes);
  }

  #readHead(bytes: Buffer) {
    let text = bytes.toString("latin1", 0, Math.min(bytes.length, USUAL_HEAD_BYTES));
    let end = text.indexOf("\r\n\r\n");
    if (end < 0 && bytes.length > USUAL_HEAD_BYTES) {
      text = bytes.toString("latin1", 0, Math.min(bytes.length, MAX_HEAD_BYTES + 4));
      end = text.indexOf("\r\n\r\n");
    }
    const request = end < 0 ? undefined : plainRequest(text, end + 2);
    if (!request) return this.#handOver(bytes);
    this.#lane.counted();
    this.#request = request;
    this.answerBegun = false;
    this.#bodyComplained = false;
    this.#closeAfter = request.close || this.#leaving || !this.#lane.keepAlive;
    this.#body.begin(request.body);
    if (end + 4 < bytes.length) this.#putBack(bytes.subarray(end + 4));
    this.#upstream.begin(request);
  }

  /** Gives the connection, and the bytes that were read, to the careful lane; it never comes back. */
  #handOver(bytes: Buffer) {
    const client = this.#client;
    client.removeListener("data", this.#onData);
    client.removeListener("end", this.#onEnd);
    client.removeListener("drain", this.#onDrain);
    client.removeListener("close", this.#onClose);
    this.#lane.leave(this);
    client.pause();
    client.unshift(bytes);
    this.#lane.handOver(client, this.#leaving);
    client.resume();
  }

  /** Passes body bytes on and puts back what follows the body. */
  #readBody(bytes: Buffer) {
    const end = this.#body.read(bytes, this.#toNode);
    if (end < 0) return this.#refuseBody({ status: 400, token: "bad-request", sentence: "The request body is not chunked as RFC 9112 says." });
    if (end < bytes.length) this.#putBack(bytes.subarray(end));
    this.#waitForMore();
  }

  /** What comes next: more of the body, the answer, or (the answer was there before the body's end) the next request. */
  #waitForMore() {
    const { limits } = this.#lane;
    if (!this.#body.done) {
      // A node that takes nothing is not the client's fault.
      if (this.#clientPaused) this.#patience.wait("answer", limits.answerMs);
      else this.#patience.wait("body", limits.bodyMs);
    } else if (!this.#upstream.sent && this.answerBegun) this.#next();
    else if (this.#clientEnded) this.#patience.wait("half-closed", limits.halfClosedMs);
    else if (this.answerBegun) this.#patience.end();
    else this.#patience.wait("answer", limits.answerMs);
  }

  #clientEnd() {
    this.#clientEnded = true;
    if (this.#over) return void this.#client.end(() => this.#client.destroy());
    if (!this.#request) return this.#endIdle();
    if (!this.#body.done) return this.#refuseBody({ status: 400, token: "bad-request", sentence: "The request body ended early." });
    this.#closeAfter = true;
    if (this.#upstream.sent) this.#patience.wait("half-closed", this.#lane.limits.halfClosedMs);
  }

  /**
   * A client that sent FIN has left, or only finished talking; on the wire they look alike. A whole-closed one answers any byte with a reset,
   * so it is asked with `100 Continue`, which every HTTP/1.1 client must take at any time (RFC 9110 section 15.2). In the middle of an answer
   * nothing can be said, and the kernel asks: see `Door`.
   */
  #askHalfClosed() {
    const { limits } = this.#lane;
    if (!this.answerBegun) this.#client.write("HTTP/1.1 100 Continue\r\n\r\n", "latin1");
    // One who reads nothing at all holds a node.
    else if (this.#upstream.paused) return this.#patience.wait("reader", limits.readMs);
    else if ("encrypted" in this.#client) {
      // TLS would swallow what the next branch asks for, and few of its clients half-close: ten turns in which nothing was said are as good as gone.
      const { bytesWritten } = this.#client;
      this.#quietTurns = bytesWritten === this.#quietBytes ? this.#quietTurns + 1 : 0;
      this.#quietBytes = bytesWritten;
      if (this.#quietTurns >= 10) return void this.#client.destroy();
    }
    // Nothing is sent, but a reset that came is told; nobody else looks, since there is nothing to read or to write.
    else this.#client.write("");
    const answerLeftMs = this.#upstream.startedMs + limits.answerMs - performance.now();
    if (!this.answerBegun && answerLeftMs <= 0) return this.#upstream.timedOut();
    this.#patience.wait("half-closed", limits.halfClosedMs);
  }

  // ---- for the upstream

  holdBody() {
    this.#pauseClient();
  }

  sendBody() {
    if (this.#body.done) return this.#waitForMore();
    this.#clientPaused = false;
    // What was put back comes as `data`, at once.
    if (this.#client.read() === null) this.#waitForMore();
    if (!this.#clientPaused) this.#client.resume();
  }

  onUpstreamDrain() {
    if (!this.#clientPaused || this.#body.done) return;
    this.#resumeClient();
    this.#waitForMore();
  }

  /** Answers a request that no node has answered. */
  refuse(refusal: Refusal) {
    this.answerBegun = true;
    // What is left of a body that nobody reads would be taken for the next request.
    if (!this.#body.done || this.#leaving) this.#closeAfter = true;
    this.#client.write(rawRefusal(refusal, this.#closeAfter, this.#request?.method === "HEAD"), "latin1");
    this.#next();
  }

  cut() {
    this.#client.uncork();
    this.#client.destroySoon();
    this.#over = true;
    this.#patience.wait("linger", LINGER_MS);
  }

  // ---- from the node

  onInformation(head: string) {
    this.#client.write(head, "latin1");
  }

  onAnswerHead(answer: PlainAnswer, framing: string): string {
    this.answerBegun = true;
    this.#upstream.answered(answer.status);
    if (this.#body.done && this.#patience.what === "answer") this.#patience.end();
    let head = answer.kept;
    if (this.#upstream.setCookie !== undefined) head += `Set-Cookie: ${this.#upstream.setCookie}\r\n`;
    if (!answer.dated) head += this.#lane.dateField();
    if (this.#leaving) this.#closeAfter = true;
    return `${head}${framing}${this.#closeAfter ? "Connection: close\r\n\r\n" : "\r\n"}`;
  }

  onAnswerBytes(bytes: Buffer | string) {
    const client = this.#client;
    if (typeof bytes === "string") client.write(bytes, "latin1");
    else client.write(bytes, this.#upstream.hold());
    if (client.writableLength > HIGH_WATER_BYTES && !this.#upstream.paused) {
      this.#upstream.pause();
      // One who reads nothing at all holds a node.
      if (this.#patience.what === undefined) this.#patience.wait("reader", this.#lane.limits.readMs);
    }
  }

  cork() {
    this.#client.cork();
  }

  uncork() {
    this.#client.uncork();
  }

  onAnswerEnd(reusable: boolean) {
    // A half-sent request would be continued by the next one.
    this.#upstream.finish(reusable && this.#body.done);
    if (this.#body.done || this.#closeAfter) return this.#next();
    // The rest of the body is read and dropped, so that the client can go on.
    this.#patience.wait("body", this.#lane.limits.bodyMs);
    this.#resumeClient();
  }

  onAnswerMalformed(reason: string) {
    this.#upstream.malformed(reason);
  }

  /** On to the next request of this connection, or to its end. */
  #next() {
    if (this.#closeAfter || this.#leaving) {
      this.#client.end();
      return this.#linger();
    }
    this.#request = undefined;
    if (this.#client.writableLength <= HIGH_WATER_BYTES) return this.#goOn();
    this.#stalled = true;
    this.#pauseClient();
    this.#patience.wait("reader", this.#lane.limits.readMs);
  }

  #goOn() {
    this.#stalled = false;
    this.#patience.wait("idle", this.#lane.limits.keepAliveMs);
    if (this.#clientPaused) this.#resumeClient();
  }

  // ---- endings

  /** Nothing is under way. */
  #endIdle() {
    this.#over = true;
    this.#patience.wait("reader", this.#lane.limits.readMs);
    this.#client.end(() => this.#client.destroy());
  }

  /** The moment in which a client may read its last bytes begins when the system has them all: a slow client takes its time until then. */
  #linger() {
    this.#over = true;
    this.#patience.wait("reader", this.#lane.limits.readMs);
    this.#client.once("finish", () => this.#patience.wait("linger", LINGER_MS));
    this.#client.resume();
  }

  #refuseBody(refusal: Refusal) {
    if (this.#bodyComplained) return;
    this.#bodyComplained = true;
    this.#upstream.release();
    if (this.answerBegun) this.#client.destroy();
    else this.#sayLast(refusal);
  }

  #sayLast(refusal: Refusal) {
    this.#client.end(rawRefusal(refusal, true, this.#request?.method === "HEAD"), "latin1");
    this.#linger();
  }
}
