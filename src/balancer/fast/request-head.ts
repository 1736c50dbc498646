import { fieldEnd, isPlainHost, isPlainTarget, mayBeOneOf, parseLength, tokenEnd, trimmed } from "./characters.js";

/** What the fast lane knows of a request whose head it is certain of. */
export interface PlainRequest {
  method: string;
  /** Head for the node without the fields a balancer adds and without the empty line at its end. */
  kept: string;
  /** Bytes of the body; `chunked` when it comes in chunks. */
  body: number | "chunked";
  /** The client wants the connection closed after the answer. */
  close: boolean;
  /** All `Cookie` fields, joined. */
  cookie: string | undefined;
  /** All `X-Forwarded-For` fields, joined. */
  forwardedFor: string | undefined;
}

/** Methods that Node's parser, and so the careful lane, knows as well. */
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH"]);
/** Methods that say nothing of a body when they have none; for the others a length of 0 is stated (RFC 9110 section 8.6). */
const BODILESS = new Set(["GET", "HEAD", "DELETE", "OPTIONS"]);
/** In order, RFC 9110 section 9.2.2: may be sent again. */
export const isIdempotent = (method: string): boolean => method !== "POST" && method !== "PATCH";

/** Fields whose meaning lies beyond a plain request: upgrades, expectations, announced trailers. */
const UNPLAIN = new Set(["upgrade", "expect", "trailer", "http2-settings"]);
const DROPPED = new Set(["keep-alive", "proxy-connection", "te", "x-forwarded-proto", "x-forwarded-port"]);
/** A client that names these in `Connection` means something we do not want to guess. */
const NEVER_NAMED = new Set(["host", "content-length", "transfer-encoding", "cookie", "x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"]);
const mayMatter = mayBeOneOf(["host", "content-length", "transfer-encoding", "connection", "cookie", "x-forwarded-for", ...UNPLAIN, ...DROPPED]);

const joined = (before: string | undefined, separator: string, value: string): string =>
  before === undefined ? value : `${before}${separator}${value}`;

/**
 * Reads a request head by the letter of RFC 9112: the first `size` characters of `text` (latin1), from the request line to the CRLF of the last
 * field, without the empty line.
 * `undefined` is no refusal: it says that this reader is not certain, and the careful lane is to look.
 */
export const plainRequest = (text: string, size: number, dropped?: ReadonlySet<string>): PlainRequest | undefined => {
  const methodEnd = text.indexOf(" ");
  const method = text.slice(0, methodEnd);
  if (!METHODS.has(method)) return undefined;
  const lineEnd = text.indexOf("\r\n");
  const targetEnd = lineEnd - 9;
  if (targetEnd <= methodEnd + 1 || text.charCodeAt(methodEnd + 1) !== 47 || text.slice(targetEnd, lineEnd) !== " HTTP/1.1") return undefined;
  if (!isPlainTarget(text, methodEnd + 1, targetEnd)) return undefined;

  let kept = "";
  let keptFrom = 0;
  let hosts = 0;
  let length = -1;
  let chunked = false;
  let close = false;
  let cookie: string | undefined;
  let forwardedFor: string | undefined;
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
      case "host": {
        const value = trimmed(text, colon + 1, end);
        if (++hosts > 1 || value === "" || !isPlainHost(value, 0, value.length)) return undefined;
        break;
      }
      case "content-length":
        if (length !== -1 || chunked) return undefined;
        length = parseLength(trimmed(text, colon + 1, end));
        if (length === -1) return undefined;
        break;
      case "transfer-encoding":
        if (length !== -1 || chunked || trimmed(text, colon + 1, end).toLowerCase() !== "chunked") return undefined;
        chunked = true;
        break;
      case "connection":
        for (const part of text.slice(colon + 1, end).split(",")) {
          const token = trimmed(part, 0, part.length).toLowerCase();
          if (token === "close") close = true;
          else if (token !== "keep-alive" && token !== "") {
            if (NEVER_NAMED.has(token) || UNPLAIN.has(token)) return undefined;
            named ??= new Set();
            named.add(token);
          }
        }
        drop = true;
        break;
      case "cookie":
        cookie = joined(cookie, "; ", trimmed(text, colon + 1, end));
        break;
      case "x-forwarded-for":
        forwardedFor = joined(forwardedFor, ", ", trimmed(text, colon + 1, end));
        drop = true;
        break;
      default:
        if (UNPLAIN.has(name)) return undefined;
        drop = DROPPED.has(name) || dropped?.has(name) === true;
    }
    if (drop) {
      kept += text.slice(keptFrom, at);
      keptFrom = end + 2;
    }
    at = end + 2;
  }
  if (hosts !== 1) return undefined;
  if (named !== undefined && dropped === undefined) return plainRequest(text, size, named);
  kept += text.slice(keptFrom, size);
  if (!chunked && length === -1 && !BODILESS.has(method)) kept += "Content-Length: 0\r\n";
  return { method, kept, body: chunked ? "chunked" : Math.max(length, 0), close, cookie, forwardedFor };
};
