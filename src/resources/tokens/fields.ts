import { z } from "zod";
import { field, text } from "../../kernel/field.js";
import { unknownScopes } from "./scopes.js";

const isTime = (value: string): boolean => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ?$/.test(value) && !Number.isNaN(Date.parse(value.replace(/Z?$/, "Z")));

const Scopes = z.string().superRefine((value, context) => {
  for (const scope of unknownScopes(value).slice(0, 20)) {
    context.addIssue({ code: "custom", message: `${JSON.stringify(scope.slice(0, 60))} is no scope; write WORD:read_only, WORD:read_write or *.` });
  }
});

/** Contract 4.3. */
export const tokenFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused."),
  label: field.write(text(1, 100), "Name for people.", { filter: true }),
  scopes: field.create(Scopes, "What it may do, separated by spaces; left out or `*`: the same as the token that asks."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`.", { filter: true }),
  expiry: field.create(
    z.string().refine(isTime, "Must be a time in UTC, YYYY-MM-DDTHH:MM:SS.").nullable(),
    "When it ends, UTC; null or left out: never.",
    { filter: true },
  ),
  token: field.read(z.string(), "64 hex digits, in this one answer; from then on the first 16."),
};
