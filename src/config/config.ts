import { readFileSync } from "node:fs";
import { homedir } from "node:os";
import { isAbsolute, join, resolve } from "node:path";
import { z } from "zod";
import { overlaps, parseCidr } from "../kernel/addresses.js";
import { Fault, type Problem } from "../kernel/fault.js";
import { nearName } from "./near-name.js";
import type { Config } from "./settings.js";
import { flagOf, type SettingKey, settingKeys, settingsTable, variableOf } from "./settings-table.js";

export { configFlags } from "./settings-table.js";

export interface ConfigSources {
  /** As the command line or a library caller gives them, camelCase; undefined: not given. Text and JSON types are both taken. */
  flags: Record<string, unknown>;
  /** What a setting is called where `flags` came from; by default as on the command line, `--port`. */
  nameOf?: (key: string) => string;
  env: Record<string, string | undefined>;
  /** Folder of `backlot.config.json`, and what relative paths start from. */
  cwd: string;
}

type Values = Record<string, unknown>;

/** One place settings come from, its values by our key or, when we do not know it, by the name it has there. */
interface Source {
  values: Values;
  /** How it calls a key: `--port`, `BACKLOT_PORT`, `backlot.config.json: port`. */
  nameOf: (key: string) => string;
  problems: Problem[];
}

const configFile = "backlot.config.json";

/** Read by the tests, not by Backlot. */
const foreignVariables = new Set(["BACKLOT_REQUIRE_BROWSER", "BACKLOT_REQUIRE_DOCKER", "BACKLOT_REQUIRE_HAPROXY"]);

const schema = z.object(Object.fromEntries(settingKeys.map((key) => [key, settingsTable[key].schema]))).partial();

const isKey = (key: string): key is SettingKey => Object.hasOwn(settingsTable, key);

const switchWords: Record<string, boolean> = { true: true, "1": true, false: false, "0": false };

/** `["a=b", "c=d e=f"]` -> an object; what is no pair leaves all as it was, for the schema to refuse. */
const pairsIn = (value: string | readonly string[]): unknown => {
  const entries = [value].flat().flatMap((text) => text.split(/[\s,]+/).filter((pair) => pair !== ""));
  if (!entries.every((pair) => pair.indexOf("=") > 0)) return value;
  return Object.fromEntries(entries.map((pair) => [pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1)]));
};

const isTexts = (value: unknown): value is string | string[] => [value].flat().every((each) => typeof each === "string");

/** A flag's or variable's text as the type its setting has; text that does not fit stays, and the schema refuses it. */
const typed = (key: string, value: unknown): unknown => {
  if (isKey(key) && settingsTable[key].kind === "pairs" && isTexts(value)) return pairsIn(value);
  if (typeof value !== "string" || !isKey(key)) return value;
  const { kind } = settingsTable[key];
  if (kind === "number" && /^-?\d+(\.\d+)?$/.test(value)) return Number(value);
  if (kind === "switch" && Object.hasOwn(switchWords, value)) return switchWords[value];
  return value;
};

const flagSource = ({ flags, nameOf = flagOf }: ConfigSources): Source => ({
  values: Object.fromEntries(
    Object.entries(flags)
      .filter(([, value]) => value !== undefined)
      .map(([key, value]) => [key, typed(key, value)]),
  ),
  nameOf,
  problems: [],
});

/** An empty variable counts as not set: that is how a compose file leaves one out. */
const environmentSource = (env: ConfigSources["env"]): Source => {
  const keys = new Map(settingKeys.map((key) => [variableOf(key), key]));
  const ours = Object.entries(env).filter(([name]) => name.startsWith("BACKLOT_") && !foreignVariables.has(name));
  const given = ours.filter(([name, value]) => value !== undefined && (value !== "" || !keys.has(name)));
  return {
    values: Object.fromEntries(given.map(([name, value]) => [keys.get(name) ?? name, typed(keys.get(name) ?? name, value)])),
    nameOf: (key) => (isKey(key) ? variableOf(key) : key),
    problems: [],
  };
};

/** JSON's own message quotes the text around the fault, which may be the token: only the place is told. */
const syntaxReason = (content: string, error: unknown): string => {
  const position = /position (\d+)/.exec(String(error))?.[1];
  const line = position === undefined ? undefined : content.slice(0, Number(position)).split("\n").length;
  return `${configFile}: is not valid JSON${line === undefined ? "" : ` (line ${line})`}.`;
};

const fileSource = (cwd: string): Source => {
  const source = (values: Values, ...reasons: string[]): Source => ({
    values,
    nameOf: (key) => `${configFile}: ${key}`,
    problems: reasons.map((reason) => ({ reason })),
  });
  let content: string;
  try {
    content = readFileSync(join(cwd, configFile), "utf8");
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "ENOENT" ? source({}) : source({}, `${configFile}: cannot be read (${code}).`);
  }
  try {
    const values: unknown = JSON.parse(content.replace(/^\uFEFF/, ""));
    const isObject = typeof values === "object" && values !== null && !Array.isArray(values);
    return isObject ? source(values as Values) : source({}, `${configFile}: must hold one JSON object.`);
  } catch (error) {
    return source({}, syntaxReason(content, error));
  }
};

const unknownProblems = ({ values, nameOf }: Source): Problem[] =>
  Object.keys(values)
    .filter((key) => !isKey(key))
    .map((key) => {
      const known = settingKeys.map((each) => ({ key: each, name: nameOf(each) }));
      const bareName = key.replace(/^BACKLOT_/, "");
      const near = known.find((each) => each.key === nearName(bareName, settingKeys));
      return { reason: `${nameOf(key)}: there is no such setting.${near ? ` Did you mean ${near.name.split(": ").at(-1)}?` : ""}` };
    });

const shown = (key: SettingKey, value: unknown): string => (settingsTable[key].secret ? "" : `, not ${JSON.stringify(value)?.slice(0, 80)}`);

/** The first complaint of each setting is enough: its rule is one sentence. */
const valueProblems = ({ values, nameOf }: Source): Problem[] => {
  const complaints = new Map((schema.safeParse(values).error?.issues ?? []).reverse().map((issue) => [String(issue.path[0]), issue.message]));
  return settingKeys
    .filter((key) => complaints.has(key))
    .map((key) => ({ reason: `${nameOf(key)}: must be ${complaints.get(key)}${shown(key, values[key])}.` }));
};

const home = (env: ConfigSources["env"]): string => env.HOME || homedir();

/** XDG Base Directory Specification: a relative `XDG_STATE_HOME` is to be ignored. */
const defaultState = (env: ConfigSources["env"]): string => {
  const base = env.XDG_STATE_HOME && isAbsolute(env.XDG_STATE_HOME) ? env.XDG_STATE_HOME : join(home(env), ".local", "state");
  return join(base, "backlot");
};

const statePath = (given: string | undefined, { env, cwd }: ConfigSources): string => {
  if (given === undefined) return defaultState(env);
  return resolve(cwd, given === "~" || given.startsWith("~/") ? join(home(env), given.slice(1)) : given);
};

/** Two settings that are right alone and wrong together. */
const rangeProblems = (config: Config, nameOf: (key: SettingKey) => string): Problem[] => {
  const balancers = parseCidr(config.balancerAddresses);
  const pool = parseCidr(config.privatePool);
  if (!balancers || !pool || !overlaps(balancers, pool)) return [];
  const names = [...new Set([nameOf("balancerAddresses"), nameOf("privatePool")])].join(" and ");
  return [{ reason: `${names}: balancers and instances must not share addresses, and ${config.balancerAddresses} overlaps ${config.privatePool}.` }];
};

/**
 * Every setting, from flags, else `BACKLOT_…` variables, else `backlot.config.json`, else its default. The result is frozen.
 * Throws a Fault of kind "invalid" with all problems of all sources at once; each reason is a whole line that begins with where it was set.
 * A value that is overridden must be right too.
 */
export const readConfig = (sources: ConfigSources): Config => {
  const flags = flagSource(sources);
  const env = environmentSource(sources.env);
  const file = fileSource(sources.cwd);
  const inOrder = [flags, env, file];
  const problems = inOrder.flatMap((source) => [...source.problems, ...unknownProblems(source), ...valueProblems(source)]);
  if (problems.length > 0) throw new Fault("invalid", problems);

  const initial = Object.fromEntries(settingKeys.map((key) => [key, settingsTable[key].default]));
  const merged = { ...initial, ...file.values, ...env.values, ...flags.values } as unknown as Omit<Config, "state"> & { state?: string };
  const config: Config = { ...merged, state: statePath(merged.state, sources) };
  const clashes = rangeProblems(config, (key) => inOrder.find((source) => Object.hasOwn(source.values, key))?.nameOf(key) ?? flags.nameOf(key));
  if (clashes.length > 0) throw new Fault("invalid", clashes);
  return Object.freeze(config);
};

/** The environment this process was given, as a copy: the only place that reads it. */
export const processEnvironment = (): Record<string, string | undefined> => ({ ...process.env });
