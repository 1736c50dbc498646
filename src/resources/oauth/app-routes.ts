import { wireTime } from "../../kernel/clock.js";
import { notFound } from "../../kernel/fault.js";
import { type Listing, route } from "../../kernel/route.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { thumbnailUrl } from "./client.js";
import { type GrantRow, grantEndsMs } from "./grant.js";

/** The origin of an address, or its scheme when it is an application's own. */
const websiteOf = (redirectUri: string): string => {
  const { origin, protocol } = new URL(redirectUri);
  return origin === "null" ? protocol : origin;
};

const appView = (reader: Pick<CloudStore | Tx, "get">, row: GrantRow) => {
  const client = reader.get("oauthClient", row.clientId);
  return {
    id: row.id,
    label: client?.label ?? "",
    scopes: row.scopes,
    website: client ? websiteOf(client.redirectUri) : "",
    created: wireTime(row.createdMs),
    expiry: wireTime(grantEndsMs(row)),
    thumbnailUrl: client ? thumbnailUrl(client) : null,
  };
};

const appsOf = (cloud: Cloud, userId: number | undefined): GrantRow[] =>
  cloud.store.list("oauthGrant").filter((row) => row.userId === userId && grantEndsMs(row) > cloud.clock.now());

export const appRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/apps",
    scope: "account",
    summary: "Lists the applications that you allowed something.",
    answers: "list",
    shows: "App",
    run: ({ cloud, caller }): Listing<GrantRow> => ({
      rows: appsOf(cloud, caller?.userId),
      view: (row) => appView(cloud.store, row),
      filterable: [],
      fieldValue: () => undefined,
    }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/apps/:appId",
    scope: "account",
    summary: "Reads what you allowed an application.",
    answers: "one",
    shows: "App",
    run: ({ cloud, params, caller }) => {
      const row = appsOf(cloud, caller?.userId).find((candidate) => candidate.id === params.appId);
      if (!row) throw notFound();
      return appView(cloud.store, row);
    },
  }),
  route<Cloud, undefined>({
    method: "DELETE",
    path: "/v4/profile/apps/:appId",
    scope: "account",
    summary: "Takes back what you allowed: its access and refresh tokens end.",
    answers: "empty",
    run: ({ cloud, params, caller }) =>
      cloud.store.commit((tx) => {
        const row = tx.get("oauthGrant", params.appId ?? 0);
        if (!row || row.userId !== caller?.userId) throw notFound();
        tx.remove("oauthGrant", row.id);
      }),
  }),
];
