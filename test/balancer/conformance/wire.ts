import { connect, createServer, type Server, type Socket } from "node:net";
import { listen } from "../support.js";
import type { Case } from "./cases.js";

/** A message as it was on the wire, latin1. `complete`: its framing says that nothing is missing. */
export interface Message {
  line: string;
  fields: Array<[name: string, value: string]>;
  body: string;
  trailers: string;
  chunked: boolean;
  complete: boolean;
}

export const valuesOf = (message: Message | undefined, name: string): string[] =>
  (message?.fields ?? []).filter(([each]) => each.toLowerCase() === name.toLowerCase()).map(([, value]) => value);

const fieldsOf = (lines: string[]): Array<[string, string]> =>
  lines.map((line) => {
    const colon = line.indexOf(":");
    return [line.slice(0, colon), line.slice(colon + 1).trim()];
  });

/** Undoes chunks. `end`: where the message ends, or undefined when it is not all there. */
const unchunk = (text: string, from: number): { body: string; trailers: string; end: number | undefined } => {
  let body = "";
  for (let at = from; ; ) {
    const lineEnd = text.indexOf("\r\n", at);
    const size = /^([0-9a-f]+)(;[^\r\n]*)?$/i.exec(text.slice(at, lineEnd < 0 ? at : lineEnd))?.[1];
    if (lineEnd < 0 || size === undefined) return { body, trailers: "", end: undefined };
    const length = Number.parseInt(size, 16);
    at = lineEnd + 2;
    if (length === 0) {
      if (text.startsWith("\r\n", at)) return { body, trailers: "", end: at + 2 };
      const end = text.indexOf("\r\n\r\n", at);
      return end < 0 ? { body, trailers: "", end: undefined } : { body, trailers: text.slice(at, end + 2), end: end + 4 };
    }
    body += text.slice(at, at + length);
    if (text.slice(at + length, at + length + 2) !== "\r\n") return { body, trailers: "", end: undefined };
    at += length + 2;
  }
};

type Kind = { kind: "request" } | { kind: "answer"; methods: readonly string[]; closed: boolean };

/** Reads messages one after the other; what does not end is the last, and not complete. */
const messagesIn = (text: string, what: Kind): Message[] => {
  const found: Message[] = [];
  let finals = 0;
  for (let at = 0; at < text.length; ) {
    const headEnd = text.indexOf("\r\n\r\n", at);
    if (headEnd < 0) {
      found.push({ line: text.slice(at), fields: [], body: "", trailers: "", chunked: false, complete: false });
      break;
    }
    const [line = "", ...rest] = text.slice(at, headEnd).split("\r\n");
    const message: Message = { line, fields: fieldsOf(rest), body: "", trailers: "", chunked: false, complete: true };
    found.push(message);
    at = headEnd + 4;
    const status = Number(line.split(" ")[1]);
    const interim = what.kind === "answer" && status < 200;
    // One who could not read the request does not know that it was HEAD.
    const toHead = what.kind === "answer" && what.methods[finals] === "HEAD" && /^(HTTP\/|$)/.test(text.slice(at, at + 5));
    const bodiless = what.kind === "answer" && (interim || status === 204 || status === 304 || toHead);
    if (what.kind === "answer" && !interim) finals++;
    if (bodiless) continue;
    const length = valuesOf(message, "content-length")[0];
    if (valuesOf(message, "transfer-encoding").length > 0) {
      message.chunked = true;
      const { body, trailers, end } = unchunk(text, at);
      Object.assign(message, { body, trailers, complete: end !== undefined });
      if (end === undefined) break;
      at = end;
    } else if (length !== undefined) {
      message.body = text.slice(at, at + Number(length));
      message.complete = message.body.length === Number(length);
      at += Number(length);
    } else if (what.kind === "answer") {
      message.body = text.slice(at);
      message.complete = what.closed;
      break;
    }
  }
  return found;
};

/** What the node does; `answers[n]` is said to the nth request of a case, the last one to all that follow. */
export interface NodeScript {
  answers?: readonly string[];
  /** How it leaves after an answer. */
  ending?: "end" | "reset";
  /** Answers as soon as it has the head. */
  early?: boolean;
}

export const ok = (body: string, ...fields: string[]): string =>
  `HTTP/1.1 200 OK\r\n${fields.map((field) => `${field}\r\n`).join("")}Content-Length: ${body.length}\r\n\r\n${body}`;

/** A node that reads requests by their framing and answers by script. One for a whole suite, since HAProxy needs its address beforehand. */
export class ScriptedNode {
  readonly seen: Message[] = [];
  /** Everything it was sent since `play`, also what is no request. */
  raw = "";
  #script: NodeScript = {};
  #server: Server | undefined;

  async open(): Promise<number> {
    this.#server = createServer({ allowHalfOpen: true }, (socket) => this.#serve(socket));
    return listen(this.#server);
  }

  play(script: NodeScript): void {
    this.#script = script;
    this.seen.length = 0;
    this.raw = "";
  }

  #serve(socket: Socket): void {
    let text = "";
    /** Of the body of a request that was answered early: bytes that are still to come, and no next request. */
    let owed = 0;
    socket.on("error", () => undefined);
    socket.on("end", () => socket.end());
    socket.on("data", (bytes) => {
      const paid = Math.min(owed, bytes.length);
      owed -= paid;
      text += bytes.toString("latin1", paid);
      this.raw += bytes.toString("latin1");
      for (;;) {
        const [request] = messagesIn(text, { kind: "request" });
        if (!request || !(request.complete || (this.#script.early && text.includes("\r\n\r\n")))) return;
        text = text.slice(endOf(text, request));
        this.#answer(socket, request);
        if (!request.complete) {
          owed = Math.max(0, Number(valuesOf(request, "content-length")[0] ?? 0) - request.body.length);
          text = "";
        }
      }
    });
  }

  #answer(socket: Socket, request: Message): void {
    if (request.line.startsWith("GET /still-open ")) {
      socket.write(ok("hi"));
      return;
    }
    const { answers = [ok("hi")], ending } = this.#script;
    const answer = answers[Math.min(this.seen.length, answers.length - 1)] ?? "";
    this.seen.push(request);
    if (socket.writable) socket.write(answer, "latin1");
    if (ending === "end") socket.end();
    if (ending === "reset") setImmediate(() => socket.resetAndDestroy());
  }
}

const endOf = (text: string, request: Message): number => {
  const head = text.indexOf("\r\n\r\n") + 4;
  return request.chunked ? (unchunk(text, head).end ?? text.length) : head + request.body.length;
};

/** What a client saw of one conversation. */
export interface Outcome {
  /** Without interim answers. */
  answers: Message[];
  interim: Message[];
  text: string;
  /** The balancer closed. */
  closed: boolean;
  seen: Message[];
  raw: string;
}

const statusOf = (message: Message): number => Number(message.line.split(" ")[1]);
export const statuses = (outcome: Outcome): number[] => outcome.answers.map(statusOf);

const PATIENCE_MS = 4_000;

/**
 * Says `pieces` (each when the one before has left) and listens until there are `wanted` whole answers, and, when `closing`, the end of the
 * connection. On a connection that is to stay open a last plain request proves that it does.
 */
export const converse = (
  port: number,
  pieces: readonly string[],
  { wanted, closing, methods, half }: { wanted: number; closing: boolean; methods: readonly string[]; half: boolean },
): Promise<{ text: string; closed: boolean; stillOpen: boolean }> =>
  new Promise((resolve) => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true, noDelay: true });
    let text = "";
    let closed = false;
    let said = false;
    let probed: string | undefined;
    const finish = () => {
      clearTimeout(timer);
      socket.destroy();
      const stillOpen = probed !== undefined && wholeAnswers() > wanted;
      resolve({ text: probed === undefined ? text : probed, closed, stillOpen });
    };
    const timer = setTimeout(finish, PATIENCE_MS);
    const wholeAnswers = () => messagesIn(text, { kind: "answer", methods, closed }).filter((each) => each.complete && statusOf(each) >= 200).length;
    const look = () => {
      if (closed) return finish();
      if (closing || !said || wholeAnswers() < wanted) return;
      if (half) return finish();
      if (probed !== undefined) return void (wholeAnswers() > wanted && finish());
      probed = text;
      socket.write("GET /still-open HTTP/1.1\r\nHost: test.example\r\n\r\n");
    };
    socket.on("data", (bytes) => {
      text += bytes.toString("latin1");
      look();
    });
    const gone = () => {
      closed = true;
      look();
    };
    socket.on("end", gone);
    socket.on("error", gone);
    socket.on("close", gone);
    socket.once("connect", () => {
      const say = (index: number) => {
        const piece = pieces[index];
        if (piece === undefined) {
          said = true;
          look();
          return;
        }
        // FIN right behind the last byte: both are there when the balancer looks.
        if (half && index === pieces.length - 1) socket.end(piece, "latin1", () => say(index + 1));
        // A turn between the pieces: they are to arrive one by one.
        else socket.write(piece, "latin1", () => setTimeout(say, 2, index + 1));
      };
      say(0);
    });
  });

export interface Expected {
  answers: readonly number[];
  closed: boolean;
  seen: number;
  cut: boolean;
}

/** What came of one conversation, and whether its connection took another request. */
export interface Conversation extends Outcome {
  stillOpen: boolean;
}

const METHOD = /(GET|HEAD|POST|PUT|DELETE|OPTIONS|PATCH|PROPFIND|TRACE|PURGE|BREW|CONNECT) \S* HTTP\/1/g;
/** In order; a request may follow right behind the letters of a body. */
const methodsIn = (say: string): string[] => [...say.matchAll(METHOD)].map((found) => found[1] ?? "");

/** Holds one conversation with whoever listens on `port` and has `scripted` behind it. */
export const run = async (
  port: number,
  scripted: ScriptedNode,
  each: Pick<Case, "say" | "node" | "half">,
  expected: Pick<Expected, "answers" | "closed" | "cut">,
): Promise<Conversation> => {
  scripted.play(each.node ?? {});
  const pieces = typeof each.say === "string" ? [each.say] : each.say;
  const methods = methodsIn(pieces.join(""));
  const wanted = expected.cut ? expected.answers.length - 1 : expected.answers.length;
  const { text, closed, stillOpen } = await converse(port, pieces, { wanted, closing: expected.closed, methods, half: each.half ?? false });
  const all = messagesIn(text, { kind: "answer", methods, closed });
  const isInterim = (line: string) => /^HTTP\/1\.1 1(?!01)/.test(line);
  return {
    answers: all.filter(({ line }) => !isInterim(line)),
    interim: all.filter(({ line }) => isInterim(line)),
    text,
    closed,
    stillOpen,
    seen: [...scripted.seen],
    raw: scripted.raw,
  };
};
