import { z } from "zod";
import { wireTime } from "../../kernel/clock.js";
import { invalid, notFound } from "../../kernel/fault.js";
import { type BodySchema, customSchema, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Caller, type Listing, type Route, route } from "../../kernel/route.js";
import type { Cloud, CloudStore, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { grantsView } from "../users/grants.js";
import type { UserRow } from "../users/user.js";
import { userProfileFields } from "./fields.js";
import { confirmWithinMs, freshScratch, freshTwoFactor, usedWith } from "./two-factor.js";

/** Characters of JSON that a user's preferences may take. */
const preferencesLimit = 64 * 1024;

const requireSelf = (reader: Pick<CloudStore | Tx, "get">, caller: Caller | undefined): UserRow => {
  const row = reader.get("user", caller?.userId ?? 0);
  if (!row) throw notFound();
  return row;
};

/** Contract 14.7. */
const profileView = (row: UserRow) => ({
  uid: row.id,
  username: row.username,
  email: row.email,
  verifiedPhoneNumber: null,
  timezone: row.timezone,
  emailNotifications: row.emailNotifications,
  referrals: { code: "", url: "", total: 0, completed: 0, pending: 0, credit: 0 },
  ipWhitelistEnabled: row.ipWhitelistEnabled,
  lishAuthMethod: row.lishAuthMethod,
  authorizedKeys: row.authorizedKeys,
  twoFactorAuth: row.twoFactor?.confirmed === true,
  restricted: row.restricted,
  authenticationType: "password",
});

const note = (tx: Tx, cloud: Cloud, action: string, row: UserRow): void =>
  void recordEvent(tx, cloud, { action, entity: { kind: "user_profile", id: row.id, label: row.username }, username: row.username });

type ProfileChange = UpdateBody<typeof userProfileFields>;

const profileRoutesOfSelf = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile",
    scope: "any",
    summary: "Who you are.",
    answers: "one",
    shows: "Profile",
    run: ({ cloud, caller }) => profileView(requireSelf(cloud.store, caller)),
  }),
  route<Cloud, ProfileChange>({
    method: "PUT",
    path: "/v4/profile",
    scope: "account",
    summary: "Updates your profile; members left out stay.",
    body: updateSchema(userProfileFields),
    answers: "one",
    shows: "Profile",
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireSelf(tx, caller);
        const updated = tx.update("user", row.id, {
          email: body.email ?? row.email,
          timezone: body.timezone ?? row.timezone,
          emailNotifications: body.emailNotifications ?? row.emailNotifications,
          ipWhitelistEnabled: body.ipWhitelistEnabled ?? row.ipWhitelistEnabled,
          lishAuthMethod: body.lishAuthMethod ?? row.lishAuthMethod,
          authorizedKeys: body.authorizedKeys === undefined ? row.authorizedKeys : body.authorizedKeys,
        });
        note(tx, cloud, "profile_update", updated);
        return profileView(updated);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/grants",
    scope: "any",
    summary: "What you may do.",
    answers: "one",
    nothing: "You are unrestricted.",
    run: ({ cloud, caller }) => {
      const row = requireSelf(cloud.store, caller);
      return row.restricted ? grantsView(cloud.store, row.grants) : undefined;
    },
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/preferences",
    scope: "account",
    summary: "Your own JSON, as you left it.",
    answers: "one",
    verbatimAnswer: true,
    run: ({ cloud, caller }) => requireSelf(cloud.store, caller).preferences,
  }),
  route<Cloud, Record<string, unknown>>({
    method: "PUT",
    path: "/v4/profile/preferences",
    scope: "account",
    summary: "Replaces your own JSON.",
    body: { ...customSchema(z.record(z.string(), z.unknown())), verbatim: "all" } as BodySchema<Record<string, unknown>>,
    answers: "one",
    verbatimAnswer: true,
    run: ({ cloud, body, caller }) => {
      if (JSON.stringify(body).length > preferencesLimit) throw invalid(`Preferences may take ${preferencesLimit} characters of JSON.`);
      return cloud.store.commit((tx) => tx.update("user", requireSelf(tx, caller).id, { preferences: body }).preferences);
    },
  }),
];

const twoFactorRoutes = [
  route<Cloud, undefined>({
    method: "POST",
    path: "/v4/profile/tfa-enable",
    scope: "account",
    summary: "Gives a secret for an authenticator app; confirm it with a code.",
    answers: "one",
    run: ({ cloud, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireSelf(tx, caller);
        if (row.twoFactor?.confirmed) throw invalid("Two factor authentication is on already; turn it off first.");
        const twoFactor = freshTwoFactor(cloud.clock.now());
        tx.update("user", row.id, { twoFactor });
        return { secret: twoFactor.secret, expiry: wireTime(twoFactor.startedMs + confirmWithinMs) };
      }),
  }),
  route<Cloud, { tfaCode: string }>({
    method: "POST",
    path: "/v4/profile/tfa-enable-confirm",
    scope: "account",
    summary: "Turns two factor authentication on; answers a code for a lost telephone, once.",
    body: customSchema(z.object({ tfaCode: z.string() })),
    answers: "one",
    run: ({ cloud, body, caller }) => {
      const { scratch, hash } = freshScratch();
      return cloud.store.commit((tx) => {
        const row = requireSelf(tx, caller);
        const pending = row.twoFactor;
        if (pending?.confirmed) throw invalid("Two factor authentication is on already.");
        if (!pending || pending.startedMs + confirmWithinMs <= cloud.clock.now()) throw invalid("Ask for a secret first, at /v4/profile/tfa-enable.");
        const used = usedWith(pending, body.tfaCode, cloud.clock.now());
        if (!used) throw invalid("This is not the code of now.", "tfaCode");
        note(tx, cloud, "tfa_enabled", tx.update("user", row.id, { twoFactor: { ...used, confirmed: true, scratchHash: hash } }));
        return { scratch };
      });
    },
  }),
  route<Cloud, undefined>({
    method: "POST",
    path: "/v4/profile/tfa-disable",
    scope: "account",
    summary: "Turns two factor authentication off.",
    answers: "empty",
    run: ({ cloud, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireSelf(tx, caller);
        if (row.twoFactor) note(tx, cloud, "tfa_disabled", tx.update("user", row.id, { twoFactor: null }));
      }),
  }),
];

/** Exists in the public API and cannot be real here: says so instead of storing it. */
const refused = (method: "POST" | "DELETE", path: string, summary: string, reason: string): Route<Cloud> =>
  route<Cloud, undefined>({
    method,
    path,
    scope: "account",
    summary,
    answers: "empty",
    run: () => {
      throw invalid(reason);
    },
  });

const noMessages = "Backlot sends no messages, so a telephone number could never be verified.";
const noQuestions = "Backlot has no support desk that would ask these questions; none are kept.";

const absentRoutes: Route<Cloud>[] = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/devices",
    scope: "account",
    summary: "Browsers that need no second factor: always empty, every login asks.",
    answers: "list",
    run: (): Listing<never> => ({ rows: [], view: (row) => row, filterable: [], fieldValue: () => undefined }),
  }),
  ...(["GET", "DELETE"] as const).map((method) =>
    route<Cloud, undefined>({
      method,
      path: "/v4/profile/devices/:deviceId",
      scope: "account",
      summary: "There is no such device.",
      answers: method === "GET" ? "one" : "empty",
      run: () => {
        throw notFound();
      },
    }),
  ),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/profile/security-questions",
    scope: "account",
    summary: "Always empty.",
    answers: "one",
    run: () => ({ securityQuestions: [] }),
  }),
  refused("POST", "/v4/profile/security-questions", "Refused: nobody would ask them.", noQuestions),
  refused("POST", "/v4/profile/phone-number", "Refused: no message is sent.", noMessages),
  refused("POST", "/v4/profile/phone-number/verify", "Refused: no message was sent.", noMessages),
  refused("DELETE", "/v4/profile/phone-number", "Refused: there is none.", noMessages),
];

export const userProfileRoutes: Route<Cloud>[] = [...profileRoutesOfSelf, ...twoFactorRoutes, ...absentRoutes];
