import { z } from "zod";
import { field } from "../../kernel/field.js";

/** Contract 14.6. */
export const loginFields = {
  id: field.read(z.int().positive(), "Grows with every try."),
  datetime: field.read(z.string(), "UTC, `YYYY-MM-DDTHH:MM:SS`."),
  ip: field.read(z.string(), "Where the browser was."),
  username: field.read(z.string(), "Who."),
  status: field.read(z.enum(["successful", "failed"]), "Whether it was let in."),
  restricted: field.read(z.boolean(), "Whether the user was restricted then."),
};
