import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";

export const recordTypes = ["A", "AAAA", "NS", "MX", "CNAME", "TXT", "SRV", "PTR", "CAA"] as const;

/** A member that only one type has reads null elsewhere; clients send that back. */
const word = z
  .string()
  .regex(/^_?[a-zA-Z0-9]([a-zA-Z0-9-]{0,60}[a-zA-Z0-9])?$/, "Must be a word of letters, digits and dashes, with or without a leading underscore.")
  .nullable();

/** Description 2.7 and contract 12.1. */
export const recordFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused."),
  type: field.create(z.enum(recordTypes), "Decides what the other members mean.", { source: "description", required: true, filter: true }),
  name: field.write(text(0, 253), "Host name without the domain; empty for the domain itself. Of an SRV it is made of service and protocol.", {
    source: "description",
    filter: true,
  }),
  target: field.write(
    text(0, 65_535),
    "Address, host name or text, by type. `[remote_addr]` is the caller's address (A, AAAA). A host name without a dot has the domain appended.",
    { source: "description", filter: true },
  ),
  priority: field.write(integer(0, 255), "MX and SRV."),
  weight: field.write(integer(0, 65_535), "SRV."),
  port: field.write(integer(0, 65_535), "SRV."),
  service: field.write(word, "SRV; `_` is put in front."),
  protocol: field.write(word, "SRV; `_` is put in front."),
  ttlSec: field.write(integer(0, 2 ** 31 - 1), "Seconds, rounded up to an allowed step; 0 is the domain's."),
  tag: field.write(z.enum(["issue", "issuewild", "iodef"]).nullable(), "CAA.", { filter: true }),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
};
