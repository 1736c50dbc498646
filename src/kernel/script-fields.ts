/** One question that a deploy script asks, as its text declares it (contract 13.2): `<UDF name="…" label="…" …/>`. */
export interface ScriptField {
  /** Name of the environment variable that holds the answer. */
  name: string;
  label: string;
  example?: string;
  /** The answer when none is given; without it one must be. */
  default?: string;
  /** Comma separated: exactly one of these. */
  oneof?: string;
  /** Comma separated: any number of these, comma separated too. */
  manyof?: string;
  /** A heading among the questions: nothing is asked. */
  header?: string;
}

const mostFields = 200;
const opening = "<udf";
const knownAttributes = ["name", "label", "example", "default", "oneof", "manyof", "header"] as const;
const entities: Readonly<Record<string, string>> = { quot: '"', apos: "'", lt: "<", gt: ">", amp: "&", "#39": "'", "#34": '"' };

const isSpace = (code: number): boolean => code === 32 || (code >= 9 && code <= 13);
/** Letters, digits, `_`, `-`. */
const isNameCode = (code: number): boolean =>
  (code >= 97 && code <= 122) || (code >= 65 && code <= 90) || (code >= 48 && code <= 57) || code === 95 || code === 45;
const decoded = (value: string): string => value.replace(/&([a-z]{2,4}|#3[49]);/g, (whole, name: string) => entities[name] ?? whole);

interface Tag {
  attributes: Map<string, string>;
  /** Where it ends; where reading stopped when it is broken. */
  end: number;
  problem?: string;
}

/** Blanks, and the mark that begins a comment's next line, so that a tag may go on there. */
const skipBlanks = (text: string, from: number): number => {
  let at = from;
  for (let afterNewline = false; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === 10) afterNewline = true;
    else if (!isSpace(code) && !(code === 35 && afterNewline)) break;
  }
  return at;
};

/** Reads one tag, character by character: no expression that a hostile text could make slow. */
const tagAt = (text: string, start: number): Tag => {
  const attributes = new Map<string, string>();
  let at = start + opening.length;
  for (;;) {
    at = skipBlanks(text, at);
    if (text[at] === ">") return { attributes, end: at + 1 };
    if (text.startsWith("/>", at)) return { attributes, end: at + 2 };
    const begin = at;
    while (at < text.length && isNameCode(text.charCodeAt(at))) at += 1;
    const name = text.slice(begin, at).toLowerCase();
    if (name === "") return { attributes, end: at, problem: at < text.length ? "holds what is no attribute" : "does not end" };
    at = skipBlanks(text, at);
    if (text[at] !== "=") return { attributes, end: at, problem: `has no value for ${name.slice(0, 40)}` };
    at = skipBlanks(text, at + 1);
    const quote = text[at];
    const close = quote === '"' || quote === "'" ? text.indexOf(quote, at + 1) : -1;
    if (close === -1) return { attributes, end: at, problem: `has no quoted value for ${name.slice(0, 40)}` };
    if (attributes.has(name)) return { attributes, end: at, problem: `says ${name.slice(0, 40)} twice` };
    attributes.set(name, decoded(text.slice(at + 1, close)));
    at = close + 1;
  }
};

const choicesOf = (list: string): string[] =>
  list
    .split(",")
    .map((entry) => entry.trim())
    .filter((entry) => entry !== "");

/** The answers a field allows; undefined: any text. */
export const fieldChoices = (field: ScriptField): string[] | undefined => {
  const list = field.oneof ?? field.manyof;
  return list === undefined ? undefined : choicesOf(list);
};

/** The parts of an answer: several only where several may be chosen. */
export const answerParts = (field: ScriptField, answer: string): string[] => (field.manyof === undefined ? [answer] : choicesOf(answer));

const fieldProblem = (field: Partial<ScriptField>, taken: ReadonlySet<string>): string | undefined => {
  if (field.name === undefined) return "has no name";
  if (!/^[A-Za-z_][A-Za-z0-9_]{0,63}$/.test(field.name)) return "has a name that is no name of a variable (letters, digits and _, at most 64)";
  if (taken.has(field.name)) return `asks for ${field.name} a second time`;
  if (field.label === undefined || field.label.trim() === "") return `has no label for ${field.name}`;
  if (field.oneof !== undefined && field.manyof !== undefined) return `gives ${field.name} both oneof and manyof`;
  const choices = fieldChoices(field as ScriptField);
  if (choices?.length === 0) return `gives ${field.name} nothing to choose from`;
  if (choices === undefined || field.default === undefined) return undefined;
  const strange = answerParts(field as ScriptField, field.default).find((part) => !choices.includes(part));
  return strange === undefined ? undefined : `has a default for ${field.name} that is none of its choices`;
};

/**
 * The questions a script's text asks, in order, and what is wrong with its tags: sentences with the line of the tag. A tag that is wrong asks nothing.
 * Takes time in proportion to the text.
 */
export const scriptFieldsOf = (text: string): { fields: ScriptField[]; problems: string[] } => {
  const fields: ScriptField[] = [];
  const problems: string[] = [];
  const taken = new Set<string>();
  let line = 1;
  let counted = 0;
  let read = 0;
  for (const { index: at } of text.matchAll(/<udf(?=\s)/gi)) {
    if (at < read) continue; // inside the value of another
    for (; counted < at; counted += 1) if (text.charCodeAt(counted) === 10) line += 1;
    const { attributes, end, problem } = tagAt(text, at);
    read = end;
    const field: Partial<ScriptField> = Object.fromEntries(
      knownAttributes.flatMap((name) => (attributes.has(name) ? [[name, attributes.get(name)]] : [])),
    );
    const wrong = problem ?? (fields.length >= mostFields ? `is one more than the ${mostFields} that are taken` : fieldProblem(field, taken));
    if (wrong !== undefined) problems.push(`The UDF tag on line ${line} ${wrong}.`);
    else {
      taken.add(field.name as string);
      fields.push(field as ScriptField);
    }
    if (problems.length >= 20) break;
  }
  return { fields, problems };
};
