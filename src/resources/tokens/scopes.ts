/** Scope words of the native dialect (contract 2.3, 4.2). */
const nativeWords = ["account", "balancers", "domains", "events", "images", "instances", "ips", "scripts", "volumes"] as const;

/** Other spellings of them: the public vendor's, and what clients of 2017 asked for (contract 2.5, 4.2). */
const aliases: Readonly<Record<string, string>> = {
  linodes: "instances",
  cloud: "instances",
  nodebalancers: "balancers",
  stackscripts: "scripts",
  tokens: "account",
  clients: "account",
  users: "account",
  tickets: "account",
};

/** Words of the public API for what does not exist here: a token may carry them, as clients ask for many, and they give nothing. */
const foreignWords = ["child_account", "databases", "firewall", "lke", "longview", "monitor", "object_storage", "vpc"];

const levels: Readonly<Record<string, "read_only" | "read_write">> = {
  read_only: "read_only",
  read_write: "read_write",
  view: "read_only",
  modify: "read_write",
  create: "read_write",
  delete: "read_write",
  "*": "read_write",
};

/** One scope in its native spelling, `word:level`; undefined when it is none. */
const canonical = (scope: string): string | undefined => {
  const [given = "", level = "", ...rest] = scope.split(":");
  const word = Object.hasOwn(aliases, given) ? aliases[given] : given;
  const known = (nativeWords as readonly string[]).includes(word ?? "") || foreignWords.includes(given);
  return rest.length === 0 && known && Object.hasOwn(levels, level) ? `${word}:${levels[level]}` : undefined;
};

const parts = (scopes: string): string[] => scopes.split(/[ ,]+/).filter((part) => part !== "");

/** What stands in a list of scopes that is no scope; old clients separate with commas (contract 4.2). */
export const unknownScopes = (scopes: string): string[] => parts(scopes).filter((part) => part !== "*" && canonical(part) === undefined);

/** As it is kept and shown: separated by one space, each once, words as they were given. `*` swallows the others. */
export const tidyScopes = (scopes: string): string => (parts(scopes).includes("*") ? "*" : [...new Set(parts(scopes))].join(" "));

/** Whether `held` gives `wanted`, one scope in any spelling. `read_write` includes reading; `*` gives everything. */
export const givesScope = (held: string, wanted: string): boolean => {
  const ours = parts(held);
  if (ours.includes("*")) return true;
  if (wanted === "*") return false;
  const asked = canonical(wanted);
  if (asked === undefined) return false;
  const words = ours.map(canonical);
  return words.includes(asked) || (asked.endsWith(":read_only") && words.includes(asked.replace(":read_only", ":read_write")));
};

/** Whether the caller's token lets it read what `word` stands for; for a route that shows more to those who may. */
export const mayRead = (caller: { scopes: string } | undefined, word: string): boolean => givesScope(caller?.scopes ?? "", `${word}:read_only`);

/** The scopes of `wanted` that go beyond `held`. */
export const excessScopes = (held: string, wanted: string): string[] => parts(wanted).filter((part) => !givesScope(held, part));

/** Scopes in native words, each once, for the consent page and for headers. */
export const scopeWords = (scopes: string): string[] =>
  parts(scopes).includes("*") ? ["*"] : [...new Set(parts(scopes).flatMap((part) => canonical(part) ?? []))];
