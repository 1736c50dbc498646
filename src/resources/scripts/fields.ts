import { z } from "zod";
import { field, text } from "../../kernel/field.js";

/** Characters; the public service takes about as much (contract 13.2 says nothing). */
const longestScript = 65_535;

const Script = z
  .string()
  .max(longestScript, `Must be at most ${longestScript} characters.`)
  .refine((value) => /^#!\s*\/\S/.test(value), "Must begin with a shebang, such as #!/bin/sh.")
  .refine((value) => !value.includes("\0"), "Must not hold a NUL character.");

const Images = z.array(text(1, 100)).min(1, "Needs at least one; any/all stands for every image.").max(200, "Must hold at most 200 entries.");

/** Description 2.4 (a script's id) and contract 13.2. */
export const scriptFields = {
  id: field.read(z.int().positive(), "Script id. Those that Backlot ships are below 1,001.", { source: "description" }),
  username: field.read(z.string(), "Who wrote it."),
  userGravatarId: field.read(z.string(), "Empty."),
  label: field.write(text(3, 128), "Name.", { required: true, filter: true }),
  description: field.write(z.string().max(65_535, "Must be at most 65535 characters."), "What it does.", { filter: true }),
  images: field.write(Images, "Images it runs on; `any/all` stands for every one.", { required: true }),
  deploymentsTotal: field.read(z.int(), "How often it was deployed.", { filter: true }),
  deploymentsActive: field.read(z.int(), "Instances that there are now and that were deployed with it."),
  isPublic: field.write(z.boolean(), "Everybody may see and use it. Cannot be taken back.", { filter: true }),
  created: field.read(z.string(), "UTC."),
  updated: field.read(z.string(), "UTC."),
  revNote: field.write(z.string().max(512, "Must be at most 512 characters."), "What changed last.", { filter: true }),
  script: field.write(Script, "The text, beginning with a shebang.", { required: true }),
  userDefinedFields: field.read(
    z.array(z.record(z.string(), z.string())),
    "Questions it asks at deploy, from the `<UDF name= label= example= default= oneof= manyof= header= />` tags of its text.",
  ),
  mine: field.read(z.boolean(), "Written by this account.", { filter: true }),
  ordinal: field.read(z.int(), "0."),
  logoUrl: field.read(z.string(), "Empty."),
};
