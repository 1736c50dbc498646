import { crc32 } from "node:zlib";

/** Bytes before the sealed text: `{"crc32":"` + 8 hex digits + `",`. */
export const SEAL_LENGTH = 20;

export const sealOf = (sum: number): string => `{"crc32":"${sum.toString(16).padStart(8, "0")}",`;

/** Puts a checksum of all that follows in front, and leaves one JSON object. `json` is the text of an object with at least one member. */
export const sealed = (json: string): string => {
  const rest = json.slice(1);
  return sealOf(crc32(rest)) + rest;
};

/**
 * What was sealed, or `undefined` when one bit of it is not as it was written. The sum is taken over bytes, not over decoded text: decoding
 * would turn different broken bytes into the same replacement character.
 */
export const unsealed = (bytes: Buffer): Record<string, unknown> | undefined => {
  const rest = bytes.subarray(SEAL_LENGTH);
  if (rest.length === 0 || bytes.toString("latin1", 0, SEAL_LENGTH) !== sealOf(crc32(rest))) return undefined;
  try {
    return JSON.parse(`{${rest.toString("utf8")}`);
  } catch {
    return undefined;
  }
};
