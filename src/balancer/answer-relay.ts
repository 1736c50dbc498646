import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import { giveUp, reset } from "./cut.js";
import { answerHeaders } from "./headers.js";

/**
 * Ends a client connection so that a half-sent answer cannot be taken for a whole one. Where the end of the connection is the end of the
 * body (HTTP/1.0 without a length), only a reset says "cut".
 */
const cutAnswer = (req: IncomingMessage, res: ServerResponse): void => {
  const delimitedByClose = req.httpVersion === "1.0" && !res.hasHeader("content-length");
  const socket = req.socket as Socket & { encrypted?: boolean };
  if (delimitedByClose && !socket.encrypted && !socket.destroyed) reset(socket);
  res.destroy();
  socket.destroy();
};

/**
 * Passes a node's answer on: status, fields, body with back-pressure, trailers. `done(undefined)` when it went through whole, else with the
 * reason why it was cut. A client that takes nothing for `readMs` is cut off; of what is left to take after that, see `Front`.
 * @throws TypeError when the node's status line or fields cannot be written; nothing has been sent then.
 */
export const relayAnswer = (
  req: IncomingMessage,
  res: ServerResponse,
  answer: IncomingMessage,
  setCookie: string | undefined,
  readMs: number,
  done: (cut: string | undefined) => void,
): void => {
  res.writeHead(answer.statusCode ?? 502, answer.statusMessage ?? "", answerHeaders(answer.rawHeaders, setCookie));
  let settled = false;
  let wrote = false;
  const settle = (cut: string | undefined) => {
    if (settled) return;
    settled = true;
    if (cut !== undefined) cutAnswer(req, res);
    done(cut);
  };
  let reader: NodeJS.Timeout | undefined;
  answer.on("data", (chunk: Buffer) => {
    wrote = true;
    if (res.write(chunk)) return;
    answer.pause();
    // One who reads nothing at all holds a node.
    reader ??= setTimeout(() => giveUp(req.socket), readMs);
  });
  res.on("drain", () => {
    clearTimeout(reader);
    reader = undefined;
    answer.resume();
  });
  res.once("close", () => clearTimeout(reader));
  answer.on("end", () => {
    if (!answer.complete) return settle("broke off in the middle of its answer");
    wrote = true;
    const pairs: Array<[string, string]> = [];
    for (let index = 0; index < answer.rawTrailers.length; index += 2) {
      pairs.push([answer.rawTrailers[index] ?? "", answer.rawTrailers[index + 1] ?? ""]);
    }
    if (pairs.length > 0) res.addTrailers(pairs);
    res.end();
    settle(undefined);
  });
  answer.on("error", () => settle("broke off in the middle of its answer"));
  answer.on("close", () => settle("broke off in the middle of its answer"));
  // A small answer leaves in one packet with its head; the head of a stream that has nothing to say yet must not wait for it.
  setImmediate(() => {
    if (!wrote && !res.destroyed) res.flushHeaders();
  });
};
