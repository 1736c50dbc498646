import { isIP } from "node:net";
import { z } from "zod";
import { parseCidr, parseIpv4, type Range } from "../kernel/addresses.js";
import { serverPlace } from "../kernel/names.js";
import type { Config } from "./settings.js";

/** One row: everything there is to know of a setting. Flag, variable and help text are derived from it (`configFlags`). */
export interface Setting<T> {
  /** How its text in a flag or variable is read; the file has JSON's own types. */
  kind: "text" | "number" | "switch" | "pairs";
  /** Its flag, where that is not named after the key. */
  flag?: string;
  /** Stands for the value in usage lines; undefined: a switch. */
  placeholder: string | undefined;
  description: string;
  /** Without it the Config holds undefined, or (state) what the environment decides. */
  default: T | undefined;
  schema: z.ZodType<T>;
  /** Its value is never shown, not even when it is wrong. */
  secret: boolean;
}

type SettingsTable = { readonly [Key in keyof Config]-?: Setting<Exclude<Config[Key], undefined>> };

interface Row<T> {
  description: string;
  default?: T;
}

/** `rule` completes the sentence "<where it was set>: must be …". */
const text = (placeholder: string, rule: string, passes: (value: string) => boolean, row: Row<string>): Setting<string> => ({
  kind: "text",
  placeholder,
  description: row.description,
  default: row.default,
  schema: z.string({ error: rule }).refine(passes, { error: rule }),
  secret: false,
});

const number = (placeholder: string, rule: string, passes: (value: number) => boolean, row: Row<number>): Setting<number> => ({
  kind: "number",
  placeholder,
  description: row.description,
  default: row.default,
  schema: z.number({ error: rule }).refine(passes, { error: rule }),
  secret: false,
});

const choice = <const T extends string>(values: readonly [T, ...T[]], row: Row<T>, placeholder: string = values.join("|")): Setting<T> => ({
  kind: "text",
  placeholder,
  description: row.description,
  default: row.default,
  schema: z.enum(values, { error: `one of ${values.join(", ")}` }) as unknown as z.ZodType<T>,
  secret: false,
});

const onOff = (row: Row<boolean>): Setting<boolean> => ({
  kind: "switch",
  placeholder: undefined,
  description: row.description,
  default: row.default ?? false,
  schema: z.boolean({ error: "true or false" }),
  secret: false,
});

/** `slug=reference` pairs: a flag that may be repeated, a variable with blanks between them, an object in the file. */
const pairs = (
  placeholder: string,
  flag: string,
  rule: string,
  passes: (name: string, value: string) => boolean,
  row: Row<never>,
): Setting<Readonly<Record<string, string>>> => ({
  kind: "pairs",
  flag,
  placeholder,
  description: row.description,
  default: {},
  schema: z.custom<Readonly<Record<string, string>>>(
    (value) =>
      typeof value === "object" &&
      value !== null &&
      !Array.isArray(value) &&
      Object.entries(value).every(([name, held]) => typeof held === "string" && passes(name, held)),
    { error: rule },
  ),
  secret: false,
});

const cidr = (rule: string, passes: (range: Range) => boolean, row: Row<string>): Setting<string> => {
  const fits = (value: string): boolean => {
    const range = parseCidr(value);
    return range !== undefined && passes(range);
  };
  return text("CIDR", rule, fits, row);
};

const hostName = /^(?=.{1,253}$)[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?(\.[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?)*\.?$/i;
/** Digits and dots that are no address would be looked up as a name and fail much later. */
const isHost = (value: string): boolean => isIP(value) !== 0 || (hostName.test(value) && !/^[\d.]+$/.test(value));

const slugForm = /^[a-z0-9][a-z0-9.-]*\/[a-z0-9][a-z0-9._-]*$/i;
/** The distribution specification's names, roughly: the engine judges the rest. */
const referenceForm = /^[a-z0-9][a-zA-Z0-9._:/@-]{0,254}$/;
/** These are the account's own. */
const isPublicSlug = (slug: string): boolean => slugForm.test(slug) && slug.length <= 100 && !/^private\//i.test(slug);

const privateBlock = { base: parseIpv4("192.168.0.0") ?? 0, size: 2 ** 16 };

/** The one home of every setting. */
export const settingsTable: SettingsTable = {
  port: number("PORT", "a whole number from 0 to 65535", (port) => Number.isInteger(port) && port >= 0 && port <= 65535, {
    description: "TCP port of the API; 0 picks a free one",
    default: 4747,
  }),
  linodePort: number("PORT", "a whole number from 0 to 65535", (port) => Number.isInteger(port) && port >= 0 && port <= 65535, {
    description: "one more TCP port, where every path under /v4 speaks the public Linode spelling (default: none; /v4beta always does)",
  }),
  host: text("ADDRESS", "an IP address or a host name", isHost, { description: "address the API binds to", default: "127.0.0.1" }),
  state: text("DIR", "the path of a folder", (path) => path.trim() !== "" && !path.includes("\0"), {
    description: "folder of the state (default: $XDG_STATE_HOME/backlot, or ~/.local/state/backlot)",
  }),
  runtime: choice(["auto", "docker", "process"], { description: "what runs instances; auto: docker when an engine answers", default: "auto" }),
  token: {
    ...text("VALUE", "at least 16 printable ASCII characters without spaces", (token) => /^[\x21-\x7e]{16,}$/.test(token), {
      description: "a full-rights access token of your choice, at least 16 characters (default: a new one at each start)",
    }),
    secret: true,
  },
  speed: number("N", "a number above 0", (speed) => Number.isFinite(speed) && speed > 0, {
    description: "divides all simulated waiting; 1 is as in production",
    default: 10,
  }),
  balancerAddresses: cidr("an address range A.B.C.D/8 to /32 with no host bits set", ({ prefix }) => prefix >= 8, {
    description: "addresses that balancers listen on",
    default: "127.0.0.0/24",
  }),
  privatePool: cidr(
    "an address range /16 to /20 inside 192.168.0.0/16 with no host bits set",
    ({ base, prefix }) => prefix >= 16 && prefix <= 20 && base >= privateBlock.base && base < privateBlock.base + privateBlock.size,
    { description: "where private addresses come from, a /16 to /20 inside 192.168.0.0/16", default: "192.168.128.0/17" },
  ),
  dial: choice(["auto", "direct", "relay"], {
    description: "how containers' private addresses are reached; auto: a relay container a region where they cannot be dialled",
    default: "auto",
  }),
  fastLane: choice(["on", "off"], { description: "off: every request takes the balancer's careful lane, node:http and http-proxy", default: "on" }),
  clientKeepAlive: choice(["on", "off"], {
    description: "off: balancers close a client's connection after each answer, as the public service does",
    default: "on",
  }),
  balancerConnections: number("N", "a whole number from 1 to 1000000", (count) => Number.isInteger(count) && count >= 1 && count <= 1_000_000, {
    description: "client connections one balancer may have open",
    default: 10_000,
  }),
  certificates: choice(["strict", "lenient"], {
    description: "lenient also takes elliptic curve keys and subjects without country",
    default: "strict",
  }),
  cors: choice(["off", "on"], { description: "on: web pages of any origin may use the API with a token they have", default: "off" }),
  imageFallback: text("SLUG", 'an image slug such as "cloud/debian12"', (slug) => slugForm.test(slug), {
    description: "image to boot when the asked one cannot be had (default: fail with the reason)",
  }),
  images: pairs(
    "SLUG=REFERENCE",
    "--image",
    'pairs such as "cloud/mine=registry.example/name:tag", the slug not private/...',
    (slug, reference) => isPublicSlug(slug) && referenceForm.test(reference),
    { description: "a container image of your own to make instances of, by the slug it gets; may be repeated" },
  ),
  rateLimit: onOff({ description: "refuse calls beyond the public API's rate limits with 429" }),
  onExit: choice(["keep", "stop"], { description: "what becomes of running instances when Backlot stops", default: "keep" }),
  allowHostScripts: onOff({ description: "let the process runtime run scripts that Backlot does not ship, as you, on this machine" }),
  dnsPort: {
    kind: "number",
    placeholder: "PORT",
    description: 'UDP and TCP port of the name server; 0 picks a free one, "off" has none',
    default: 4753,
    schema: z.custom<number | "off">().refine((port) => port === "off" || (Number.isInteger(port) && port >= 0 && port <= 65_535), {
      error: 'a whole number from 0 to 65535, or "off"',
    }),
    secret: false,
  },
  dnsHost: text("ADDRESS", "an IP address", (value) => isIP(value) !== 0, {
    description: "address the name server binds to",
    default: "127.0.0.1",
  }),
  dnsUpstream: text(
    "ADDRESSES",
    'IP addresses with commas between them, each with or without a port, such as "192.0.2.1,192.0.2.2:5353"',
    (value) => value.split(",").every((each) => isIP(serverPlace(each.trim())?.host ?? "") !== 0),
    { description: "resolvers that names beyond Backlot's are looked up with (default: this machine's)" },
  ),
  dnsForward: onOff({ description: "look up names beyond Backlot's for this machine too, not only for instances" }),
  logLevel: choice(["fatal", "error", "warn", "info", "debug", "trace", "silent"], { description: "how much is logged", default: "info" }, "LEVEL"),
  json: onOff({ description: "print the first line on standard output as JSON" }),
};

export type SettingKey = keyof Config;

export const settingKeys = Object.keys(settingsTable) as SettingKey[];

/** `balancerAddresses` -> `--balancer-addresses` */
export const flagOf = (key: string): string =>
  (Object.hasOwn(settingsTable, key) ? settingsTable[key as SettingKey].flag : undefined) ??
  `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;

/** `balancerAddresses` -> `BACKLOT_BALANCER_ADDRESSES` */
export const variableOf = (key: string): string => `BACKLOT_${key.replace(/[A-Z]/g, (letter) => `_${letter}`).toUpperCase()}`;

export interface ConfigFlag {
  key: SettingKey;
  /** As typed: `--port`. */
  name: string;
  /** What the command line calls its value: `--port` -> `port`. */
  attribute: string;
  /** May be given more than once. */
  repeatable: boolean;
  /** Placeholder of its value; undefined: a switch without one. */
  value: string | undefined;
  description: string;
  /** The variable that says the same: `BACKLOT_PORT`. */
  env: string;
  /** As text, for help; undefined when there is none or the description tells. */
  default: string | undefined;
}

/** For the command line's options and the documentation. */
export const configFlags: readonly ConfigFlag[] = settingKeys.map((key) => {
  const { placeholder, description, default: initial, kind } = settingsTable[key];
  return {
    key,
    name: flagOf(key),
    attribute: flagOf(key)
      .slice(2)
      .replace(/-([a-z])/g, (_, letter: string) => letter.toUpperCase()),
    repeatable: kind === "pairs",
    value: placeholder,
    description,
    env: variableOf(key),
    default: initial === undefined || kind === "switch" || kind === "pairs" ? undefined : String(initial),
  };
});
