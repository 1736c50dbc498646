import type { Socket } from "node:net";
import { noNodeLeft, rawRefusal } from "../answer.js";
import { connectReason, isIll } from "../attempt.js";
import type { Refusal } from "../headers.js";
import { HIGH_WATER_BYTES } from "../limits.js";
import type { Meter } from "../meter.js";
import type { NodeSpec } from "../plane.js";
import type { PlainAnswer } from "./answer-head.js";
import { AnswerReader, type AnswerSink } from "./answer-reader.js";
import { ChunkReader } from "./chunks.js";
import type { Lane } from "./lane.js";
import type { Exchange, NodeConnection } from "./node-connection.js";
import { isIdempotent, type PlainRequest, plainRequest } from "./request-head.js";

/** A head that is not whole in what was read first, or longer, belongs to the careful lane. */
const MAX_HEAD_BYTES = 16_384;
/** Up to here one copied write is cheaper than two system buffers. */
const SMALL_BYTES = 8_192;
/** How long the last words of a connection may take to be read. */
const LINGER_MS = 1_000;

type Waiting = "idle" | "reader" | "connect" | "body" | "answer" | "half-closed" | "linger" | undefined;

const NONE: ReadonlySet<number> = new Set();

/**
 * One client connection in the fast lane, and the one request on it that is under way. Requests of a pipeline are taken one after the other.
 * It is a class for its state's sake: everything here is per connection, and nothing is allocated per byte.
 */
export class Session implements Exchange, AnswerSink {
  readonly #lane: Lane;
  readonly #client: Socket;
  readonly #address: string;
  /** The end of every head a node is sent. */
  readonly #forwardedTail: string;
  readonly #answer = new AnswerReader(this);
  /** Read, but not looked at: the client is ahead of us. The client is paused as long as there is some. */
  #ahead: Buffer | undefined;
  #request: PlainRequest | undefined;
  #bodyLeft = 0;
  #chunks: ChunkReader | undefined;
  #bodyDone = true;
  #bodyComplained = false;
  #tried: ReadonlySet<number> = NONE;
  #reasons: string[] = [];
  /** A node broke off without an answer, and another one was asked. */
  #replayed = false;
  #node: NodeSpec | undefined;
  #meter: Meter | undefined;
  #setCookie: string | undefined;
  #connection: NodeConnection | undefined;
  #sent = false;
  #startedMs = 0;
  #answerBegun = false;
  #closeAfter = false;
  #leaving = false;
  #clientEnded = false;
  #clientPaused = false;
  #nodePaused = false;
  #deadlineMs = Number.POSITIVE_INFINITY;
  #waiting: Waiting = "idle";
  /** The client has more answers to take than it may; what it sent ahead waits. */
  #stalled = false;
  /** The last bytes for the client are written. */
  #over = false;
  #gone = false;

  readonly #onData = (bytes: Buffer): void => this.#read(bytes);
  readonly #onEnd = (): void => this.#clientEnd();
  readonly #onDrain = (): void => {
    if (this.#stalled) this.#goOn();
    if (!this.#nodePaused) return;
    this.#nodePaused = false;
    if (this.#waiting === "reader") {
      if (this.#clientEnded) this.#wait("half-closed", this.#lane.limits.halfClosedMs);
      else this.#wait(undefined, 0);
    }
    this.#connection?.socket.resume();
  };
  readonly #onClose = (): void => {
    this.#gone = true;
    this.#release();
    this.#lane.leave(this);
  };
  readonly #toNode = (piece: Buffer): void => this.#passToNode(piece);

  constructor(lane: Lane, client: Socket, address: string) {
    this.#lane = lane;
    this.#client = client;
    this.#address = address;
    const proto = "encrypted" in client ? "https" : "http";
    this.#forwardedTail = `${address}\r\nX-Forwarded-Proto: ${proto}\r\nX-Forwarded-Port: ${client.localPort ?? 0}\r\n`;
    this.#wait("idle", lane.limits.headMs);
    client.on("data", this.#onData);
    client.on("end", this.#onEnd);
    client.on("drain", this.#onDrain);
    client.on("close", this.#onClose);
    client.on("error", () => undefined); // its "close" follows
  }

  /** Ends the connection now when nothing is under way, else after the current answer. */
  retire() {
    this.#leaving = true;
    if (!this.#request && !this.#ahead) this.#endIdle();
  }

  #wait(what: Waiting, ms: number) {
    this.#waiting = what;
    this.#deadlineMs = what === undefined ? Number.POSITIVE_INFINITY : performance.now() + ms;
  }

  /** Called with every beat. */
  beat(nowMs: number) {
    if (nowMs < this.#deadlineMs) return;
    const { limits } = this.#lane;
    switch (this.#waiting) {
      case "connect":
        return this.#unreached(`did not accept a connection within ${limits.connectMs} ms`);
      case "answer":
        return this.#broken(504, "node-timed-out", `did not answer within ${limits.answerMs} ms`);
      case "body":
        return this.#refuseBody({ status: 408, token: "too-slow", sentence: "The request body did not arrive in time." });
      case "half-closed":
        return this.#askHalfClosed();
      case "idle":
        // Silent from the start: told why, as in the careful lane. Between requests: closed without a word (RFC 9112 section 9.5).
        if (this.#startedMs > 0) return this.#endIdle();
        return this.#sayLast({ status: 408, token: "too-slow", sentence: "The request head did not arrive in time." });
      default:
        this.#client.destroy();
    }
  }

  // ---- from the client

  #read(bytes: Buffer) {
    if (this.#over) return;
    if (this.#stalled) return this.#keepAhead(bytes);
    if (!this.#request) return this.#readHead(bytes);
    if (this.#bodyDone) this.#keepAhead(bytes);
    else this.#readBody(bytes);
  }

  #keepAhead(bytes: Buffer) {
    this.#ahead = this.#ahead ? Buffer.concat([this.#ahead, bytes]) : bytes;
    this.#client.pause();
  }

  #readHead(bytes: Buffer) {
    const text = bytes.toString("latin1", 0, Math.min(bytes.length, MAX_HEAD_BYTES + 4));
    const end = text.indexOf("\r\n\r\n");
    const request = end < 0 ? undefined : plainRequest(text, end + 2);
    if (!request) return this.#handOver(bytes);
    this.#lane.counted();
    this.#request = request;
    this.#startedMs = performance.now();
    this.#tried = NONE;
    this.#reasons = [];
    this.#replayed = false;
    this.#answerBegun = false;
    this.#bodyComplained = false;
    this.#closeAfter = request.close || this.#leaving || !this.#lane.keepAlive;
    this.#chunks = request.body === "chunked" ? new ChunkReader(false) : undefined;
    this.#bodyLeft = request.body === "chunked" ? 0 : request.body;
    this.#bodyDone = request.body === 0;
    if (end + 4 < bytes.length) this.#keepAhead(bytes.subarray(end + 4));
    this.#attempt();
  }

  /** Gives the connection, and the bytes that were read, to the careful lane; it never comes back. */
  #handOver(bytes: Buffer) {
    const client = this.#client;
    this.#gone = true;
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

  /** Passes body bytes on and keeps what follows the body. */
  #readBody(bytes: Buffer) {
    let end: number;
    if (this.#chunks) {
      end = this.#chunks.read(bytes, 0, this.#toNode);
      this.#bodyDone = this.#chunks.done;
      if (end < 0) {
        return this.#refuseBody({ status: 400, token: "bad-request", sentence: "The request body is not chunked as RFC 9112 says." });
      }
    } else {
      end = Math.min(bytes.length, this.#bodyLeft);
      this.#bodyLeft -= end;
      this.#bodyDone = this.#bodyLeft === 0;
      this.#passToNode(end === bytes.length ? bytes : bytes.subarray(0, end));
    }
    if (end < bytes.length) this.#keepAhead(bytes.subarray(end));
    this.#waitForMore();
  }

  /** What comes next: more of the body, the answer, or (the answer was there before the body's end) the next request. */
  #waitForMore() {
    const { limits } = this.#lane;
    if (!this.#bodyDone) {
      // A node that takes nothing is not the client's fault.
      if (this.#clientPaused) this.#wait("answer", limits.answerMs);
      else this.#wait("body", limits.bodyMs);
    } else if (!this.#connection && this.#answerBegun) this.#next();
    else if (this.#answerBegun) this.#wait(undefined, 0);
    else this.#wait("answer", limits.answerMs);
  }

  #passToNode(piece: Buffer) {
    const socket = this.#connection?.socket;
    if (!socket || !this.#meter) return; // answered before it was read: dropped
    this.#meter.bytesIn += piece.length;
    socket.write(piece);
    if (socket.writableLength > HIGH_WATER_BYTES && !this.#clientPaused) {
      this.#clientPaused = true;
      this.#client.pause();
    }
  }

  #clientEnd() {
    this.#clientEnded = true;
    if (this.#over) return void this.#client.end(() => this.#client.destroy());
    if (!this.#request) return this.#endIdle();
    if (!this.#bodyDone) return this.#refuseBody({ status: 400, token: "bad-request", sentence: "The request body ended early." });
    this.#closeAfter = true;
    if (this.#sent) this.#wait("half-closed", this.#lane.limits.halfClosedMs);
  }

  /**
   * A client that sent FIN has left, or only finished talking; on the wire they look alike. A whole-closed one answers any byte with a reset,
   * so it is asked with `100 Continue`, which every HTTP/1.1 client must take at any time (RFC 9110 section 15.2). In the middle of an answer
   * nothing can be said, and the kernel asks: see `Door`.
   */
  #askHalfClosed() {
    if (!this.#answerBegun) this.#client.write("HTTP/1.1 100 Continue\r\n\r\n", "latin1");
    // One who reads nothing at all holds a node.
    else if (this.#nodePaused) return this.#wait("reader", this.#lane.limits.readMs);
    const answerLeftMs = this.#startedMs + this.#lane.limits.answerMs - performance.now();
    if (!this.#answerBegun && answerLeftMs <= 0) {
      return this.#broken(504, "node-timed-out", `did not answer within ${this.#lane.limits.answerMs} ms`);
    }
    this.#wait("half-closed", this.#lane.limits.halfClosedMs);
  }

  // ---- to a node

  #attempt() {
    const request = this.#request as PlainRequest;
    const { roster, pool } = this.#lane;
    const choice = roster.choose({ address: this.#address, cookie: request.cookie }, this.#tried, this.#startedMs);
    if (!choice) return this.#refuse(noNodeLeft(this.#reasons, this.#replayed));
    this.#node = choice.node;
    this.#setCookie = choice.setCookie;
    this.#meter = roster.enter(choice.node.id);
    // What must not be sent twice never rides on a connection that may be dead: no stale 502 for a POST, and no second POST.
    const kept = this.#bodyDone && isIdempotent(request.method) ? pool.take(choice.node.endpoint) : undefined;
    if (kept) this.#send(kept);
    else this.#connect();
  }

  #connect() {
    const connection = this.#lane.pool.open((this.#node as NodeSpec).endpoint);
    connection.exchange = this;
    this.#connection = connection;
    this.#sent = false;
    this.#wait("connect", this.#lane.limits.connectMs);
    // Until it is open, no body is read: another node may have to be asked.
    if (!this.#bodyDone) {
      this.#clientPaused = true;
      this.#client.pause();
    }
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
    if (this.#bodyDone) {
      connection.socket.write(head, "latin1");
      if (this.#clientEnded) this.#wait("half-closed", this.#lane.limits.halfClosedMs);
      else this.#wait("answer", this.#lane.limits.answerMs);
      return;
    }
    const ahead = this.#ahead;
    this.#ahead = undefined;
    this.#clientPaused = false;
    if (ahead && !this.#chunks && ahead.length <= Math.min(this.#bodyLeft, SMALL_BYTES)) {
      this.#bodyLeft -= ahead.length;
      this.#bodyDone = this.#bodyLeft === 0;
      meter.bytesIn += ahead.length;
      connection.socket.write(head + ahead.toString("latin1"), "latin1");
      this.#waitForMore();
    } else {
      connection.socket.cork();
      connection.socket.write(head, "latin1");
      if (ahead) this.#readBody(ahead);
      else this.#waitForMore();
      connection.socket.uncork();
    }
    if (!this.#clientPaused && this.#ahead === undefined) this.#client.resume();
  }

  onNodeDrain() {
    if (!this.#clientPaused || !this.#sent) return;
    this.#clientPaused = false;
    if (!this.#bodyDone) this.#waitForMore();
    if (this.#ahead === undefined) this.#client.resume();
  }

  onNodeGone(code: string | undefined, clean: boolean) {
    const connection = this.#connection;
    this.#connection = undefined;
    if (!connection || !this.#request) return;
    if (!this.#sent) return this.#unreached(connectReason(code));
    if (clean && this.#answer.ended()) return;
    if (this.#answerBegun) return this.#cut("broke off in the middle of its answer");
    if (connection.used && this.#answer.untouched) {
      // It was idle for too long and nobody has read this request, or it may be asked twice: `#attempt` took care of that.
      if (this.#meter) this.#meter.requests--;
      return this.#connect();
    }
    const reason = "closed the connection without an answer";
    const { method, body } = this.#request;
    if (this.#replayed || !this.#answer.untouched || body !== 0 || !isIdempotent(method)) return this.#broken(502, "node-broke-off", reason);
    this.#replayed = true;
    this.#unreached(reason);
  }

  // ---- from the node

  onNodeBytes(bytes: Buffer, size: number) {
    (this.#meter as Meter).bytesOut += size;
    this.#answer.read(bytes, size);
  }

  onInformation(head: string) {
    this.#client.write(head, "latin1");
  }

  onAnswerHead(answer: PlainAnswer, framing: string): string {
    const meter = this.#meter as Meter;
    this.#answerBegun = true;
    meter.took(performance.now() - this.#startedMs);
    if (isIll(answer.status)) {
      meter.errors++;
      this.#lane.hint((this.#node as NodeSpec).id, `answered ${answer.status}`);
    }
    if (this.#bodyDone && this.#waiting === "answer") this.#wait(undefined, 0);
    let head = answer.kept;
    if (this.#setCookie !== undefined) head += `Set-Cookie: ${this.#setCookie}\r\n`;
    if (!answer.dated) head += this.#lane.dateField();
    if (this.#leaving) this.#closeAfter = true;
    return `${head}${framing}${this.#closeAfter ? "Connection: close\r\n\r\n" : "\r\n"}`;
  }

  onAnswerBytes(bytes: Buffer | string) {
    const client = this.#client;
    if (typeof bytes === "string") client.write(bytes, "latin1");
    else client.write(bytes, this.#connection?.hold());
    if (client.writableLength > HIGH_WATER_BYTES && !this.#nodePaused) {
      this.#nodePaused = true;
      this.#connection?.socket.pause();
      // One who reads nothing at all holds a node.
      if (this.#waiting === undefined) this.#wait("reader", this.#lane.limits.readMs);
    }
  }

  cork() {
    this.#client.cork();
  }

  uncork() {
    this.#client.uncork();
  }

  onAnswerEnd(reusable: boolean) {
    const connection = this.#connection;
    this.#connection = undefined;
    if (connection) {
      if (this.#nodePaused) connection.socket.resume();
      // A half-sent request would be continued by the next one.
      if (reusable && this.#bodyDone) this.#lane.pool.give(connection, performance.now());
      else connection.destroy();
    }
    this.#nodePaused = false;
    this.#release();
    if (this.#bodyDone) return this.#next();
    // The rest of the body is read and dropped, so that the client can go on.
    if (this.#closeAfter) return this.#next();
    this.#clientPaused = false;
    this.#wait("body", this.#lane.limits.bodyMs);
    this.#client.resume();
  }

  onAnswerMalformed(reason: string) {
    if (this.#answerBegun) this.#cut("broke off in the middle of its answer");
    else this.#broken(502, "node-malformed", `answered with something that is not HTTP (${reason})`);
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
    this.#clientPaused = true;
    this.#client.pause();
    this.#wait("reader", this.#lane.limits.readMs);
  }

  #goOn() {
    this.#stalled = false;
    this.#wait("idle", this.#lane.limits.keepAliveMs);
    if (this.#ahead) setImmediate(this.#onTurn);
    else if (this.#clientPaused) this.#client.resume();
    this.#clientPaused = false;
  }

  /** Looks at what the client sent ahead; in a turn of its own, since a long pipeline of refusals would be as deep a recursion. */
  readonly #onTurn = (): void => {
    const ahead = this.#ahead;
    if (this.#gone || !ahead) return;
    this.#ahead = undefined;
    this.#readHead(ahead);
    if (!this.#gone && this.#ahead === undefined && !this.#clientPaused) this.#client.resume();
  };

  // ---- endings

  /** Nothing is under way. */
  #endIdle() {
    this.#over = true;
    this.#wait("reader", this.#lane.limits.readMs);
    this.#client.end(() => this.#client.destroy());
  }

  /** The moment in which a client may read its last bytes begins when the system has them all: a slow client takes its time until then. */
  #linger() {
    this.#over = true;
    this.#ahead = undefined;
    this.#wait("reader", this.#lane.limits.readMs);
    this.#client.once("finish", () => this.#wait("linger", LINGER_MS));
    this.#client.resume();
  }

  /** The exchange is over, however it ended. */
  #release() {
    this.#connection?.destroy();
    this.#connection = undefined;
    if (this.#meter && this.#node) this.#lane.roster.leave(this.#node.id);
    this.#meter = undefined;
  }

  #unreached(reason: string) {
    const node = this.#node as NodeSpec;
    if (this.#meter) this.#meter.errors++;
    this.#release();
    this.#lane.hint(node.id, reason);
    this.#reasons.push(`${node.label} (${node.address}) ${reason}`);
    this.#tried = new Set(this.#tried).add(node.id);
    this.#attempt();
  }

  #broken(status: 502 | 504, token: string, reason: string) {
    const node = this.#node as NodeSpec;
    if (this.#meter) this.#meter.errors++;
    this.#release();
    this.#lane.hint(node.id, reason);
    this.#refuse({ status, token, sentence: `${node.label} (${node.address}) ${reason}.` });
  }

  /** An answer that cannot be finished: the missing end of its framing says so. */
  #cut(reason: string) {
    if (this.#meter) this.#meter.errors++;
    this.#release();
    this.#lane.hint((this.#node as NodeSpec).id, reason);
    this.#client.uncork();
    this.#client.destroySoon();
    this.#over = true;
    this.#wait("linger", LINGER_MS);
  }

  /** Answers a request that no node has answered. */
  #refuse(refusal: Refusal) {
    this.#answerBegun = true;
    // What is left of a body that nobody reads would be taken for the next request.
    if (!this.#bodyDone) this.#closeAfter = true;
    if (this.#leaving) this.#closeAfter = true;
    this.#client.write(rawRefusal(refusal, this.#closeAfter, this.#request?.method === "HEAD"), "latin1");
    this.#next();
  }

  #refuseBody(refusal: Refusal) {
    if (this.#bodyComplained) return;
    this.#bodyComplained = true;
    this.#release();
    if (this.#answerBegun) this.#client.destroy();
    else this.#sayLast(refusal);
  }

  #sayLast(refusal: Refusal) {
    this.#client.end(rawRefusal(refusal, true, this.#request?.method === "HEAD"), "latin1");
    this.#linger();
  }
}
