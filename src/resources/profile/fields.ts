import { z } from "zod";
import { field, text } from "../../kernel/field.js";
import { PublicKey } from "../instances/deployment.js";
import { Email } from "../users/fields.js";

const isTimezone = (name: string): boolean => {
  try {
    new Intl.DateTimeFormat("en", { timeZone: name });
    return true;
  } catch {
    return false;
  }
};

/** Contract 14.7. */
export const userProfileFields = {
  uid: field.read(z.int().positive(), "The user's number."),
  username: field.read(z.string(), "Name to log in with."),
  email: field.write(Email, "Where mail would go; none is sent."),
  verifiedPhoneNumber: field.read(z.null(), "Always null: no message is sent."),
  timezone: field.write(z.string().max(64).refine(isTimezone, "Must be a time zone's name, e.g. Europe/Oslo."), "IANA name; recorded."),
  emailNotifications: field.write(z.boolean(), "Recorded; no mail is sent."),
  referrals: field.read(
    z.object({ code: z.string(), url: z.string(), total: z.int(), completed: z.int(), pending: z.int(), credit: z.int() }),
    "Nobody is referred to a cloud on your own machine: empty.",
  ),
  ipWhitelistEnabled: field.write(z.boolean(), "Recorded; nothing is whitelisted."),
  lishAuthMethod: field.write(z.enum(["password_keys", "keys_only", "disabled"]), "Recorded; there is no console gateway."),
  authorizedKeys: field.write(z.array(PublicKey).nullable(), "Recorded; keys for instances are at `/v4/profile/sshkeys`."),
  twoFactorAuth: field.read(z.boolean(), "The login page asks for a code too; see `/v4/profile/tfa-enable`."),
  restricted: field.read(z.boolean(), "Only what its grants allow."),
  authenticationType: field.read(z.string(), "Always `password`."),
};

export const sshKeyFields = {
  id: field.read(z.int().positive(), "Given at creation, never reused."),
  label: field.write(text(1, 64), "Name for people.", { required: true, filter: true }),
  sshKey: field.create(PublicKey, "Public key in OpenSSH form.", { required: true }),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
};
