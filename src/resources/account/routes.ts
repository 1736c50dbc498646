import { z } from "zod";
import { Fault, invalid, type Problem } from "../../kernel/fault.js";
import { customSchema, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { route } from "../../kernel/route.js";
import { balanceCents, usdOf } from "../billing/invoice.js";
import type { Cloud } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { accountTransfer } from "../transfer/transfer.js";
import {
  type AccountDetails,
  type AccountSettings,
  type Agreements,
  accountEntity,
  accountOf,
  accountView,
  settingsView,
  updateAccount,
} from "./account.js";
import { accountFields, agreementFields, settingsFields, transferFields } from "./fields.js";
import { zipProblems } from "./rules.js";

export const accountShapes = {
  Account: accountFields,
  AccountSettings: settingsFields,
  Agreements: agreementFields,
  AccountTransfer: transferFields,
};

/** Members that were given, without those that are absent. */
const given = <T extends object>(body: T): { [N in keyof T]?: Exclude<T[N], undefined> } =>
  Object.fromEntries(Object.entries(body).filter(([, value]) => value !== undefined)) as { [N in keyof T]?: Exclude<T[N], undefined> };

const detailProblems = (before: AccountDetails, body: Partial<AccountDetails>): Problem[] => zipProblems({ ...before, ...body });

const settingsProblems = ({
  longviewSubscription,
  interfacesForNewInstances = "legacy_config_only",
}: UpdateBody<typeof settingsFields>): Problem[] => [
  ...(typeof longviewSubscription === "string" ? [{ reason: "There is no Longview here to subscribe to.", field: "longviewSubscription" }] : []),
  ...(interfacesForNewInstances === "legacy_config_only"
    ? []
    : [{ reason: "Interfaces are those of config profiles here: only legacy_config_only.", field: "interfacesForNewInstances" }]),
];

/** Contract 14.6, service-transfers: one account has nobody to hand things to. */
const noTransfers = "A local cloud has one account, so nothing can be handed to another one.";

/** What this service does not have: asking for it is answered with the reason, and nothing is noted. */
const refusal = (path: string, summary: string, reason: string, field?: string) =>
  route<Cloud, undefined>({
    method: "POST",
    path,
    scope: "account",
    summary,
    answers: "empty",
    run: () => {
      throw invalid(reason, field);
    },
  });

const coreRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account",
    scope: "account",
    summary: "Reads the account.",
    answers: "one",
    shows: "Account",
    run: ({ cloud }) => accountView(cloud),
  }),
  route<Cloud, UpdateBody<typeof accountFields>>({
    method: "PUT",
    path: "/v4/account",
    scope: "account",
    summary: "Updates the account's address and names; members left out stay.",
    body: updateSchema(accountFields),
    answers: "one",
    shows: "Account",
    rules: ({ cloud, body }) => detailProblems(accountOf(cloud.store).details, given(body)),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        const { details } = accountOf(tx);
        const changes = given(body);
        refuse(detailProblems(details, changes));
        updateAccount(tx, { details: { ...details, ...changes, country: (changes.country ?? details.country).toUpperCase() } });
        recordEvent(tx, cloud, { action: "account_update", entity: accountEntity(tx), username: caller?.username ?? null });
        return accountView(cloud, tx);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/settings",
    scope: "account",
    summary: "Reads what holds for the whole account.",
    answers: "one",
    shows: "AccountSettings",
    run: ({ cloud }) => settingsView(accountOf(cloud.store).settings),
  }),
  route<Cloud, UpdateBody<typeof settingsFields>>({
    method: "PUT",
    path: "/v4/account/settings",
    scope: "account",
    summary: "Changes what holds for the whole account; members left out stay.",
    body: updateSchema(settingsFields),
    answers: "one",
    shows: "AccountSettings",
    rules: ({ body }) => settingsProblems(body),
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        refuse(settingsProblems(body));
        const { settings } = accountOf(tx);
        const wanted: AccountSettings = {
          networkHelper: body.networkHelper ?? settings.networkHelper,
          backupsEnabled: body.backupsEnabled ?? settings.backupsEnabled,
          maintenancePolicy: body.maintenancePolicy === undefined ? (settings.maintenancePolicy ?? null) : body.maintenancePolicy,
        };
        updateAccount(tx, { settings: wanted });
        recordEvent(tx, cloud, { action: "account_settings_update", entity: accountEntity(tx), username: caller?.username ?? null });
        return settingsView(wanted);
      }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/transfer",
    scope: "account",
    summary: "This calendar month's transfer, from bytes really carried.",
    answers: "one",
    shows: "AccountTransfer",
    run: ({ cloud }) => accountTransfer(cloud),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/agreements",
    scope: "account",
    summary: "Which agreements were agreed to; a record only.",
    answers: "one",
    shows: "Agreements",
    run: ({ cloud }) => accountOf(cloud.store).agreements,
  }),
  route<Cloud, UpdateBody<typeof agreementFields>>({
    method: "POST",
    path: "/v4/account/agreements",
    scope: "account",
    summary: "Notes that agreements were agreed to.",
    body: updateSchema(agreementFields),
    answers: "empty",
    run: ({ cloud, body, caller }) =>
      cloud.store.commit((tx) => {
        const before = accountOf(tx).agreements;
        const agreements: Agreements = { ...before, ...given(body) };
        updateAccount(tx, { agreements });
        if (agreements.euModel && !before.euModel)
          recordEvent(tx, cloud, { action: "account_agreement_eu_model", entity: accountEntity(tx), username: caller?.username ?? null });
      }),
  }),
  route<Cloud, { comments?: string | null | undefined }>({
    method: "POST",
    path: "/v4/account/cancel",
    scope: "account",
    summary: "Refused: the one account of a local cloud ends with its state.",
    body: customSchema(z.object({ comments: z.string().nullish() })),
    answers: "one",
    run: ({ cloud }) => {
      const owed = balanceCents(cloud.store);
      if (owed > 0) throw new Fault("conflict", [{ reason: `There is an unpaid balance of ${usdOf(owed).toFixed(2)} USD.` }]);
      throw invalid("The one account of a local cloud cannot be closed. To end it stop Backlot and remove its state folder.");
    },
  }),
];

const absentRoutes = [
  refusal("/v4/account/settings/managed-enable", "Refused: nobody here manages anything.", "There is no Managed service here to enrol in."),
  refusal("/v4/account/promo-codes", "Refused: there are no promotions.", "There are no promotions here, so no code is valid.", "promoCode"),
  ...["paypal", "paypal/execute"].map((path) =>
    refusal(
      `/v4/account/payments/${path}`,
      "Refused: no PayPal here.",
      "PayPal is not reached from here. POST /v4/account/payments notes a payment.",
    ),
  ),
  ...["service-transfers", "entity-transfers"].map((name) => refusal(`/v4/account/${name}`, "Refused: there is no other account.", noTransfers)),
];

export const accountRoutes = [...coreRoutes, ...absentRoutes];
