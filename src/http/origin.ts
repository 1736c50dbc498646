import type { IncomingMessage } from "node:http";
import { isIP } from "node:net";
import { hostname } from "node:os";
import { isLoopback } from "../kernel/addresses.js";
import { Fault, invalid } from "../kernel/fault.js";

/** The name in a `Host` value, without its port; undefined when it is malformed (RFC 9110 section 7.2). */
const nameOf = (host: string): string | undefined => {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(host);
  return (match?.[1] ?? match?.[2])?.toLowerCase();
};

/**
 * A page that rebinds its own name to our address still sends that name, so names are let in only when they are this machine's;
 * a literal address cannot be rebound.
 */
const isOurs = (name: string, bound: string): boolean =>
  isIP(name) !== 0 || name === "localhost" || name.endsWith(".localhost") || name === bound.toLowerCase() || name === hostname().toLowerCase();

const forbidden = (reason: string, field: string): Fault => new Fault("forbidden", [{ reason, field }]);

/**
 * Why a request is not answered at all: no Host or more than one (RFC 9112 section 3.2 asks for 400), a foreign Host (DNS rebinding), or a
 * foreign Origin that wants to change something (CSRF). `crossOrigin`: other origins are let in; a token still has to come with the request, and
 * the pages that know a person by a cookie judge the origin themselves.
 */
export const requestFault = (req: IncomingMessage, { host: bound, crossOrigin }: { host: string; crossOrigin: boolean }): Fault | undefined => {
  const hosts = req.headersDistinct.host ?? [];
  const name = hosts.length === 1 ? nameOf(hosts[0] ?? "") : undefined;
  if (name === undefined) return invalid("Exactly one, well-formed, is needed.", "Host");
  if (!isOurs(name, bound)) return forbidden("This name is not Backlot's; use localhost or an address.", "Host");
  const origin = req.headers.origin;
  if (crossOrigin || origin === undefined || req.method === "GET" || req.method === "HEAD" || req.method === "OPTIONS") return undefined;
  const from = URL.canParse(origin) ? nameOf(new URL(origin).host) : undefined;
  // An address is only an address: a page of ours names this machine, or what it was itself fetched from.
  const isPageOfOurs = from !== undefined && (from === name || (isIP(from) === 0 ? isOurs(from, bound) : isLoopback(from) || from === bound));
  return isPageOfOurs ? undefined : forbidden("A page from elsewhere may not change anything here.", "Origin");
};
