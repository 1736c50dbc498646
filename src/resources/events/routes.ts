import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import { filterableNames } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import { accountOf, updateAccount } from "../account/account.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { type EventRow, entityView, eventView } from "./event.js";
import { eventFields } from "./fields.js";

/** Contract 15.1: the last 90 days are shown. */
const shownMs = 90 * 24 * 3_600_000;

const isShown = (cloud: Pick<Cloud, "clock">, row: EventRow): boolean => row.createdMs >= cloud.clock.now() - shownMs;

const viewOf = (cloud: Cloud) => {
  const seenUpTo = accountOf(cloud.store).eventsSeen;
  return (row: EventRow) => eventView(row, cloud.clock.now(), seenUpTo);
};

const requireEvent = (reader: Pick<CloudStore | Tx, "get">, cloud: Pick<Cloud, "clock">, id: number | undefined): EventRow => {
  const row = reader.get("event", id ?? 0);
  if (!row || !isShown(cloud, row)) throw notFound();
  return row;
};

const fieldValue = (row: EventRow, name: string): unknown => {
  if (name === "created") return wireTime(row.createdMs);
  if (name === "entity.id") return row.entity?.id;
  if (name === "entity.type") return entityView(row.entity)?.type;
  return row[name as keyof EventRow];
};

const shownEvents = (cloud: Cloud): readonly EventRow[] => {
  const rows = cloud.store.list("event");
  // Events are in order of time, so most often none has to go.
  return rows[0] === undefined || isShown(cloud, rows[0]) ? rows : rows.filter((row) => isShown(cloud, row));
};

export const eventRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/events",
    scope: "events",
    summary: "Lists what happened, newest first.",
    answers: "list",
    shows: "Event",
    run: ({ cloud }): Listing<EventRow> => ({
      rows: shownEvents(cloud).toReversed(),
      view: viewOf(cloud),
      filterable: [...filterableNames(eventFields), "entity.id", "entity.type"],
      fieldValue,
    }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/events/:eventId",
    scope: "events",
    summary: "Reads one event.",
    answers: "one",
    shows: "Event",
    run: ({ cloud, params }) => viewOf(cloud)(requireEvent(cloud.store, cloud, params.eventId)),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: "/v4/account/events/:eventId/seen",
    scope: "events:read_only",
    summary: "Marks this event and all before it as seen.",
    answers: "empty",
    run: ({ cloud, params }) =>
      cloud.store.commit((tx) => {
        const { id } = requireEvent(tx, cloud, params.eventId);
        if (accountOf(tx).eventsSeen < id) updateAccount(tx, { eventsSeen: id });
      }),
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: "/v4/account/events/:eventId/read",
    scope: "events:read_only",
    summary: "Marks this event as read.",
    answers: "empty",
    run: ({ cloud, params }) => cloud.store.commit((tx) => void tx.update("event", requireEvent(tx, cloud, params.eventId).id, { read: true })),
  }),
];
