import { randomBytes, type ScryptOptions, scrypt, timingSafeEqual } from "node:crypto";

/** OWASP's figures for scrypt with 32 MB: some 0.2 s of one core a try. */
const cost = { N: 2 ** 15, r: 8, p: 3 };
const keyBytes = 32;

let last: Promise<unknown> = Promise.resolve();

/** One after the other: Node has four threads for this and for the disk, and a flood of logins must not keep the store from writing. */
const inTurn = <T>(work: () => Promise<T>): Promise<T> => {
  const turn = last.then(work);
  last = turn.catch(() => undefined);
  return turn;
};

const derived = (password: string, salt: Buffer, { N, r, p }: ScryptOptions & { N: number; r: number; p: number }): Promise<Buffer> =>
  inTurn(
    () =>
      new Promise((resolve, reject) => {
        scrypt(password.normalize("NFKC"), salt, keyBytes, { N, r, p, maxmem: 256 * N * r }, (error, key) => (error ? reject(error) : resolve(key)));
      }),
  );

/** `scrypt$N$r$p$salt$key`, salt and key in base64: what is kept of a password. */
export const passwordHash = async (password: string): Promise<string> => {
  const salt = randomBytes(16);
  const key = await derived(password, salt, cost);
  return ["scrypt", cost.N, cost.r, cost.p, salt.toString("base64"), key.toString("base64")].join("$");
};

/** Takes as long for a user who has no password, or does not exist, as for one who does. */
export const isPassword = async (password: string, hash: string | null): Promise<boolean> => {
  const [, N, r, p, salt = "", key = ""] = (hash ?? `scrypt$${cost.N}$${cost.r}$${cost.p}$AAAA$AAAA`).split("$");
  const found = await derived(password, Buffer.from(salt, "base64"), { N: Number(N), r: Number(r), p: Number(p) });
  const wanted = Buffer.from(key, "base64");
  return hash !== null && wanted.length === found.length && timingSafeEqual(wanted, found);
};
