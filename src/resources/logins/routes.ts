import { notFound } from "../../kernel/fault.js";
import { type Caller, type Listing, route } from "../../kernel/route.js";
import type { Cloud } from "../cloud.js";
import { type LoginRow, loginView, recentLogins } from "./login.js";

/** The same two routes for the whole account and for oneself. */
const loginsUnder = (path: string, whose: string, isShown: (row: LoginRow, caller: Caller | undefined) => boolean) => [
  route<Cloud, undefined>({
    method: "GET",
    path,
    scope: "account",
    summary: `Tries to log in ${whose}, of the last 90 days, newest first.`,
    answers: "list",
    shows: "Login",
    run: ({ cloud, caller }): Listing<LoginRow> => ({
      rows: recentLogins(cloud).filter((row) => isShown(row, caller)),
      view: loginView,
      filterable: [],
      fieldValue: () => undefined,
    }),
  }),
  route<Cloud, undefined>({
    method: "GET",
    path: `${path}/:loginId`,
    scope: "account",
    summary: `One try to log in ${whose}.`,
    answers: "one",
    shows: "Login",
    run: ({ cloud, params, caller }) => {
      const row = recentLogins(cloud).find((candidate) => candidate.id === params.loginId);
      if (!row || !isShown(row, caller)) throw notFound();
      return loginView(row);
    },
  }),
];

export const loginRoutes = [
  ...loginsUnder("/v4/account/logins", "by anybody", () => true),
  ...loginsUnder("/v4/profile/logins", "as you", (row, caller) => row.userId === caller?.userId),
];
