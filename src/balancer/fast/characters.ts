/** Byte classes of RFC 9110 section 5 and RFC 9112 section 3, as tables: one look-up a byte, nothing that could backtrack. */

const table = (holds: (code: number) => boolean): Uint8Array => Uint8Array.from({ length: 256 }, (_, code) => (holds(code) ? 1 : 0));
const anyOf = (text: string) => (code: number) => text.includes(String.fromCharCode(code));
const isAlphanumeric = (code: number): boolean => (code >= 48 && code <= 57) || (code >= 65 && code <= 90) || (code >= 97 && code <= 122);

const inToken = anyOf("!#$%&'*+-.^_`|~");
const TOKEN = table((code) => isAlphanumeric(code) || inToken(code));
/** field-value: HTAB, SP, VCHAR, obs-text. */
const VALUE = table((code) => code === 9 || (code >= 32 && code !== 127));
/** What a path and query may hold without a second thought; `#` and what is not ASCII need one. */
const TARGET = table((code) => code > 32 && code < 127 && code !== 35);
const inHost = anyOf("-._:[]");
const HOST = table((code) => isAlphanumeric(code) || inHost(code));

const consistsOf =
  (allowed: Uint8Array) =>
  (text: string, from: number, to: number): boolean => {
    for (let at = from; at < to; at++) if (allowed[text.charCodeAt(at)] !== 1) return false;
    return true;
  };

/** The text is latin1, so a code is a byte; `from` inclusive, `to` exclusive. */
export const isFieldValue = consistsOf(VALUE);
export const isPlainTarget = consistsOf(TARGET);
export const isPlainHost = consistsOf(HOST);

/** Where the token that begins at `from` ends. */
export const tokenEnd = (text: string, from: number): number => {
  let at = from;
  while (TOKEN[text.charCodeAt(at)] === 1) at++;
  return at;
};

/** Where the field whose name lies from `from` to `colon` ends with its line; -1: it is none, or something else than CRLF ends it. */
export const fieldEnd = (text: string, from: number, colon: number): number => {
  if (colon === from || text.charCodeAt(colon) !== 58) return -1;
  let at = colon + 1;
  while (VALUE[text.charCodeAt(at)] === 1) at++;
  return text.charCodeAt(at) === 13 && text.charCodeAt(at + 1) === 10 ? at : -1;
};

/**
 * Whether a name (`from` inclusive, `to` exclusive) can be one of `names`, by its length and first letter: most fields of a head are none that
 * matter here, and need not be cut out of it to see that.
 */
export const mayBeOneOf = (names: Iterable<string>): ((text: string, from: number, to: number) => boolean) => {
  const seen = new Uint8Array(1_024);
  const place = (text: string, from: number, to: number) => ((to - from) & 31) * 32 + (text.charCodeAt(from) & 31);
  for (const name of names) seen[place(name, 0, name.length)] = 1;
  return (text, from, to) => seen[place(text, from, to)] === 1;
};

/** Without optional white space around it (RFC 9110 section 5.6.3). */
export const trimmed = (text: string, from: number, to: number): string => {
  let start = from;
  let end = to;
  while (start < end && (text.charCodeAt(start) === 32 || text.charCodeAt(start) === 9)) start++;
  while (end > start && (text.charCodeAt(end - 1) === 32 || text.charCodeAt(end - 1) === 9)) end--;
  return text.slice(start, end);
};

/** A length of 1 to 15 digits; -1 when it is anything else. */
export const parseLength = (text: string): number => {
  if (text.length === 0 || text.length > 15) return -1;
  let value = 0;
  for (let at = 0; at < text.length; at++) {
    const digit = text.charCodeAt(at) - 48;
    if (digit < 0 || digit > 9) return -1;
    value = value * 10 + digit;
  }
  return value;
};
