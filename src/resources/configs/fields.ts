import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";
import { nodeBody } from "../nodes/fields.js";

const Pattern = z
  .string()
  .max(255, "Must be at most 255 characters.")
  .refine((value) => {
    try {
      new RegExp(value);
      return true;
    } catch {
      return false;
    }
  }, "Must be a regular expression.");

/** Description 2.2 and contract 8.2. Times are seconds, before `--speed`. */
export const configFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused.", { source: "description" }),
  label: field.write(text(0, 128), "Name.", { source: "description" }),
  port: field.write(integer(1, 65535), "Port the balancer listens on, unique in the balancer; 80 when left out.", { source: "description" }),
  protocol: field.write(z.enum(["http", "https", "tcp", "udp"]), "`https` ends TLS here. Default `http`.", { source: "description" }),
  algorithm: field.write(
    z.enum(["roundrobin", "leastconn", "source", "ring_hash"]),
    "How a node is chosen. Default `roundrobin`; `ring_hash` is for udp.",
  ),
  stickiness: field.write(
    z.enum(["none", "table", "http_cookie", "session", "source_ip"]),
    "How a client keeps its node. Default `none`; udp `session`.",
  ),
  check: field.write(z.enum(["none", "connection", "http", "http_body"]), "Health check. Default `none`.", { source: "description" }),
  checkInterval: field.write(integer(2, 3600), "Seconds between two checks, more than the timeout. Default 31."),
  checkTimeout: field.write(integer(1, 30), "Seconds a check may take. Default 30."),
  checkAttempts: field.write(integer(1, 30), "Failures in a row that take a node out. Default 3."),
  checkPath: field.write(
    z
      .string()
      .max(2048)
      .regex(/^(\/[a-zA-Z0-9/\-%?&=._~]*)?$/, "Must begin with a slash and hold letters, digits and /-%?&=._~ only."),
    "Path of an http check.",
  ),
  checkBody: field.write(Pattern, "Regular expression the first 16,384 bytes of the answer must match."),
  checkPassive: field.write(z.boolean(), "Real requests that fail count against a node. Default true; always false for udp."),
  proxyProtocol: field.write(z.enum(["none", "v1", "v2"]), "PROXY header before the client's bytes; tcp only."),
  cipherSuite: field.write(z.enum(["recommended", "legacy", "none"]), "TLS ciphers; udp reads `none`."),
  udpCheckPort: field.write(integer(1, 65535), "Port that is checked for udp. Default 80."),
  sslCert: field.secret(z.string().nullable(), "PEM certificate, chain allowed; needed with https. Reads back `<REDACTED>`.", {
    source: "description",
    update: true,
    redacted: true,
  }),
  sslKey: field.secret(z.string().nullable(), "PEM private key without passphrase; needed with https. Reads back `<REDACTED>`.", {
    source: "description",
    update: true,
    redacted: true,
  }),
  nodes: field.secret(z.array(nodeBody), "Nodes to create with it.", { records: true }),
  balancerId: field.read(z.int(), "Its balancer."),
  sslCommonname: field.read(z.string(), "Common name of the certificate, empty without one."),
  sslFingerprint: field.read(z.string(), "SHA-1 of the certificate, colon separated, empty without one."),
  udpSessionTimeout: field.read(z.int(), "Seconds; always 16."),
  nodesStatus: field.read(z.object({ up: z.int(), down: z.int() }), "How many nodes are up and down, measured.", { source: "description" }),
  listener: field.read(
    z.object({
      status: z.enum(["open", "failed", "pending"]),
      address: z.string().nullable(),
      port: z.int().nullable(),
      reason: z.string().nullable(),
    }),
    "Where it really listens, or why it does not. Backlot's own member.",
    { source: "ours" },
  ),
};

const creatable = Object.entries(configFields).filter(([name, entry]) => entry.setter !== "read" && name !== "nodes");

/** A config inside a balancer's creation: at least one node (contract 8.1). */
export const configWithNodes = z.object({
  ...(Object.fromEntries(creatable.map(([name, entry]) => [name, entry.schema.nullish().transform((value) => value ?? undefined)])) as Record<
    never,
    never
  >),
  nodes: z.array(nodeBody).min(1, "At least one node is needed."),
});
