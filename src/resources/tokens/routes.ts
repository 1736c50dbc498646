import { wireTime } from "../../kernel/clock.js";
import { notFound, type Problem } from "../../kernel/fault.js";
import { type CreateBody, createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Caller, type Listing, route } from "../../kernel/route.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { type Entity, recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { tokenFields } from "./fields.js";
import { excessScopes, tidyScopes } from "./scopes.js";
import { freshToken, type TokenRow, tokenHash } from "./token.js";

type TokenWanted = CreateBody<typeof tokenFields>;

/** What the console calls a token that was made without a name. */
const defaultLabel = "Personal Access Token";

const tokenEntity = (row: TokenRow): Entity => ({ kind: "token", id: row.id, label: row.label });

const tokenView = (row: TokenRow, whole?: string) => ({
  id: row.id,
  label: row.label,
  scopes: row.scopes,
  created: wireTime(row.createdMs),
  expiry: row.expiresMs === null ? null : wireTime(row.expiresMs),
  token: whole ?? row.prefix,
});

const expiryMs = (expiry: string | null | undefined): number | null =>
  expiry === null || expiry === undefined ? null : Date.parse(expiry.replace(/Z?$/, "Z"));

const createProblems = (nowMs: number, caller: Caller | undefined, body: Partial<TokenWanted>): Problem[] => {
  const ends = expiryMs(body.expiry);
  const wanted = tidyScopes(body.scopes ?? "*");
  return [
    ...(ends !== null && ends <= nowMs ? [{ reason: "Must lie in the future.", field: "expiry" }] : []),
    ...(wanted === "*"
      ? []
      : excessScopes(caller?.scopes ?? "", wanted).map((scope) => ({
          reason: `The token that asks does not have ${scope} itself.`,
          field: "scopes",
        }))),
  ];
};

const ownToken = (reader: Pick<CloudStore | Tx, "get">, id: number | undefined, caller: Caller | undefined): TokenRow => {
  const row = reader.get("token", id ?? 0);
  if (row?.username !== caller?.username || !row) throw notFound();
  return row;
};

export const tokenRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/tokens",
    scope: "account",
    summary: "Lists your personal access tokens.",
    answers: "list",
    shows: "Token",
    run: ({ cloud, caller }): Listing<TokenRow> => ({
      rows: cloud.store.list("token").filter((row) => row.username === caller?.username),
      view: (row) => tokenView(row),
      filterable: filterableNames(tokenFields),
      fieldValue: (row, name) => tokenView(row)[name as keyof ReturnType<typeof tokenView>],
    }),
  }),
  route<Cloud, TokenWanted>({
    method: "POST",
    path: "/v4/profile/tokens",
    scope: "account",
    summary: "Makes a personal access token; the answer is the only one that shows it whole.",
    body: createSchema(tokenFields),
    answers: "one",
    shows: "Token",
    rules: ({ cloud, caller, body }) => createProblems(cloud.clock.now(), caller, body),
    run: ({ cloud, body, caller }) => {
      const token = freshToken();
      return cloud.store.commit((tx) => {
        refuse(createProblems(cloud.clock.now(), caller, body));
        const wanted = tidyScopes(body.scopes ?? "*");
        const row = tx.insert("token", {
          label: body.label ?? defaultLabel,
          hash: tokenHash(token),
          prefix: token.slice(0, 16),
          scopes: wanted === "*" ? (caller?.scopes ?? "") : wanted,
          username: caller?.username ?? "",
          createdMs: cloud.clock.now(),
          expiresMs: expiryMs(body.expiry),
          fromStart: false,
        });
        recordEvent(tx, cloud, { action: "token_create", entity: tokenEntity(row), username: row.username });
        return tokenView(row, token);
      });
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/tokens/:tokenId",
    scope: "account",
    summary: "Reads one of your tokens: its first 16 characters.",
    answers: "one",
    shows: "Token",
    run: ({ cloud, params, caller }) => tokenView(ownToken(cloud.store, params.tokenId, caller)),
  }),
  route<Cloud, UpdateBody<typeof tokenFields>>({
    method: "PUT",
    path: "/v4/profile/tokens/:tokenId",
    scope: "account",
    summary: "Renames a token; nothing else of it can change.",
    body: updateSchema(tokenFields),
    answers: "one",
    shows: "Token",
    run: ({ cloud, params, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = ownToken(tx, params.tokenId, caller);
        const updated = tx.update("token", row.id, { label: body.label ?? row.label });
        recordEvent(tx, cloud, { action: "token_update", entity: tokenEntity(updated), username: row.username });
        return tokenView(updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/profile/tokens/:tokenId",
    scope: "account",
    summary: "Revokes a token, at once.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = ownToken(tx, params.tokenId, caller);
        tx.remove("token", row.id);
        recordEvent(tx, cloud, { action: "token_delete", entity: tokenEntity(row), username: row.username });
      }),
  }),
];
