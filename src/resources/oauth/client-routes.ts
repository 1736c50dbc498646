import { invalid, notFound } from "../../kernel/fault.js";
import { type CreateBody, createSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Caller, type Listing, type Route, route } from "../../kernel/route.js";
import type { Cloud, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { type ClientRow, clientEntity, clientView, freshClientId, freshSecret, requireClient } from "./client.js";
import { clientFields } from "./fields.js";

/** Bytes of a picture. */
const thumbnailLimit = 256 * 1024;
const pngMark = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

const note = (tx: Tx, cloud: Cloud, verb: string, row: ClientRow, caller: Caller | undefined): void =>
  void recordEvent(tx, cloud, { action: `oauth_client_${verb}`, entity: clientEntity(row), username: caller?.username ?? null });

const onClient = { path: "/v4/account/oauth-clients/:clientId", textParams: ["clientId"], scope: "account", shows: "OauthClient" } as const;

/** What its tokens could do ends with a client. */
const removeClient = (tx: Tx, row: ClientRow): void => {
  for (const kind of ["oauthGrant", "oauthCode"] as const) for (const held of tx.list(kind)) if (held.clientId === row.id) tx.remove(kind, held.id);
  tx.remove("oauthClient", row.id);
};

const recordRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/oauth-clients",
    scope: "account",
    summary: "Lists the account's OAuth clients.",
    answers: "list",
    shows: "OauthClient",
    run: ({ cloud }): Listing<ClientRow> => ({
      rows: cloud.store.list("oauthClient"),
      view: (row) => clientView(row),
      filterable: filterableNames(clientFields),
      fieldValue: (row, name) => row[name as keyof ClientRow],
    }),
  }),
  route<Cloud, CreateBody<typeof clientFields>>({
    method: "POST",
    path: "/v4/account/oauth-clients",
    scope: "account",
    summary: "Registers an OAuth client; the answer is the only one that shows its secret.",
    body: createSchema(clientFields),
    answers: "one",
    shows: "OauthClient",
    run: ({ cloud, body, caller }) => {
      const { secret, hash } = freshSecret();
      return cloud.store.commit((tx) => {
        const isPublic = body.public ?? false;
        const row = tx.insert("oauthClient", {
          clientId: freshClientId(),
          label: body.label,
          redirectUri: body.redirectUri,
          public: isPublic,
          secretHash: isPublic ? null : hash,
          status: "active",
          thumbnail: null,
          createdMs: cloud.clock.now(),
        });
        note(tx, cloud, "create", row, caller);
        return clientView(row, isPublic ? undefined : secret);
      });
    },
  }),
  route<Cloud, undefined>({
    ...onClient,
    method: "GET",
    summary: "Reads one OAuth client.",
    answers: "one",
    run: ({ cloud, texts }) => clientView(requireClient(cloud.store, texts.clientId)),
  }),
  route<Cloud, UpdateBody<typeof clientFields>>({
    ...onClient,
    method: "PUT",
    summary: "Updates an OAuth client; members left out stay.",
    body: updateSchema(clientFields),
    answers: "one",
    run: ({ cloud, texts, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireClient(tx, texts.clientId);
        const updated = tx.update("oauthClient", row.id, { label: body.label ?? row.label, redirectUri: body.redirectUri ?? row.redirectUri });
        note(tx, cloud, "update", updated, caller);
        return clientView(updated);
      }),
  }),
  route<Cloud, undefined>({
    ...onClient,
    method: "DELETE",
    summary: "Removes an OAuth client; the tokens it was given end.",
    answers: "empty",
    run: ({ cloud, texts, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireClient(tx, texts.clientId);
        removeClient(tx, row);
        note(tx, cloud, "delete", row, caller);
      }),
  }),
  route<Cloud, undefined>({
    ...onClient,
    method: "POST",
    path: "/v4/account/oauth-clients/:clientId/reset-secret",
    summary: "Makes a new secret; the old one ends at once.",
    answers: "one",
    run: ({ cloud, texts, caller }) => {
      const { secret, hash } = freshSecret();
      return cloud.store.commit((tx) => {
        const row = requireClient(tx, texts.clientId);
        if (row.public) throw invalid("A public client has no secret.");
        const updated = tx.update("oauthClient", row.id, { secretHash: hash });
        note(tx, cloud, "secret_reset", updated, caller);
        return clientView(updated, secret);
      });
    },
  }),
];

const { shows: _, ...onThumbnail } = { ...onClient, path: "/v4/account/oauth-clients/:clientId/thumbnail" } as const;

const thumbnailRoutes = [
  route<Cloud, undefined>({
    ...onThumbnail,
    method: "GET",
    // A page that asks for consent shows it to people who have no token yet (contract 17: scope none).
    scope: null,
    summary: "The client's picture.",
    answers: "png",
    run: ({ cloud, texts }) => {
      const { thumbnail } = requireClient(cloud.store, texts.clientId);
      if (thumbnail === null) throw notFound();
      return Buffer.from(thumbnail, "base64");
    },
  }),
  route<Cloud, Buffer>({
    ...onThumbnail,
    method: "PUT",
    summary: "Sets the client's picture: a PNG as the body.",
    takes: "image/png",
    answers: "empty",
    run: ({ cloud, texts, body, caller }) => {
      requireClient(cloud.store, texts.clientId);
      if (!body.subarray(0, pngMark.length).equals(pngMark)) throw invalid("The body must be a PNG picture.");
      if (body.length > thumbnailLimit) throw invalid(`The picture may take ${thumbnailLimit} bytes.`);
      return cloud.store.commit((tx) => {
        const updated = tx.update("oauthClient", requireClient(tx, texts.clientId).id, { thumbnail: body.toString("base64") });
        note(tx, cloud, "update", updated, caller);
      });
    },
  }),
];

export const clientRoutes: Route<Cloud>[] = [...recordRoutes, ...thumbnailRoutes];
