import { encrypt } from "unixcrypt";
import { z } from "zod";
import type { Problem } from "../../kernel/fault.js";
import { field, text } from "../../kernel/field.js";
import type { Cloud, Reader, Tx } from "../cloud.js";
import { imageLabel, imageProblem } from "../images/image.js";
import { storedKeysOf } from "../profile/ssh-key.js";
import { type DeployedScript, deployProblems, deployScript } from "../scripts/deploy.js";

/** What a file system is made from and given at its first boot. */
export interface Deployment {
  /** Image slug; null for a disk that holds no system. */
  image: string | null;
  /** Root's password as a crypt(3) string; the password itself is never kept. */
  rootPassHash: string | null;
  authorizedKeys: string[];
  script: DeployedScript | null;
}

/** Contract 9.1: 7 to 128 characters of at least two kinds (the strength rule). */
export const RootPass = text(7, 128).refine(
  (value) => [/[a-z]/, /[A-Z]/, /[0-9]/, /[^a-zA-Z0-9]/].filter((kind) => kind.test(value)).length >= 2,
  "Too weak: use at least two of lower case, upper case, digits and other characters.",
);
export const PublicKey = z
  .string()
  .regex(
    /^(ssh-(rsa|ed25519|dss)|ecdsa-sha2-nistp\d+|sk-[a-z0-9@.-]+) [A-Za-z0-9+/=]+([ \t][^\r\n]*)?([\r\n]\s*)?$/,
    "Must be a public key in OpenSSH form.",
  );

/** The members that create, rebuild and disk create share. */
export const deploymentFields = {
  rootPass: field.secret(RootPass, "Root's password; needed with an image."),
  authorizedKeys: field.secret(z.array(PublicKey), "Public keys that may log in as root."),
  authorizedUsers: field.secret(z.array(z.string()), "Users of the account whose stored keys may log in as root."),
  scriptId: field.secret(z.int(), "Script from `/v4/cloud/scripts`, run once at first boot."),
  scriptData: field.secret(z.record(z.string(), z.string()), "Answers to the script's user defined fields.", { verbatim: true }),
};

export interface DeploymentWanted {
  image?: string | null | undefined;
  rootPass?: string | undefined;
  authorizedKeys?: string[] | undefined;
  authorizedUsers?: string[] | undefined;
  scriptId?: number | undefined;
  scriptData?: Record<string, string> | undefined;
}

/** The image of this id: public, or the account's. */
export const imageEntry = (cloud: Pick<Cloud, "catalogue">, reader: Reader, id: string): { label: string } | undefined => {
  const label = imageLabel(reader, cloud, id);
  return label === undefined ? undefined : { label };
};

/** What is wrong with what is to be deployed, at once (contract 9.2). */
export const deploymentProblems = (reader: Reader, cloud: Pick<Cloud, "catalogue">, wanted: DeploymentWanted): Problem[] => {
  const problems: Problem[] = [];
  const image = wanted.image ?? null;
  const reason = image === null ? undefined : imageProblem(reader, cloud, image);
  if (reason !== undefined) problems.push({ reason, field: "image" });
  // Description 2.4; newer editions of the public API also take keys instead.
  if (image !== null && wanted.rootPass === undefined) problems.push({ reason: "Needed when an image is given.", field: "rootPass" });
  for (const [index, username] of (wanted.authorizedUsers ?? []).entries()) {
    if (!storedKeysOf(reader, username)) problems.push({ reason: "No such user, or one without stored keys.", field: `authorizedUsers[${index}]` });
  }
  problems.push(...deployProblems(reader, cloud, image, wanted));
  return problems;
};

/** crypt(3) of a password; made outside the commit, for it takes a while. */
export const passwordHash = (rootPass: string | undefined): string | null => (rootPass === undefined ? null : encrypt(rootPass));

/** What was found without problems, as the disk's row keeps it. */
export const deploymentOf = (tx: Tx, cloud: Pick<Cloud, "catalogue">, wanted: DeploymentWanted, rootPassHash: string | null): Deployment => ({
  image: wanted.image ?? null,
  rootPassHash,
  authorizedKeys: [...(wanted.authorizedKeys ?? []), ...(wanted.authorizedUsers ?? []).flatMap((name) => storedKeysOf(tx, name) ?? [])],
  script: deployScript(tx, cloud, wanted),
});
