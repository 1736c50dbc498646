import { Fault, notFound, type Problem } from "../../kernel/fault.js";
import type { CreateBody, UpdateBody } from "../../kernel/field.js";
import type { Caller } from "../../kernel/route.js";
import { scriptFieldsOf } from "../../kernel/script-fields.js";
import type { Cloud, Reader } from "../cloud.js";
import { knowsImage } from "../images/image.js";
import { mayRead } from "../tokens/scopes.js";
import type { scriptFields } from "./fields.js";
import { anyScript, type Script, type ScriptRow } from "./script.js";

export type ScriptCreate = CreateBody<typeof scriptFields>;
export type ScriptUpdate = UpdateBody<typeof scriptFields>;

/** Description 4: public entries for everybody, the account's private ones with a token; here one that may read scripts. */
export const maySee = (script: Script, caller: Caller | undefined): boolean => script.isPublic || mayRead(caller, "scripts");

export const isMine = (script: Script, caller: Caller | undefined): boolean => script.own && caller !== undefined;

export const requireVisible = (cloud: Cloud, id: number | undefined, caller: Caller | undefined): Script => {
  const script = anyScript(cloud.store, cloud, id);
  if (!script || !maySee(script, caller)) throw notFound();
  return script;
};

/** A row of the account to change or delete; one that Backlot ships belongs to nobody here. */
export const requireOwn = (reader: Reader, cloud: Pick<Cloud, "catalogue">, id: number | undefined): ScriptRow => {
  if (cloud.catalogue.scripts.some((entry) => entry.id === id)) {
    throw new Fault("forbidden", [{ reason: "Backlot ships this script; it cannot be changed. Create one of your own with its text." }]);
  }
  const row = reader.get("script", id ?? 0);
  if (!row) throw notFound();
  return row;
};

/** Everything that can be wrong with a create or an update beyond the form of its members, at once. `before` is the row to update. */
export const scriptProblems = (reader: Reader, cloud: Cloud, body: Partial<ScriptUpdate>, before: ScriptRow | undefined): Problem[] => {
  const problems: Problem[] = [];
  const strangers = (body.images ?? []).filter((image) => image !== "any/all" && !knowsImage(reader, cloud, image));
  for (const image of strangers) problems.push({ reason: `${image} is no image; see /v4/images. any/all stands for every one.`, field: "images" });
  if (body.script !== undefined) for (const reason of scriptFieldsOf(body.script).problems) problems.push({ reason, field: "script" });
  if (before?.isPublic && body.isPublic === false) problems.push({ reason: "A public script cannot be made private again.", field: "isPublic" });
  return problems;
};
