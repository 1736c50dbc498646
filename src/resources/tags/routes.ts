import { z } from "zod";
import { notFound } from "../../kernel/fault.js";
import { type CreateBody, createSchema, field, text } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { type Entity, recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { assign, assignmentProblems, hasTag, memberNames, removeTag, taggedThings, tagLabels, type Wanted } from "./tag.js";

/** Contract 14.8. */
export const tagFields = { label: field.create(text(3, 50), "The word.", { required: true, filter: true }) };

export const taggedThingFields = {
  type: field.read(z.string(), "Kind of thing, e.g. `instance`."),
  data: field.read(z.record(z.string(), z.unknown()), "The whole thing."),
};

const ids = z.array(z.int().positive()).max(500, "Must hold at most 500 entries.");
const tagBody = createSchema({
  ...tagFields,
  ...Object.fromEntries(memberNames.map((name) => [name, field.secret(ids, `Ids of ${name} to give the tag to.`)])),
});
type TagWanted = CreateBody<typeof tagFields> & Wanted;

const tagEntity = (label: string): Entity => ({ kind: "tag", id: label, label });

export const tagRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/tags",
    scope: "account",
    summary: "Lists the tags, by name.",
    answers: "list",
    shows: "Tag",
    run: ({ cloud }): Listing<string> => ({
      rows: tagLabels(cloud.store),
      view: (label) => ({ label }),
      filterable: ["label"],
      fieldValue: (label) => label,
    }),
  }),
  route<Cloud, TagWanted>({
    method: "POST",
    path: "/v4/tags",
    scope: "account",
    summary: "Makes a tag, and gives it to what is named.",
    body: tagBody as never,
    answers: "one",
    shows: "Tag",
    rules: ({ cloud, body }, flagged) =>
      assignmentProblems(cloud.store, body as Wanted).filter(({ field: name }) => !flagged.has(name?.split("[")[0] ?? "")),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        refuse(assignmentProblems(tx, body as Wanted));
        const { label } = body;
        if (!hasTag(tx, label)) recordEvent(tx, cloud, { action: "tag_create", entity: tagEntity(label), username: caller?.username ?? null });
        if (!tx.list("tag").some((row) => row.label === label)) tx.insert("tag", { label });
        assign(tx, cloud.clock.now(), label, body as Wanted);
        return { label };
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/tags/:label",
    textParams: ["label"],
    scope: "account",
    summary: "Lists everything that carries a tag.",
    answers: "list",
    shows: "TaggedThing",
    run: ({ cloud, texts }): Listing<ReturnType<typeof taggedThings>[number]> => {
      const label = texts.label ?? "";
      if (!hasTag(cloud.store, label)) throw notFound();
      return { rows: taggedThings(cloud, label), view: ({ type, view }) => ({ type, data: view() }), filterable: [], fieldValue: () => undefined };
    },
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/tags/:label",
    textParams: ["label"],
    scope: "account",
    summary: "Takes a tag from everything that carries it.",
    answers: "empty",
    run: ({ cloud, texts, caller }) =>
      cloud.store.commit((tx) => {
        const label = texts.label ?? "";
        if (!hasTag(tx, label)) throw notFound();
        removeTag(tx, cloud.clock.now(), label);
        recordEvent(tx, cloud, { action: "tag_delete", entity: tagEntity(label), username: caller?.username ?? null });
      }),
  }),
];
