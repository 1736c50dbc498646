import { createSchema, filterableNames, updateSchema } from "../../kernel/field.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { scriptFields } from "./fields.js";
import { isMine, maySee, requireOwn, requireVisible, type ScriptCreate, type ScriptUpdate, scriptProblems } from "./rules.js";
import { deploymentsTotal, ownScript, type Script, type ScriptRow, scriptEntity, scriptView } from "./script.js";

/** What was done to a script, as events (contract 15.3): its text revised, made public, anything else. */
const changes = (before: ScriptRow, body: ScriptUpdate): string[] => {
  const revised = body.script !== undefined && body.script !== before.text;
  const publicized = body.isPublic === true && !before.isPublic;
  const { script: _text, isPublic: _public, ...others } = body;
  const updated = Object.values(others).some((value) => value !== undefined);
  return [
    ...(updated || !(revised || publicized) ? ["script_update"] : []),
    ...(revised ? ["script_revise"] : []),
    ...(publicized ? ["script_publicize"] : []),
  ];
};

const updateScript = (tx: Tx, cloud: Cloud, before: ScriptRow, body: ScriptUpdate, username: string | undefined) => {
  refuse(scriptProblems(tx, cloud, body, before));
  const row = tx.update("script", before.id, {
    label: body.label ?? before.label,
    description: body.description ?? before.description,
    images: body.images ?? before.images,
    isPublic: body.isPublic ?? before.isPublic,
    revNote: body.revNote ?? before.revNote,
    text: body.script ?? before.text,
    updatedMs: cloud.clock.now(),
  });
  for (const action of changes(before, body)) recordEvent(tx, cloud, { action, entity: scriptEntity(row), username: username ?? null });
  return scriptView(tx, ownScript(row), true);
};

export const scriptRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/scripts",
    scope: null,
    summary: "Lists the public scripts, and the account's own when a token is sent.",
    answers: "list",
    shows: "Script",
    run: ({ cloud, caller }): Listing<Script> => ({
      rows: [...cloud.catalogue.scripts, ...cloud.store.list("script").map(ownScript)].filter((script) => maySee(script, caller)),
      view: (script) => scriptView(cloud.store, script, isMine(script, caller)),
      filterable: filterableNames(scriptFields),
      fieldValue: (script, name) => {
        if (name === "mine") return isMine(script, caller);
        return name === "deploymentsTotal" ? deploymentsTotal(cloud.store, script.id) : script[name as keyof Script];
      },
    }),
  }),
  route<Cloud, ScriptCreate>({
    method: "POST",
    path: "/v4/cloud/scripts",
    scope: "scripts",
    summary: "Creates a script to deploy instances with.",
    body: createSchema(scriptFields),
    answers: "one",
    shows: "Script",
    rules: ({ cloud, body }) => scriptProblems(cloud.store, cloud, body, undefined),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        refuse(scriptProblems(tx, cloud, body, undefined));
        const now = cloud.clock.now();
        const row = tx.insert("script", {
          label: body.label,
          description: body.description ?? "",
          images: body.images,
          isPublic: body.isPublic ?? false,
          revNote: body.revNote ?? "",
          text: body.script,
          username: caller?.username ?? "",
          createdMs: now,
          updatedMs: now,
        });
        recordEvent(tx, cloud, { action: "script_create", entity: scriptEntity(row), username: caller?.username ?? null });
        return scriptView(tx, ownScript(row), true);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/cloud/scripts/:scriptId",
    scope: null,
    summary: "Reads one script; a private one with a token.",
    answers: "one",
    shows: "Script",
    run: ({ cloud, params, caller }) => {
      const script = requireVisible(cloud, params.scriptId, caller);
      return scriptView(cloud.store, script, isMine(script, caller));
    },
  }),
  route<Cloud, ScriptUpdate>({
    method: "PUT",
    path: "/v4/cloud/scripts/:scriptId",
    scope: "scripts",
    summary: "Updates a script; what it was deployed on before keeps the text it had.",
    body: updateSchema(scriptFields),
    answers: "one",
    shows: "Script",
    rules: ({ cloud, params, body }) => scriptProblems(cloud.store, cloud, body, requireOwn(cloud.store, cloud, params.scriptId)),
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => updateScript(tx, cloud, requireOwn(tx, cloud, params.scriptId), body, caller?.username)),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/cloud/scripts/:scriptId",
    scope: "scripts",
    summary: "Deletes a script; instances that were deployed with it keep their copy.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireOwn(tx, cloud, params.scriptId);
        tx.remove("script", row.id);
        recordEvent(tx, cloud, { action: "script_delete", entity: scriptEntity(row), username: caller?.username ?? null });
      }),
  }),
];
