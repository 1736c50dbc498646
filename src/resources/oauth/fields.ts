import { z } from "zod";
import { field, text } from "../../kernel/field.js";

const schemesThatRun = ["javascript:", "data:", "vbscript:", "file:", "blob:", "about:"];

/** RFC 6749 section 3.1.2: absolute, without a fragment. Schemes of applications are fine (RFC 8252 section 7.1), those a browser would run are not. */
const isRedirect = (value: string): boolean => {
  if (!/^[\x21-\x7e]+$/.test(value) || value.includes("#") || !URL.canParse(value)) return false;
  const { protocol, host, username, password } = new URL(value);
  const isWeb = protocol === "http:" || protocol === "https:";
  return !schemesThatRun.includes(protocol) && username === "" && password === "" && (!isWeb || host !== "");
};

const RedirectUri = z
  .string()
  .max(2_000, "Length must be 1-2000 characters")
  .refine(isRedirect, "Must be a whole URL, such as https://app.example.com/callback, without a fragment or a password in it.");

/** Contract 4.5. */
export const clientFields = {
  id: field.read(z.string(), "20 hex characters: `client_id` in the OAuth flow."),
  label: field.write(text(1, 512), "Name that users see when they are asked.", { required: true, filter: true }),
  redirectUri: field.write(RedirectUri, "Where users are sent back to; compared exactly.", { required: true }),
  public: field.create(z.boolean(), "Cannot keep a secret. Default: false.", { filter: true }),
  secret: field.read(z.string(), "64 hex characters in the answer that made it, then `<REDACTED>`."),
  status: field.read(z.enum(["active", "disabled", "suspended"]), "Always `active`."),
  thumbnailUrl: field.read(z.string().nullable(), "Where its picture is; null without one."),
};

/** Contract 4.3: what a user allowed an application. */
export const appFields = {
  id: field.read(z.int().positive(), "Given with the consent."),
  label: field.read(z.string(), "The application's name."),
  scopes: field.read(z.string(), "What it may do."),
  website: field.read(z.string(), "Where it lives: the origin of its redirect URI."),
  created: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  expiry: field.read(z.string(), "When it must ask again, UTC."),
  thumbnailUrl: field.read(z.string().nullable(), "Where its picture is; null without one."),
};
