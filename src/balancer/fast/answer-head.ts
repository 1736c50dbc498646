import { fieldEnd, isFieldValue, mayBeOneOf, parseLength, tokenEnd, trimmed } from "./characters.js";

export interface PlainAnswer {
  status: number;
  /** Head for the client without what a balancer adds and without the empty line at its end. */
  kept: string;
  /** How the node frames the body: bytes, chunks, or the end of the connection. A `HEAD`, 204 or 304 has none whatever this says. */
  body: number | "chunked" | "until-closed";
  /** The node will take another request on this connection. */
  reusable: boolean;
  dated: boolean;
  /** An early hint that a client can use (103). */
  linked: boolean;
}

const DROPPED = new Set(["keep-alive", "proxy-connection", "te", "trailer", "upgrade"]);
const KEPT = new Set(["host", "content-length"]);
const mayMatter = mayBeOneOf(["content-length", "transfer-encoding", "connection", "date", "link", ...DROPPED]);

/** `HTTP/1.x NNN`, then the end or a space and a reason. The status, or -1. */
const statusOf = (text: string, lineEnd: number): number => {
  if (!text.startsWith("HTTP/1.") || lineEnd < 12 || text.charCodeAt(8) !== 32 || (lineEnd > 12 && text.charCodeAt(12) !== 32)) return -1;
  const minor = text.charCodeAt(7);
  if ((minor !== 48 && minor !== 49) || !isFieldValue(text, 12, lineEnd)) return -1;
  const status = parseLength(text.slice(9, 12));
  return status >= 100 ? status : -1;
};

/**
 * Reads the head of a node's answer: the first `size` characters of `text` (latin1), without the empty line. `undefined`: it is not HTTP, or
 * framed in a way that two readers could understand differently (RFC 9112 section 6.3); the client is told 502.
 */
export const plainAnswer = (text: string, size: number, dropped?: ReadonlySet<string>): PlainAnswer | undefined => {
  const lineEnd = text.indexOf("\r\n");
  const status = statusOf(text, lineEnd);
  if (status === -1) return undefined;
  const old = text.charCodeAt(7) === 48;

  // A status line has its second space even without a reason (RFC 9112 section 4).
  const bare = lineEnd === 12;
  let kept = old || bare ? `HTTP/1.1${text.slice(8, 12)}${bare ? " " : ""}` : "";
  let keptFrom = old || bare ? 12 : 0;
  let length = -1;
  let chunked = false;
  let close = old;
  let dated = false;
  let linked = false;
  let named: Set<string> | undefined;

  for (let at = lineEnd + 2; at < size; ) {
    const colon = tokenEnd(text, at);
    const end = fieldEnd(text, at, colon);
    if (end === -1) return undefined;
    if (dropped === undefined && !mayMatter(text, at, colon)) {
      at = end + 2;
      continue;
    }
    let drop = false;
    const name = text.slice(at, colon).toLowerCase();
    switch (name) {
      case "content-length":
        if (length !== -1 || chunked) return undefined;
        length = parseLength(trimmed(text, colon + 1, end));
        if (length === -1) return undefined;
        break;
      case "transfer-encoding":
        if (length !== -1 || chunked || old || trimmed(text, colon + 1, end).toLowerCase() !== "chunked") return undefined;
        chunked = true;
        drop = true;
        break;
      case "connection":
        for (const part of text.slice(colon + 1, end).split(",")) {
          const token = trimmed(part, 0, part.length).toLowerCase();
          if (token === "close") close = true;
          else if (token !== "keep-alive" && token !== "" && !KEPT.has(token)) {
            named ??= new Set();
            named.add(token);
          }
        }
        drop = true;
        break;
      case "date":
        dated = true;
        break;
      case "link":
        linked = true;
        break;
      default:
        drop = DROPPED.has(name);
    }
    if (drop || dropped?.has(name)) {
      kept += text.slice(keptFrom, at);
      keptFrom = end + 2;
    }
    at = end + 2;
  }
  if (named !== undefined && dropped === undefined) return plainAnswer(text, size, named);
  kept += text.slice(keptFrom, size);
  return { status, kept, body: chunked ? "chunked" : length === -1 ? "until-closed" : length, reusable: !close, dated, linked };
};
