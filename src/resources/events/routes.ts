import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import { filterableNames } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { type EventRow, eventView } from "./event.js";
import { eventFields } from "./fields.js";

const fieldValue = (row: EventRow, name: string): unknown => {
  if (name === "created") return wireTime(row.createdMs);
  if (name === "entity.id") return row.entity?.id;
  if (name === "entity.type") return eventView(row, 0).entity?.type;
  return row[name as keyof EventRow];
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
      rows: cloud.store.list("event").toReversed(),
      view: (row) => eventView(row, cloud.clock.now()),
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
    run: ({ cloud, params }) => {
      const row = cloud.store.get("event", params.eventId ?? 0);
      if (!row) throw notFound();
      return eventView(row, cloud.clock.now());
    },
  }),
];
