import { type ServerResponse, STATUS_CODES } from "node:http";
import type { Refusal } from "./headers.js";

/**
 * The answers of the balancer itself, in `X-Backlot-Reason` and as a sentence in a small text page:
 * `no-node-up` (503), `no-node-reached` (503: all usable nodes refused or did not accept in time), `node-broke-off` (502), `node-malformed`
 * (502), `node-timed-out` (504), `bad-request` (400), `version` (505), `transfer-encoding`, `connect` (501), `expectation` (417),
 * `too-large` (431, 413), `too-slow` (408).
 */
const REASON_FIELD = "X-Backlot-Reason";

const page = (refusal: Refusal): string => `${refusal.status} ${STATUS_CODES[refusal.status] ?? ""}\n${refusal.sentence}\n`;

/** Answers a request that no node has answered. `close` when the rest of its body cannot be trusted. */
export const answerRefusal = (res: ServerResponse, refusal: Refusal, close: boolean): void => {
  if (res.headersSent || res.destroyed) return;
  const text = page(refusal);
  const headers = ["Content-Type", "text/plain; charset=utf-8", "Content-Length", String(Buffer.byteLength(text)), "Cache-Control", "no-store"];
  headers.push(REASON_FIELD, refusal.token);
  if (close) headers.push("Connection", "close");
  res.writeHead(refusal.status, headers);
  res.end(text);
};

/** The same as bytes (latin1), where there is no ServerResponse to use. `toHead`: the answer to a HEAD request has no body. */
export const rawRefusal = (refusal: Refusal, close = true, toHead = false): string => {
  const text = page(refusal);
  return [
    `HTTP/1.1 ${refusal.status} ${STATUS_CODES[refusal.status] ?? ""}`,
    "Content-Type: text/plain; charset=utf-8",
    `Content-Length: ${Buffer.byteLength(text)}`,
    "Cache-Control: no-store",
    `${REASON_FIELD}: ${refusal.token}`,
    ...(close ? ["Connection: close"] : []),
    "",
    toHead ? "" : Buffer.from(text).toString("latin1"),
  ].join("\r\n");
};

/** No usable node is left to ask. `reasons`: those asked and why in vain; `replayed`: one of them may have read the request. Pure. */
export const noNodeLeft = (reasons: readonly string[], replayed: boolean): Refusal => {
  if (reasons.length === 0) return { status: 503, token: "no-node-up", sentence: "No node of this balancer is up." };
  if (replayed) return { status: 502, token: "node-broke-off", sentence: `${reasons.join("; ")}.` };
  return { status: 503, token: "no-node-reached", sentence: `No node could be reached: ${reasons.join("; ")}.` };
};

/** What Node's parser refused, in words. `undefined`: there is nobody to tell. */
export const parserRefusal = (code: string | undefined): Refusal | undefined => {
  switch (code) {
    case "ECONNRESET":
    case "EPIPE":
      return undefined;
    case "HPE_HEADER_OVERFLOW":
      return { status: 431, token: "too-large", sentence: "The request head is too large." };
    case "HPE_CHUNK_EXTENSIONS_OVERFLOW":
      return { status: 413, token: "too-large", sentence: "The chunk extensions are too large." };
    case "ERR_HTTP_REQUEST_TIMEOUT":
      return { status: 408, token: "too-slow", sentence: "The request head did not arrive in time." };
    default:
      return { status: 400, token: "bad-request", sentence: `This is not an HTTP/1.1 request${code?.startsWith("HPE_") ? ` (${code})` : ""}.` };
  }
};
