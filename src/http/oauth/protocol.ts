import OAuth2Server from "@node-oauth/oauth2-server";
import type { Cloud } from "../../resources/cloud.js";
import { type ClientRow, clientOf, isSecretOf } from "../../resources/oauth/client.js";
import {
  accessLifetimeS,
  codeLifetimeS,
  codeOf,
  dropEnded,
  freshCode,
  type GrantRow,
  grantByAccess,
  grantByRefresh,
  grantBySpent,
  issueGrant,
  refreshLifetimeS,
  renewGrant,
} from "../../resources/oauth/grant.js";
import { givesScope, unknownScopes } from "../../resources/tokens/scopes.js";
import { freshToken, tokenHash } from "../../resources/tokens/token.js";

/** Parameters of a request, each given once. */
export type Parameters = Readonly<Record<string, string>>;

/** What the library hands round as a client: its row, and what it may do here. */
const clientModel = (row: ClientRow): OAuth2Server.Client => ({
  id: row.clientId,
  row,
  redirectUris: [row.redirectUri],
  grants: row.public ? ["authorization_code"] : ["authorization_code", "refresh_token"],
});

const rowOf = (client: OAuth2Server.Client): ClientRow => client.row as ClientRow;

const activeClient = (cloud: Cloud, id: string): ClientRow | undefined => {
  const row = clientOf(cloud.store, id);
  return row?.status === "active" ? row : undefined;
};

/** A confidential client proves its secret; a public one has none to send. */
export const authenticatedClient = (cloud: Cloud, id: string, secret: string | undefined): ClientRow | undefined => {
  const row = activeClient(cloud, id);
  if (!row) return undefined;
  return (row.public ? secret === undefined || secret === "" : secret !== undefined && isSecretOf(row, secret)) ? row : undefined;
};

const invalidGrant = (reason: string) => new OAuth2Server.InvalidGrantError(`Invalid grant: ${reason}`);

/** Somebody came with what was used already: the tokens made of it end (RFC 6749 section 10.5, RFC 9700 section 4.14). */
const endGrant = (cloud: Cloud, id: number | null): Promise<void> =>
  cloud.store.commit((tx) => (id === null ? undefined : tx.remove("oauthGrant", id)));

/** What both models need, though only routes of ours read access tokens. */
const noAccessToken = async () => false as const;

const authorizeModel = (cloud: Cloud): OAuth2Server.AuthorizationCodeModel => ({
  getAccessToken: noAccessToken,
  getClient: async (id) => {
    const row = activeClient(cloud, id);
    return row && clientModel(row);
  },
  validateScope: async (_user, _client, scope) => scope !== undefined && scope.length > 0 && unknownScopes(scope.join(" ")).length === 0 && scope,
  validateRedirectUri: async (uri, client) => uri === rowOf(client).redirectUri,
  generateAuthorizationCode: async () => freshCode(),
  saveAuthorizationCode: async (code, client, user) => {
    await cloud.store.commit((tx) => {
      dropEnded(tx, cloud.clock.now());
      tx.insert("oauthCode", {
        hash: tokenHash(code.authorizationCode),
        clientId: rowOf(client).id,
        userId: user.id as number,
        scopes: (code.scope ?? []).join(" "),
        redirectUri: code.redirectUri,
        codeChallenge: code.codeChallenge ?? null,
        expiresMs: code.expiresAt.getTime(),
        grantId: null,
        used: false,
      });
    });
    return { ...code, client, user };
  },
  getAuthorizationCode: async () => false,
  revokeAuthorizationCode: async () => false,
  saveToken: async () => false,
});

/** One request's model: it remembers which client asks and which grant is renewed, which the library's calls do not carry. */
const tokenModel = (cloud: Cloud, given: Parameters): OAuth2Server.AuthorizationCodeModel & OAuth2Server.RefreshTokenModel => {
  const { store, clock } = cloud;
  let asking: ClientRow | undefined;
  let renewed: GrantRow | undefined;
  const issue = (token: OAuth2Server.Token, client: OAuth2Server.Client) => ({
    access: token.accessToken,
    refresh: rowOf(client).public ? undefined : token.refreshToken,
  });
  const saved = (token: OAuth2Server.Token, client: OAuth2Server.Client, user: OAuth2Server.User): OAuth2Server.Token => {
    const { refreshToken, ...rest } = token;
    return { ...rest, ...(rowOf(client).public || refreshToken === undefined ? {} : { refreshToken }), client, user };
  };
  return {
    getAccessToken: noAccessToken,
    getClient: async (id, secret: string | undefined) => {
      asking = authenticatedClient(cloud, id, secret ?? undefined);
      return asking && clientModel(asking);
    },
    generateAccessToken: async () => freshToken(),
    generateRefreshToken: async () => freshToken(),
    getAuthorizationCode: async (code) => {
      const row = codeOf(store, code);
      const client = row && store.get("oauthClient", row.clientId);
      if (!row || !client || !store.get("user", row.userId)) return false;
      if (row.used) {
        if (client.id === asking?.id) await endGrant(cloud, row.grantId);
        return false;
      }
      return {
        authorizationCode: code,
        expiresAt: new Date(row.expiresMs),
        // Only one redirect URI is registered, and it was compared when the code was made: left out here it says nothing new (contract 4.4).
        redirectUri: given.redirect_uri === undefined ? "" : row.redirectUri,
        scope: row.scopes.split(" "),
        client: clientModel(client),
        user: { id: row.userId },
        ...(row.codeChallenge === null ? {} : { codeChallenge: row.codeChallenge, codeChallengeMethod: "S256" }),
      };
    },
    saveAuthorizationCode: async () => false,
    revokeAuthorizationCode: ({ authorizationCode }) =>
      store.commit((tx) => {
        const row = codeOf(tx, authorizationCode);
        if (!row || row.used) return false;
        tx.update("oauthCode", row.id, { used: true });
        return true;
      }),
    getRefreshToken: async (refreshToken) => {
      const row = grantByRefresh(store, refreshToken);
      if (!row) {
        const spent = grantBySpent(store, refreshToken);
        if (spent && spent.clientId === asking?.id) await endGrant(cloud, spent.id);
        return false;
      }
      const client = store.get("oauthClient", row.clientId);
      if (!client || !store.get("user", row.userId)) return false;
      renewed = row;
      const held = row.scopes.split(" ");
      const asked = (given.scope ?? "").split(" ").filter((scope) => scope !== "" && givesScope(row.scopes, scope));
      return {
        refreshToken,
        refreshTokenExpiresAt: new Date(row.refreshExpiresMs ?? 0),
        // The library compares words; `volumes:read_only` lies within `volumes:read_write` and `*` as well.
        scope: given.scope === undefined ? held : [...held, ...asked],
        client: clientModel(client),
        user: { id: row.userId },
      };
    },
    // The old pair ends in the commit that makes the new one: a request that fails in between has cost nobody the token.
    revokeToken: async ({ refreshToken }) => grantByRefresh(store, refreshToken) !== undefined,
    saveToken: async (token, client, user) => {
      const before = renewed;
      await store.commit((tx) => {
        if (token.authorizationCode !== undefined) {
          const code = codeOf(tx, token.authorizationCode);
          if (!code || code.grantId !== null) throw invalidGrant("authorization code is invalid");
          issueGrant(tx, clock.now(), code, issue(token, client));
        } else {
          const row = before && tx.get("oauthGrant", before.id);
          if (!row || row.refreshHash !== before?.refreshHash) throw invalidGrant("refresh token is invalid");
          renewGrant(tx, clock.now(), row, issue(token, client), (token.scope ?? []).join(" "));
        }
      });
      return saved(token, client, user);
    },
  };
};

const libraryRequest = (parameters: Parameters, headers: Record<string, string>) =>
  new OAuth2Server.Request({ method: "POST", headers, query: {}, body: { ...parameters } });

/** Turns a user's consent into a code. Rejects with an `OAuthError` that the client may be told. */
export const issueCode = async (cloud: Cloud, userId: number, parameters: Parameters): Promise<string> => {
  const server = new OAuth2Server({ model: authorizeModel(cloud), allowEmptyState: true, authorizationCodeLifetime: codeLifetimeS });
  const request = libraryRequest(parameters, {});
  const code = await server.authorize(request, new OAuth2Server.Response(), { authenticateHandler: { handle: () => ({ id: userId }) } });
  return code.authorizationCode;
};

export interface TokenAnswer {
  access_token: string;
  token_type: "bearer";
  expires_in: number;
  scope: string;
  /** As the Python client reads it (contract 4.4). */
  scopes: string;
  refresh_token?: string;
}

/** Turns a code or a refresh token into tokens. Rejects with an `OAuthError`. */
export const issueTokens = async (cloud: Cloud, parameters: Parameters, authorization: string | undefined): Promise<TokenAnswer> => {
  const server = new OAuth2Server({
    model: tokenModel(cloud, parameters),
    accessTokenLifetime: accessLifetimeS,
    refreshTokenLifetime: refreshLifetimeS,
  });
  // The library asks for the content type and whether there is a body; both were checked before.
  const headers = {
    "content-type": "application/x-www-form-urlencoded",
    "content-length": "1",
    ...(authorization === undefined ? {} : { authorization }),
  };
  const token = await server.token(libraryRequest(parameters, headers), new OAuth2Server.Response());
  const scope = (token.scope ?? []).join(" ");
  return {
    access_token: token.accessToken,
    token_type: "bearer",
    expires_in: accessLifetimeS,
    scope,
    scopes: scope,
    ...(token.refreshToken === undefined ? {} : { refresh_token: token.refreshToken }),
  };
};

/** Ends the grant a token belongs to, access and refresh token alike. A token that is unknown, or another client's, changes nothing (RFC 7009 section 2.2). */
export const revokeGrant = (cloud: Cloud, client: ClientRow, token: string): Promise<void> =>
  cloud.store.commit((tx) => {
    const row = grantByAccess(tx, token) ?? grantByRefresh(tx, token) ?? grantBySpent(tx, token);
    if (row?.clientId === client.id) tx.remove("oauthGrant", row.id);
  });

/** An error of the library, in the words of RFC 6749 section 5.2; undefined for anything else. */
export const protocolError = (error: unknown): { status: number; error: string; description: string; cause: unknown } | undefined => {
  if (!(error instanceof OAuth2Server.OAuthError)) return undefined;
  const { code, name, message } = error;
  const cause = (error as { inner?: unknown }).inner;
  return { status: code, error: name, description: message, cause: cause ?? (code >= 500 ? error : undefined) };
};
