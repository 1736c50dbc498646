import type { Cloud } from "../../resources/cloud.js";
import { recordLogin } from "../../resources/logins/login.js";
import { usedWith } from "../../resources/profile/two-factor.js";
import { tokenHash } from "../../resources/tokens/token.js";
import { isPassword } from "../../resources/users/password.js";
import { type UserRow, userNamed } from "../../resources/users/user.js";

/** A full-rights token lets in whoever has no password yet: with it they could set one anyway. */
const isOwnToken = ({ store, clock }: Cloud, user: UserRow, secret: string): boolean => {
  const hash = tokenHash(secret);
  return store
    .list("token")
    .some((row) => row.hash === hash && row.username === user.username && row.scopes === "*" && (row.expiresMs ?? Infinity) > clock.now());
};

/** The user whom a name and a password belong to. Takes as long when the name is nobody's. Failures are recorded; successes are not yet. */
export const userOf = async (cloud: Cloud, username: string, secret: string, ip: string): Promise<UserRow | undefined> => {
  const user = userNamed(cloud.store, username);
  const isRight = await isPassword(secret, user?.passwordHash ?? null);
  if (!user) return undefined;
  if (isRight || (user.passwordHash === null && isOwnToken(cloud, user, secret))) return user;
  await cloud.store.commit((tx) => recordLogin(tx, cloud, user.id, ip, "failed"));
  return undefined;
};

export const recordSuccess = (cloud: Cloud, userId: number, ip: string): Promise<void> =>
  cloud.store.commit((tx) => recordLogin(tx, cloud, userId, ip, "successful"));

/** Uses up a code of the second factor; false when it is none. Either is recorded. */
export const usesCode = (cloud: Cloud, userId: number, code: string, ip: string): Promise<boolean> =>
  cloud.store.commit((tx) => {
    const user = tx.get("user", userId);
    const used = user?.twoFactor ? usedWith(user.twoFactor, code.replaceAll(" ", ""), cloud.clock.now()) : undefined;
    if (used) tx.update("user", userId, { twoFactor: used });
    recordLogin(tx, cloud, userId, ip, used ? "successful" : "failed");
    return used !== undefined;
  });
