import type { NodeScript, Outcome } from "./wire.js";

/**
 * One conversation of a client with the balancer, and how RFC 9110 or 9112 says that it ends. The same row is run over both lanes, over the
 * careful lane alone and over HAProxy.
 */
export interface Case {
  name: string;
  /** Document and section, such as `9112 6.3`. */
  rfc: string;
  /** Bytes of the client, latin1; a list is sent piece by piece. */
  say: string | readonly string[];
  /** The client sends FIN after its last byte. */
  half?: true;
  node?: NodeScript;
  /** Status of each answer. */
  answers: readonly number[];
  /** The balancer closes afterwards. Left out: the connection takes another request, and the suite asks one. */
  closed?: true;
  /** How many requests the node gets; left out: as many as there are answers of 2xx or 3xx. */
  seen?: number;
  /** The last answer lacks its end. */
  cut?: true;
  /** More to insist on. */
  check?(outcome: Outcome): void;
  /** Which lane answers. Left out: the fast one. */
  lane?: "careful";
  /** Where HAProxy 2.6 does something else that the RFC allows too, or that we do not want: what, and why. `check` does not hold then. `skip`: it cannot be compared at all. */
  haproxy?: { answers?: readonly number[]; closed?: true | false; seen?: number; cut?: boolean; skip?: true; why: string };
}

export const get = (target = "/", ...fields: string[]): string => ask("GET", target, fields);
export const ask = (method: string, target: string, fields: readonly string[] = [], body = ""): string =>
  `${method} ${target} HTTP/1.1\r\nHost: test.example\r\n${fields.map((field) => `${field}\r\n`).join("")}\r\n${body}`;
export const post = (body: string, ...fields: string[]): string => ask("POST", "/", [`Content-Length: ${body.length}`, ...fields], body);
export const chunks = (text: string, ...fields: string[]): string => ask("POST", "/", ["Transfer-Encoding: chunked", ...fields], text);
export const raw = (...lines: string[]): string => `${lines.join("\r\n")}\r\n\r\n`;
