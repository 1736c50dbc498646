import { Fault, invalid, type Problem } from "../../kernel/fault.js";
import { type CreateBody, createSchema, customSchema, filterableNames, type UpdateBody, updateSchema } from "../../kernel/field.js";
import { type Caller, type Listing, route } from "../../kernel/route.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { recordEvent } from "../events/event.js";
import { refuse } from "../instances/rules.js";
import { userFields } from "./fields.js";
import { changedGrants, GrantsBody, type GrantsWanted, grantProblems, grantsView } from "./grants.js";
import { passwordHash } from "./password.js";
import { newUser, removeUser, requireUser, type UserRow, userEntity, userView } from "./user.js";

type UserWanted = CreateBody<typeof userFields>;
type UserChange = UpdateBody<typeof userFields>;

const nameProblems = (tx: Reader, username: string | undefined, except: number | null): Problem[] => {
  const known = username === undefined ? undefined : tx.list("user").find((row) => row.username.toLowerCase() === username.toLowerCase());
  return known && known.id !== except ? [{ reason: "Another user has it; it must be unique.", field: "username" }] : [];
};

const isLastUnrestricted = (tx: Reader, row: UserRow): boolean =>
  !row.restricted && tx.list("user").every((other) => other.id === row.id || other.restricted);

const changeProblems = (tx: Reader, row: UserRow, body: UserChange): Problem[] => [
  ...nameProblems(tx, body.username, row.id),
  ...(body.restricted === true && isLastUnrestricted(tx, row)
    ? [{ reason: "The account needs an unrestricted user, and this is its last one.", field: "restricted" }]
    : []),
];

/** Who is restricted themselves gives nobody more than they were given, themselves least of all. */
const requireUnrestricted = (tx: Pick<Tx, "get">, caller: Caller | undefined): void => {
  if (caller && tx.get("user", caller.userId)?.restricted !== false) throw new Fault("forbidden", [{ reason: "Unauthorized" }]);
};

const hashed = async (cloud: Cloud, password: string | undefined): Promise<Partial<UserRow>> =>
  password === undefined ? {} : { passwordHash: await passwordHash(password), passwordCreatedMs: cloud.clock.now() };

const note = (tx: Tx, cloud: Cloud, action: string, row: UserRow, caller: Caller | undefined): void =>
  void recordEvent(tx, cloud, { action, entity: userEntity(row), username: caller?.username ?? null });

const updateUser = (tx: Tx, cloud: Cloud, row: UserRow, body: UserChange, secrets: Partial<UserRow>, caller: Caller | undefined) => {
  refuse(changeProblems(tx, row, body));
  if (body.restricted === false && row.restricted) requireUnrestricted(tx, caller);
  if (!row.restricted && row.id !== caller?.userId) requireUnrestricted(tx, caller);
  const updated = tx.update("user", row.id, {
    username: body.username ?? row.username,
    email: body.email ?? row.email,
    restricted: body.restricted ?? row.restricted,
    ...secrets,
  });
  for (const token of tx.list("token")) if (token.username === row.username) tx.update("token", token.id, { username: updated.username });
  note(tx, cloud, "user_update", updated, caller);
  return userView(cloud, updated, tx);
};

const onUser = { textParams: ["username"], scope: "account" } as const;

export const userRoutes = [
  route<Cloud, undefined>({
    method: "GET",
    path: "/v4/account/users",
    scope: "account",
    summary: "Lists the account's users.",
    answers: "list",
    shows: "User",
    run: ({ cloud }): Listing<UserRow> => ({
      rows: cloud.store.list("user"),
      view: (row) => userView(cloud, row),
      filterable: filterableNames(userFields),
      fieldValue: (row, name) => row[name as keyof UserRow],
    }),
  }),
  route<Cloud, UserWanted>({
    method: "POST",
    path: "/v4/account/users",
    scope: "account",
    summary: "Creates a user, restricted unless said otherwise.",
    body: createSchema(userFields),
    answers: "one",
    shows: "User",
    rules: ({ cloud, body }) => nameProblems(cloud.store, body.username, null),
    run: async ({ cloud, body, caller }) => {
      const secrets = await hashed(cloud, body.password);
      return cloud.store.commit((tx) => {
        refuse(nameProblems(tx, body.username, null));
        const restricted = body.restricted ?? true;
        if (!restricted) requireUnrestricted(tx, caller);
        const { username, email } = body;
        const row = tx.insert("user", { ...newUser({ username, email, restricted, nowMs: cloud.clock.now() }), ...secrets });
        note(tx, cloud, "user_create", row, caller);
        return userView(cloud, row, tx);
      });
    },
  }),
  route<Cloud, undefined>({
    ...onUser,
    method: "GET",
    path: "/v4/account/users/:username",
    summary: "Reads one user.",
    answers: "one",
    shows: "User",
    run: ({ cloud, texts }) => userView(cloud, requireUser(cloud.store, texts.username)),
  }),
  route<Cloud, UserChange>({
    ...onUser,
    method: "PUT",
    path: "/v4/account/users/:username",
    summary: "Updates a user; members left out stay.",
    body: updateSchema(userFields),
    answers: "one",
    shows: "User",
    rules: ({ cloud, texts, body }) => changeProblems(cloud.store, requireUser(cloud.store, texts.username), body),
    run: async ({ cloud, texts, body, caller }) => {
      requireUser(cloud.store, texts.username);
      const secrets = await hashed(cloud, body.password);
      return cloud.store.commit((tx) => updateUser(tx, cloud, requireUser(tx, texts.username), body, secrets, caller));
    },
  }),
  route<Cloud, undefined>({
    ...onUser,
    method: "DELETE",
    path: "/v4/account/users/:username",
    summary: "Deletes a user; its tokens, applications and keys end with it.",
    answers: "empty",
    run: ({ cloud, texts, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireUser(tx, texts.username);
        if (row.id === caller?.userId) throw invalid("You cannot delete yourself.");
        if (!row.restricted) requireUnrestricted(tx, caller);
        removeUser(tx, row);
        note(tx, cloud, "user_delete", row, caller);
      }),
  }),
  route<Cloud, undefined>({
    ...onUser,
    method: "GET",
    path: "/v4/account/users/:username/grants",
    summary: "What a restricted user may do.",
    answers: "one",
    nothing: "The user is unrestricted.",
    run: ({ cloud, texts }) => {
      const row = requireUser(cloud.store, texts.username);
      return row.restricted ? grantsView(cloud.store, row.grants) : undefined;
    },
  }),
  route<Cloud, GrantsWanted>({
    ...onUser,
    method: "PUT",
    path: "/v4/account/users/:username/grants",
    summary: "Changes what a restricted user may do; members left out stay.",
    body: customSchema(GrantsBody) as never,
    answers: "one",
    rules: ({ cloud, body }) => grantProblems(cloud.store, body as GrantsWanted),
    run: ({ cloud, texts, body, caller }) =>
      cloud.store.commit((tx) => {
        const row = requireUser(tx, texts.username);
        refuse(grantProblems(tx, body));
        if (!row.restricted) throw invalid("This user is unrestricted: grants would change nothing. Set `restricted` first.");
        requireUnrestricted(tx, caller);
        const updated = tx.update("user", row.id, { grants: changedGrants(row.grants, body) });
        note(tx, cloud, "user_update", updated, caller);
        return grantsView(tx, updated.grants);
      }),
  }),
];
