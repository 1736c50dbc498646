import { z } from "zod";
import type { Problem } from "../../kernel/fault.js";
import { type CreateBody, createSchema, customSchema, filterableNames, updateSchema } from "../../kernel/field.js";
import { nextSerial } from "../../kernel/names.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { recordsOf } from "../records/record.js";
import { zoneOfRows } from "../records/zone.js";
import { type DomainRow, domainEntity, domainView, requireDomain, touchDomain, ttlStep } from "./domain.js";
import { DomainName, domainFields } from "./fields.js";
import { type DomainWanted, domainProblems, nameProblems } from "./rules.js";
import { zoneLines } from "./zone-text.js";

type DomainCreate = CreateBody<typeof domainFields>;

/** The members that are kept otherwise than they came. `has_errors` is ours to say: a client that sends it back means "as it is". */
const settled = ({ status, ...wanted }: DomainWanted): Partial<Omit<DomainRow, "id">> => {
  const steps = (["ttlSec", "refreshSec", "retrySec", "expireSec"] as const).flatMap((name) => {
    const seconds = wanted[name];
    return seconds === undefined ? [] : [[name, ttlStep(seconds)]];
  });
  const given = Object.fromEntries(Object.entries(wanted).filter(([, value]) => value !== undefined));
  return { ...given, ...Object.fromEntries(steps), ...(status === undefined || status === "has_errors" ? {} : { status }) };
};

export const insertDomain = (tx: Tx, cloud: Cloud, wanted: DomainCreate): DomainRow => {
  const now = cloud.clock.now();
  return tx.insert("domain", {
    type: wanted.type,
    domain: wanted.domain,
    group: "",
    status: "active",
    description: "",
    soaEmail: "",
    retrySec: 0,
    expireSec: 0,
    refreshSec: 0,
    ttlSec: 0,
    masterIps: [],
    axfrIps: [],
    tags: [],
    serial: nextSerial(0, now),
    createdMs: now,
    updatedMs: now,
    ...settled(wanted),
  });
};

const cloneDomain = (tx: Tx, cloud: Cloud, source: DomainRow, name: string): DomainRow => {
  const now = cloud.clock.now();
  const { id, ...rest } = source;
  const row = tx.insert("domain", { ...rest, domain: name, serial: nextSerial(0, now), createdMs: now, updatedMs: now });
  for (const { id: _, ...record } of recordsOf(tx, id)) tx.insert("record", { ...record, domainId: row.id, createdMs: now, updatedMs: now });
  return row;
};

const cloneBody = customSchema(z.object({ domain: DomainName }));

export const domainRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/domains",
    scope: "domains",
    summary: "Lists the account's domains.",
    answers: "list",
    shows: "Domain",
    run: ({ cloud }): Listing<DomainRow> => ({
      rows: cloud.store.list("domain"),
      view: (row) => domainView(cloud, row),
      filterable: filterableNames(domainFields),
      fieldValue: (row, name) => row[name as keyof DomainRow],
    }),
  }),
  route<Cloud, DomainCreate>({
    method: "POST",
    path: "/v4/domains",
    scope: "domains",
    summary: "Creates a domain; it is answered for at once.",
    body: createSchema(domainFields),
    answers: "one",
    shows: "Domain",
    rules: ({ cloud, body }) => domainProblems(cloud.store, body, undefined),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        refuse(domainProblems(tx, body, undefined));
        const row = insertDomain(tx, cloud, body);
        recordEvent(tx, cloud, { action: "domain_create", entity: domainEntity(row), username: caller?.username ?? null });
        return domainView(cloud, row);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/domains/:domainId",
    scope: "domains",
    summary: "Reads one domain.",
    answers: "one",
    shows: "Domain",
    run: ({ cloud, params }) => domainView(cloud, requireDomain(cloud.store, params.domainId)),
  }),
  route<Cloud, DomainWanted>({
    method: "PUT",
    path: "/v4/domains/:domainId",
    scope: "domains",
    summary: "Updates a domain; members left out stay.",
    body: updateSchema(domainFields),
    answers: "one",
    shows: "Domain",
    rules: ({ cloud, params, body }): Problem[] => domainProblems(cloud.store, body, requireDomain(cloud.store, params.domainId)),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireDomain(tx, params.domainId);
        refuse(domainProblems(tx, body, row));
        const updated = touchDomain(tx, cloud, tx.update("domain", row.id, settled(body)));
        recordEvent(tx, cloud, { action: "domain_update", entity: domainEntity(updated), username: caller?.username ?? null });
        return domainView(cloud, updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/domains/:domainId",
    scope: "domains",
    summary: "Deletes a domain with its records; its names are no longer answered for.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireDomain(tx, params.domainId);
        for (const record of recordsOf(tx, row.id)) tx.remove("record", record.id);
        tx.remove("domain", row.id);
        recordEvent(tx, cloud, { action: "domain_delete", entity: domainEntity(row), username: caller?.username ?? null });
      }),
  }),
  route<Cloud, { domain: string }>({
    method: "POST",
    path: "/v4/domains/:domainId/clone",
    scope: "domains",
    summary: "Makes another domain with the same settings and records.",
    body: cloneBody,
    answers: "one",
    shows: "Domain",
    rules: ({ cloud, body }) => nameProblems(cloud.store, body.domain, null),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const source = requireDomain(tx, params.domainId);
        refuse(nameProblems(tx, body.domain, null));
        const row = cloneDomain(tx, cloud, source, body.domain);
        recordEvent(tx, cloud, { action: "domain_create", entity: domainEntity(row), username: caller?.username ?? null });
        return domainView(cloud, row);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/domains/:domainId/zone-file",
    scope: "domains",
    summary: "The domain as lines of a zone file (RFC 1035 section 5).",
    answers: "one",
    run: ({ cloud, params }) => {
      const row = requireDomain(cloud.store, params.domainId);
      return { zoneFile: zoneLines(zoneOfRows(row, recordsOf(cloud.store, row.id))) };
    },
  }),
];
