import { z } from "zod";
import { field, text } from "../../kernel/field.js";

/** Contract 14.5. */
const Username = text(3, 32).regex(
  /^[a-zA-Z0-9]((?![_-]{2,})[a-zA-Z0-9-_])+[a-zA-Z0-9]$/,
  "May hold letters, digits, dashes and underscores, none of these marks doubled, and begins and ends with a letter or digit.",
);
export const Email = z.email("Must be an e-mail address.").max(128, "Length must be 1-128 characters");
const Password = text(11, 128);

export const userFields = {
  username: field.write(Username, "Name to log in with, unique in the account.", { required: true, filter: true }),
  email: field.write(Email, "Where mail would go; none is sent.", { required: true }),
  restricted: field.write(z.boolean(), "Only what its grants allow. Default: true."),
  password: field.secret(Password, "Password for the login page: no mail is sent that would lead to setting one.", { update: true, source: "ours" }),
  sshKeys: field.read(z.array(z.string()), "Labels of its public keys."),
  tfaEnabled: field.read(z.boolean(), "The login page asks for a code too."),
  verifiedPhoneNumber: field.read(z.null(), "Always null: no message is sent."),
  passwordCreated: field.read(z.string().nullable(), "When its password was set, UTC."),
  lastLogin: field.read(z.object({ loginDatetime: z.string(), status: z.enum(["successful", "failed"]) }).nullable(), "Its last try to log in."),
  userType: field.read(z.string(), "Always `default`."),
};
