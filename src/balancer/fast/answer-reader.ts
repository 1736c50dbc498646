import { type PlainAnswer, plainAnswer } from "./answer-head.js";
import { ChunkReader } from "./chunks.js";

export interface AnswerSink {
  /** An interim answer, as text for the client. */
  onInformation(head: string): void;
  /** Returns the head as the client is to see it, given the framing fields of its body. */
  onAnswerHead(answer: PlainAnswer, framing: string): string;
  /** Bytes for the client; text is latin1. */
  onAnswerBytes(bytes: Buffer | string): void;
  cork(): void;
  uncork(): void;
  /** `reusable`: the node's connection may carry another request. */
  onAnswerEnd(reusable: boolean): void;
  onAnswerMalformed(reason: string): void;
}

const MAX_HEAD_BYTES = 65_536;
/** Up to here an answer is read, and leaves, as one string: that is cheaper than views of its bytes. */
const SMALL_BYTES = 4_096;
const LF = 10;
const CR = 13;

/** So far it may become an HTTP head: begins like one, and no line ends without CR. */
const isHeadlike = (bytes: Buffer): boolean => {
  if (!"HTTP/1.".startsWith(bytes.toString("latin1", 0, 7))) return false;
  for (let at = bytes.indexOf(LF); at !== -1; at = bytes.indexOf(LF, at + 1)) if (bytes[at - 1] !== CR) return false;
  return true;
};

/** Reads a node's answer to one request and tells its sink what the client is to get. Bodies are passed as slices of what came. */
export class AnswerReader {
  readonly #sink: AnswerSink;
  #state: "head" | "length" | "chunked" | "until-closed" | "over" = "over";
  #toHead = false;
  #held: Buffer | undefined;
  #left = 0;
  #chunks: ChunkReader | undefined;
  #reusable = false;
  /** Nothing of an answer has come. */
  untouched = true;
  readonly #pass = (piece: Buffer): void => this.#sink.onAnswerBytes(piece);

  constructor(sink: AnswerSink) {
    this.#sink = sink;
  }

  /** A request was sent. `toHead`: the answer has no body whatever its head says. */
  begin(toHead: boolean) {
    this.#state = "head";
    this.#toHead = toHead;
    this.#held = undefined;
    this.untouched = true;
  }

  /** Takes the first `size` of `bytes`. */
  read(bytes: Buffer, size: number) {
    this.untouched = false;
    if (this.#state !== "head") return this.#readBody(bytes.subarray(0, size), 0);
    if (!this.#held) return this.#readHead(bytes, size);
    const all = Buffer.concat([this.#held, bytes.subarray(0, size)]);
    this.#readHead(all, all.length);
  }

  /** The node closed. True when that was the end of the answer. */
  ended(): boolean {
    if (this.#state !== "until-closed") return false;
    this.#sink.onAnswerBytes("0\r\n\r\n");
    this.#finish(false);
    return true;
  }

  #finish(reusable: boolean) {
    this.#state = "over";
    this.#chunks = undefined;
    this.#sink.onAnswerEnd(reusable);
  }

  #readHead(memory: Buffer, size: number) {
    let text = memory.toString("latin1", 0, Math.min(size, SMALL_BYTES));
    let end = text.indexOf("\r\n\r\n");
    if (end < 0 && size > SMALL_BYTES) {
      text = memory.toString("latin1", 0, Math.min(size, MAX_HEAD_BYTES + 4));
      end = text.indexOf("\r\n\r\n");
    }
    if (end < 0) {
      if (size > MAX_HEAD_BYTES) return this.#malformed("a head of more than 64 KiB");
      const bytes = memory.subarray(0, size);
      if (!isHeadlike(bytes)) return this.#malformed("its first bytes");
      this.#held = Buffer.from(bytes); // what was read may change
      return;
    }
    this.#held = undefined;
    const answer = plainAnswer(text, end + 2);
    if (!answer) return this.#malformed("its head");
    if (answer.status < 200) {
      if (answer.status === 101) return this.#malformed("101 unasked");
      // 102 and 103 reach the client; a hint without a `Link` is none, and 100 answers no question of ours.
      if (answer.status === 102 || (answer.status === 103 && answer.linked)) this.#sink.onInformation(`${answer.kept}\r\n`);
      if (end + 4 < size) this.#readHead(memory.subarray(end + 4, size), size - end - 4);
      return;
    }
    this.#begin(answer, text, memory, size, end + 4);
  }

  #malformed(reason: string) {
    this.#state = "over";
    this.#sink.onAnswerMalformed(reason);
  }

  /** `text` is how `memory` begins. */
  #begin(answer: PlainAnswer, text: string, memory: Buffer, size: number, bodyAt: number) {
    this.#reusable = answer.reusable;
    const bodiless = this.#toHead || answer.status === 204 || answer.status === 304;
    if (bodiless || answer.body === 0) {
      this.#sink.onAnswerBytes(this.#sink.onAnswerHead(answer, ""));
      return this.#finish(this.#reusable && bodyAt === size);
    }
    const framed = answer.body === "chunked" || answer.body === "until-closed";
    const head = this.#sink.onAnswerHead(answer, framed ? "Transfer-Encoding: chunked\r\n" : "");
    if (typeof answer.body === "number" && text.length === size && size - bodyAt === answer.body) {
      this.#sink.onAnswerBytes(head + text.slice(bodyAt));
      return this.#finish(this.#reusable);
    }
    const bytes = memory.subarray(0, size);
    if (answer.body === "chunked") {
      this.#state = "chunked";
      this.#chunks = new ChunkReader(true);
    } else if (answer.body === "until-closed") this.#state = "until-closed";
    else {
      this.#state = "length";
      this.#left = answer.body;
      if (bytes.length >= bodyAt && bytes.length - bodyAt <= this.#left) return this.#sendWithHead(head, bytes, bodyAt);
    }
    if (bodyAt === bytes.length) return this.#sink.onAnswerBytes(head);
    this.#sink.cork();
    this.#sink.onAnswerBytes(head);
    this.#readBody(bytes, bodyAt);
    this.#sink.uncork();
  }

  /** The head and what came with it of a body of known length, in one write. */
  #sendWithHead(head: string, bytes: Buffer, bodyAt: number) {
    const size = bytes.length - bodyAt;
    this.#left -= size;
    if (size === 0) this.#sink.onAnswerBytes(head);
    else if (head.length <= bodyAt) {
      // The new head fits where the old one was: these bytes are ours.
      bytes.write(head, bodyAt - head.length, "latin1");
      this.#sink.onAnswerBytes(bytes.subarray(bodyAt - head.length));
    } else {
      this.#sink.cork();
      this.#sink.onAnswerBytes(head);
      this.#sink.onAnswerBytes(bytes.subarray(bodyAt));
      this.#sink.uncork();
    }
    if (this.#left === 0) this.#finish(this.#reusable);
  }

  #readBody(bytes: Buffer, from: number) {
    if (this.#state === "length") {
      const end = Math.min(bytes.length, from + this.#left);
      this.#left -= end - from;
      this.#sink.onAnswerBytes(from === 0 && end === bytes.length ? bytes : bytes.subarray(from, end));
      if (this.#left === 0) this.#finish(this.#reusable && end === bytes.length);
    } else if (this.#state === "chunked") {
      const chunks = this.#chunks as ChunkReader;
      const end = chunks.read(bytes, from, this.#pass);
      if (end < 0) this.#malformed("its chunks");
      else if (chunks.done) this.#finish(this.#reusable && end === bytes.length);
    } else if (this.#state === "until-closed") {
      this.#sink.cork();
      this.#sink.onAnswerBytes(`${(bytes.length - from).toString(16)}\r\n`);
      this.#sink.onAnswerBytes(from === 0 ? bytes : bytes.subarray(from));
      this.#sink.onAnswerBytes("\r\n");
      this.#sink.uncork();
    }
  }
}
