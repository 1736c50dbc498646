import { Fault, invalid } from "../kernel/fault.js";

/** Largest request body, in bytes: a certificate chain fits many times, and so does the garbage somebody pastes instead. */
export const bodyLimitBytes = 4 * 1024 * 1024;
const depthLimit = 32;

/** Brackets are counted in the text, before anything recursive sees it: V8 parses 100,000 levels, and walking them then overflows. */
const nestingOf = (text: string): number => {
  let depth = 0;
  let deepest = 0;
  let inString = false;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (inString) {
      if (code === 0x5c) at += 1;
      else if (code === 0x22) inString = false;
    } else if (code === 0x22) inString = true;
    else if (code === 0x7b || code === 0x5b) deepest = Math.max(deepest, ++depth);
    else if (code === 0x7d || code === 0x5d) depth -= 1;
  }
  return deepest;
};

/** V8's words without its quotation of the text: what stands around the fault may be a password, and answers are kept and shown. */
const saidOf = (error: unknown): string => (error instanceof Error ? (error.message.split(/, (?:\.\.\.)?"/, 1)[0] ?? "").slice(0, 120) : "");

/** JSON text of bounded depth, or a fault on `field`. */
export const parseJson = (text: string, field?: string): unknown => {
  if (nestingOf(text) > depthLimit) throw invalid(`JSON is nested deeper than ${depthLimit} levels.`, field);
  try {
    return JSON.parse(text);
  } catch (error) {
    throw invalid(`Invalid JSON: ${saidOf(error)}`, field);
  }
};

/** The body as an object: JSON only (RFC 8259, so UTF-8), an empty body is an empty object. */
export const parseBody = (raw: Buffer, contentType: string | undefined): Record<string, unknown> => {
  if (raw.length === 0) return {};
  const [mediaType = "", ...parameters] = (contentType ?? "").split(";").map((part) => part.trim().toLowerCase());
  const charset = parameters
    .find((part) => part.startsWith("charset="))
    ?.slice(8)
    .replaceAll('"', "");
  if (mediaType !== "application/json" || (charset !== undefined && charset !== "utf-8" && charset !== "utf8")) {
    throw new Fault("unsupported-type", [{ reason: "The body must be JSON: send Content-Type: application/json." }]);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(raw);
  } catch {
    throw invalid("Invalid JSON: the body is not UTF-8.");
  }
  const value = parseJson(text);
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw invalid("Invalid JSON: the body must be an object.");
  return value as Record<string, unknown>;
};

/** A body that is bytes of one media type. */
export const bytesOf = (raw: Buffer, contentType: string | undefined, takes: string): Buffer => {
  if ((contentType ?? "").split(";")[0]?.trim().toLowerCase() !== takes) {
    throw new Fault("unsupported-type", [{ reason: `Send the bytes with Content-Type: ${takes}.` }]);
  }
  return raw;
};
