import { z } from "zod";
import { wireTime } from "../../kernel/clock.js";
import { field } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { entityView } from "../events/event.js";
import { derivedNotices } from "./derived.js";
import type { Notice } from "./notices.js";

/** Contract 14.6. */
export const notificationFields = {
  label: field.read(z.string(), "A few words."),
  message: field.read(z.string(), "What is, why, and what to do."),
  body: field.read(z.string().nullable(), "Always null."),
  type: field.read(z.string(), "`outage`, `payment_due` or `notice`."),
  severity: field.read(z.enum(["minor", "major", "critical"]), "How much it matters."),
  when: field.read(z.string().nullable(), "Since when; UTC, `YYYY-MM-DDTHH:MM:SS`. Null when nobody knows."),
  until: field.read(z.string().nullable(), "When it is old news; null: it goes when its cause does."),
  entity: field.read(
    z.object({ id: z.union([z.int(), z.string()]), label: z.string(), type: z.string(), url: z.string() }).nullable(),
    "What it is about.",
  ),
};

const notificationView = ({ label, message, type, severity, entity, sinceMs, untilMs }: Notice) => ({
  label,
  message,
  body: null,
  type,
  severity,
  when: sinceMs === null ? null : wireTime(sinceMs),
  until: untilMs === undefined ? null : wireTime(untilMs),
  entity: entityView(entity),
});

const rank = { critical: 0, major: 1, minor: 2 };

export const notificationRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/notifications",
    scope: "account",
    summary: "Lists what needs attention now, the worst first.",
    answers: "list",
    shows: "Notification",
    run: ({ cloud }): Listing<Notice> => ({
      rows: [...cloud.notices.list(), ...derivedNotices(cloud)].toSorted((a, b) => rank[a.severity] - rank[b.severity]),
      view: notificationView,
      filterable: [],
      fieldValue: () => undefined,
    }),
  }),
];
