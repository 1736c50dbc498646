import { z } from "zod";
import { field, integer, text } from "../../kernel/field.js";
import { Tags } from "../instances/fields.js";

/** Contract 12, word for word; a name's parts are at most 63 letters each (RFC 1035 section 2.3.4). */
const domainName = /^(\*\.)?([a-zA-Z0-9-_]{1,63}\.)+([a-zA-Z]{2,3}\.)?([a-zA-Z]{2,16}|xn--[a-zA-Z0-9]+)$/;
export const DomainName = z.string().max(253, "Length must be 1-253 characters").regex(domainName, "Is not valid; a name such as example.test is.");

/** Clients send back what they read, and a domain without an address reads "". */
const Email = z
  .string()
  .max(253, "Length must be 0-253 characters")
  .regex(/^([^\s@<>"\\]{1,64}@[a-zA-Z0-9_-]+(\.[a-zA-Z0-9_-]+)*\.?)?$/, "Is not a valid mail address.");

const seconds = integer(0, 2 ** 31 - 1);

/** Description 2.7 ("fields of the domain: not shown") and contract 12. */
export const domainFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused."),
  type: field.write(z.enum(["master", "slave"]), "`master`: the records are here. `slave`: they are fetched from `master_ips`.", { required: true }),
  domain: field.write(DomainName, "The name, unique.", { required: true, filter: true }),
  group: field.write(text(0, 50), "Old word to group by.", { filter: true }),
  status: field.write(
    z.enum(["active", "disabled", "edit_mode", "has_errors"]),
    "`disabled` and `edit_mode` are not answered for. `has_errors` is ours to say: then `errors` tells why.",
  ),
  description: field.write(text(0, 253), "For people."),
  soaEmail: field.write(Email, "Who is responsible; needed for a master."),
  retrySec: field.write(seconds, "SOA retry, rounded up to an allowed step; 0 means 14400."),
  masterIps: field.write(
    z.array(z.string().max(300, "Length must be 1-300 characters")).max(100, "Must hold at most 100 entries."),
    "Where a slave is fetched from; needed for a slave. A port other than 53 may follow a colon.",
  ),
  axfrIps: field.write(z.array(z.string()).max(100, "Must hold at most 100 entries."), "Who may fetch the whole zone (AXFR)."),
  expireSec: field.write(seconds, "SOA expire, rounded up to an allowed step; 0 means 1209600."),
  refreshSec: field.write(seconds, "SOA refresh, rounded up to an allowed step; 0 means 14400."),
  ttlSec: field.write(seconds, "TTL of records without one of their own, rounded up to an allowed step; 0 means 86400."),
  tags: field.write(Tags, "Words to group by.", { filter: true }),
  errors: field.read(z.string(), "Why `status` is `has_errors`; else empty."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  updated: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
};

/** `POST …/import` (contract 12 "Actions"): one of the two sources. */
export const importFields = {
  domain: field.create(DomainName, "The name, unique.", { required: true }),
  remoteNameserver: field.create(
    z.string().max(300, "Length must be 1-300 characters"),
    "Name server that gives the whole zone (AXFR). A port other than 53 may follow a colon.",
  ),
  zoneFile: field.create(z.string().max(2_000_000, "Length must be 1-2000000 characters"), "The text of a zone file, instead of a name server.", {
    source: "ours",
  }),
};
