/** A flat list name, value, name, value … as Node's `rawHeaders`: order, case and repetition survive. */
export type RawHeaders = readonly string[];

/**
 * Fields about one connection only (RFC 9110 section 7.6.1). `trailer` goes too: Node refuses it where the framing cannot carry trailers, and
 * the trailers themselves are passed on without it.
 */
const HOP_BY_HOP = new Set(["connection", "keep-alive", "proxy-connection", "te", "trailer", "transfer-encoding", "upgrade"]);

/** A peer that lists these in `Connection` would make us drop what routing and framing need. */
const KEPT = new Set(["host", "content-length"]);

const OVERWRITTEN = new Set(["x-forwarded-for", "x-forwarded-proto", "x-forwarded-port"]);

/** Methods for which Node adds no framing of its own when there is no body. */
const BODILESS_BY_DEFAULT = new Set(["GET", "HEAD", "DELETE", "OPTIONS", "TRACE"]);

/** RFC 9110 section 9.2.2. */
const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);

/** Every value of a field, in order. */
const fieldValues = (raw: RawHeaders, name: string): string[] => {
  const values: string[] = [];
  for (let index = 0; index < raw.length; index += 2) if (raw[index]?.toLowerCase() === name) values.push(raw[index + 1] ?? "");
  return values;
};

const namedByConnection = (raw: RawHeaders): ReadonlySet<string> | undefined => {
  const values = fieldValues(raw, "connection");
  if (values.length === 0) return undefined;
  return new Set(
    values
      .join(",")
      .split(",")
      .map((token) => token.trim().toLowerCase())
      .filter((token) => !KEPT.has(token)),
  );
};

const endToEnd = (raw: RawHeaders, dropped: ReadonlySet<string> | undefined): string[] => {
  const named = namedByConnection(raw);
  const kept: string[] = [];
  for (let index = 0; index < raw.length; index += 2) {
    const name = raw[index] ?? "";
    const lower = name.toLowerCase();
    if (!HOP_BY_HOP.has(lower) && !named?.has(lower) && !dropped?.has(lower)) kept.push(name, raw[index + 1] ?? "");
  }
  return kept;
};

export interface RequestHead {
  method: string;
  target: string;
  raw: RawHeaders;
}

export interface Arrival {
  /** Address of the client. */
  client: string;
  proto: "http" | "https";
  /** The port the client connected to. */
  port: number;
}

const isChunked = (raw: RawHeaders): boolean => fieldValues(raw, "transfer-encoding").length > 0;

export const hasBody = (raw: RawHeaders): boolean => isChunked(raw) || fieldValues(raw, "content-length").some((value) => !/^0+$/.test(value));

/** May be sent a second time when a kept connection turns out to be dead. */
export const isReplayable = (head: RequestHead): boolean => IDEMPOTENT.has(head.method) && !hasBody(head.raw);

/** The authority of an absolute-form target, RFC 9112 section 3.2.2. */
const targetAuthority = (target: string): string | undefined => /^https?:\/\/([^/?#]+)/i.exec(target)?.[1];

/**
 * What the node is sent. The framing is stated anew, so what the node reads is what we read: chunked stays chunked for every method
 * (CVE-2026-29057), and a body-less request never becomes a chunked one. `upgrade` is kept when the connection is to be handed over.
 */
export const requestHeaders = (head: RequestHead, arrival: Arrival, upgrade?: string): string[] => {
  const authority = targetAuthority(head.target);
  const headers = endToEnd(head.raw, OVERWRITTEN);
  if (authority !== undefined) {
    const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === "host");
    if (at >= 0) headers[at + 1] = authority;
    else headers.unshift("Host", authority);
  }
  headers.push(
    "X-Forwarded-For",
    [...fieldValues(head.raw, "x-forwarded-for"), arrival.client].join(", "),
    "X-Forwarded-Proto",
    arrival.proto,
    "X-Forwarded-Port",
    String(arrival.port),
  );
  if (isChunked(head.raw)) headers.push("Transfer-Encoding", "chunked");
  else if (!BODILESS_BY_DEFAULT.has(head.method) && fieldValues(head.raw, "content-length").length === 0) headers.push("Content-Length", "0");
  if (upgrade !== undefined) headers.push("Connection", "Upgrade", "Upgrade", upgrade);
  return headers;
};

/** What the client is sent. Node states the framing: the node's Content-Length when there is one, else what the client's version can read. */
export const answerHeaders = (raw: RawHeaders, setCookie: string | undefined): string[] => {
  const headers = endToEnd(raw, undefined);
  if (setCookie !== undefined) headers.push("Set-Cookie", setCookie);
  return headers;
};

/** Status line and fields of an accepted upgrade, as bytes for the client's socket (latin1). */
export const upgradeHead = (statusMessage: string, raw: RawHeaders, setCookie: string | undefined): string => {
  const headers = answerHeaders(raw, setCookie);
  headers.push("Connection", "Upgrade");
  for (const protocol of fieldValues(raw, "upgrade")) headers.push("Upgrade", protocol);
  let text = `HTTP/1.1 101 ${statusMessage || "Switching Protocols"}\r\n`;
  for (let index = 0; index < headers.length; index += 2) text += `${headers[index]}: ${headers[index + 1]}\r\n`;
  return `${text}\r\n`;
};

/** Whether a node's answer is framed so that every reader understands it alike (RFC 9112 section 6); Node's parser takes more than that. */
export const isPlainlyFramed = (raw: RawHeaders, version: string): boolean => {
  if (version !== "1.1" && version !== "1.0") return false;
  const codings = fieldValues(raw, "transfer-encoding");
  return codings.length === 0 || (version === "1.1" && codings.length === 1 && codings[0]?.trim().toLowerCase() === "chunked");
};

export interface Refusal {
  status: number;
  /** For `X-Backlot-Reason`. */
  token: string;
  /** For people. */
  sentence: string;
}

/** Why a request that Node's parser let through must not be forwarded (RFC 9112 sections 2.3, 3.2, 6.1). */
export const requestRefusal = (head: RequestHead, version: string): Refusal | undefined => {
  const bad = (sentence: string): Refusal => ({ status: 400, token: "bad-request", sentence });
  if (version === "0.9") return bad("HTTP/0.9 is not spoken here.");
  if (version !== "1.1" && version !== "1.0") return { status: 505, token: "version", sentence: `HTTP/${version} is not spoken here.` };
  const hosts = fieldValues(head.raw, "host");
  if (hosts.length > 1) return bad("The request has more than one Host field.");
  if (hosts.length === 0 && version === "1.1") return bad("The request has no Host field.");
  if (/[\s,/\\?#@]/.test(hosts[0]?.trim() ?? "")) return bad("The Host field is not a host name.");
  if (!head.target.startsWith("/") && targetAuthority(head.target) === undefined && !(head.target === "*" && head.method === "OPTIONS")) {
    return bad("The request target is neither a path nor a URL.");
  }
  const codings = fieldValues(head.raw, "transfer-encoding");
  if (codings.length > 0) {
    if (version === "1.0") return bad("HTTP/1.0 has no Transfer-Encoding.");
    if (fieldValues(head.raw, "content-length").length > 0) return bad("The request has both Content-Length and Transfer-Encoding.");
    if (codings.length > 1 || codings[0]?.trim().toLowerCase() !== "chunked") {
      return { status: 501, token: "transfer-encoding", sentence: "Only the chunked transfer coding is spoken here." };
    }
  }
  return undefined;
};
