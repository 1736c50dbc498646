import type { Problem } from "../../kernel/fault.js";
import { type CreateBody, createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Call, type Listing, route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { type DomainRow, domainEntity, requireDomain, touchDomain } from "../domains/domain.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { recordFields } from "./fields.js";
import { type RecordRow, recordsOf, recordView, requireRecord } from "./record.js";
import { absoluteName, type RecordWanted, recordContent, recordProblems } from "./rules.js";

type RecordCreate = CreateBody<typeof recordFields>;
type RecordUpdate = UpdateBody<typeof recordFields>;

/** Every change of a record moves the domain's serial and is an event of the domain that names the record (contract 15.1). */
const tell = (
  tx: Tx,
  cloud: Cloud,
  domain: DomainRow,
  action: string,
  record: Pick<RecordRow, "name" | "type">,
  username: string | undefined,
): void => {
  const row = touchDomain(tx, cloud, domain);
  const message = absoluteName(record.name, row.domain);
  recordEvent(tx, cloud, { action: `domain_record_${action}`, entity: domainEntity(row), username: username ?? null, message });
};

/** Without a type nothing can be said of the rest. */
const rulesOf = (call: Call<Cloud, RecordWanted>, flagged: ReadonlySet<string>, row: RecordRow | undefined): Problem[] => {
  if (!row && call.body.type === undefined) return [];
  const domain = requireDomain(call.cloud.store, call.params.domainId);
  return recordProblems(call.cloud.store, domain, recordContent(domain.domain, call.body, row, call.remoteAddress), row, flagged);
};

export const recordRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/domains/:domainId/records",
    scope: "domains",
    summary: "Lists a domain's records.",
    answers: "list",
    shows: "Record",
    run: ({ cloud, params }): Listing<RecordRow> => ({
      rows: recordsOf(cloud.store, requireDomain(cloud.store, params.domainId).id),
      view: recordView,
      filterable: filterableNames(recordFields),
      fieldValue: (row, name) => row[name as keyof RecordRow],
    }),
  }),
  route<Cloud, RecordCreate>({
    method: "POST",
    path: "/v4/domains/:domainId/records",
    scope: "domains",
    summary: "Adds a record; it is answered at once.",
    body: createSchema(recordFields),
    answers: "one",
    shows: "Record",
    rules: (call, flagged) => rulesOf(call, flagged, undefined),
    run: ({ cloud, params, body, caller, remoteAddress }) =>
      cloud.store.commit((tx) => {
        const domain = requireDomain(tx, params.domainId);
        const content = recordContent(domain.domain, body, undefined, remoteAddress);
        refuse(recordProblems(tx, domain, content, undefined));
        const now = cloud.clock.now();
        const row = tx.insert("record", { ...content, domainId: domain.id, createdMs: now, updatedMs: now });
        tell(tx, cloud, domain, "create", row, caller?.username);
        return recordView(row);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/domains/:domainId/records/:recordId",
    scope: "domains",
    summary: "Reads one record.",
    answers: "one",
    shows: "Record",
    run: ({ cloud, params }) => recordView(requireRecord(cloud.store, requireDomain(cloud.store, params.domainId).id, params.recordId)),
  }),
  route<Cloud, RecordUpdate>({
    method: "PUT",
    path: "/v4/domains/:domainId/records/:recordId",
    scope: "domains",
    summary: "Updates a record; members left out stay, and so does its type.",
    body: updateSchema(recordFields),
    answers: "one",
    shows: "Record",
    rules: (call, flagged) => {
      const domain = requireDomain(call.cloud.store, call.params.domainId);
      return rulesOf(call, flagged, requireRecord(call.cloud.store, domain.id, call.params.recordId));
    },
    run: ({ cloud, params, body, caller, remoteAddress }) =>
      cloud.store.commit((tx) => {
        const domain = requireDomain(tx, params.domainId);
        const row = requireRecord(tx, domain.id, params.recordId);
        const content = recordContent(domain.domain, body, row, remoteAddress);
        refuse(recordProblems(tx, domain, content, row));
        const updated = tx.update("record", row.id, { ...content, updatedMs: cloud.clock.now() });
        tell(tx, cloud, domain, "update", updated, caller?.username);
        return recordView(updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/domains/:domainId/records/:recordId",
    scope: "domains",
    summary: "Deletes a record.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const domain = requireDomain(tx, params.domainId);
        const row = requireRecord(tx, domain.id, params.recordId);
        tx.remove("record", row.id);
        tell(tx, cloud, domain, "delete", row, caller?.username);
      }),
  }),
];
