import { fieldEnd, tokenEnd } from "./characters.js";

const CR = 13;
const LF = 10;
const SEMICOLON = 59;
/** Sizes beyond are no sizes; the digits of 2^52. */
const MAX_DIGITS = 13;
const MAX_EXTENSION_BYTES = 16_384;
const MAX_TRAILER_BYTES = 16_384;

const hexDigit = (code: number): number => {
  if (code >= 48 && code <= 57) return code - 48;
  const lower = code | 32;
  return lower >= 97 && lower <= 102 ? lower - 87 : -1;
};

/** Fields of a trailer section (latin1, each line with its CRLF) that may be passed on. */
const isTrailerSection = (text: string): boolean => {
  for (let at = 0; at < text.length; ) {
    const colon = tokenEnd(text, at);
    const end = fieldEnd(text, at, colon);
    if (end === -1) return false;
    at = end + 2;
  }
  return true;
};

/**
 * Follows a chunked body (RFC 9112 section 7.1) without copying it: what is passed are slices of what came, byte for byte, except that chunk
 * extensions are left out (section 7.1.1) and trailers are held back until they are whole, or dropped.
 */
export class ChunkReader {
  /** The last byte of the body was read. */
  done = false;
  readonly #keepsTrailers: boolean;
  #state: "size" | "extension" | "sizeLf" | "data" | "dataCr" | "dataLf" | "trailer" = "size";
  #digits = 0;
  #left = 0;
  #extensionBytes = 0;
  #trailer = "";

  constructor(keepsTrailers: boolean) {
    this.#keepsTrailers = keepsTrailers;
  }

  /**
   * Reads `bytes` from `from` on and hands what is to be passed to `pass`, in order. Returns where the body ended or, when it goes on,
   * the end of `bytes`; -1 when this is no chunked body.
   */
  read(bytes: Buffer, from: number, pass: (piece: Buffer) => void): number {
    /** The first byte that is not passed yet. */
    let start = from;
    let at = from;
    const size = bytes.length;
    const passUntil = (end: number) => {
      if (end > start) pass(start === 0 && end === size ? bytes : bytes.subarray(start, end));
    };
    while (at < size) {
      if (this.#state === "data") {
        const taken = Math.min(this.#left, size - at);
        this.#left -= taken;
        at += taken;
        if (this.#left === 0) this.#state = "dataCr";
        continue;
      }
      const code = bytes[at] as number;
      switch (this.#state) {
        case "size": {
          const digit = hexDigit(code);
          if (digit >= 0) {
            if (++this.#digits > MAX_DIGITS) return -1;
            this.#left = this.#left * 16 + digit;
          } else if (this.#digits === 0) return -1;
          else if (code === CR) this.#state = "sizeLf";
          else if (code === SEMICOLON) {
            passUntil(at);
            this.#state = "extension";
          } else return -1;
          at++;
          break;
        }
        case "extension":
          if (code === CR) {
            start = at;
            this.#state = "sizeLf";
          } else if (++this.#extensionBytes > MAX_EXTENSION_BYTES || code === 127 || (code < 32 && code !== 9)) return -1;
          at++;
          start = code === CR ? start : at;
          break;
        case "sizeLf":
          if (code !== LF) return -1;
          at++;
          this.#digits = 0;
          if (this.#left > 0) this.#state = "data";
          else {
            this.#state = "trailer";
            if (bytes[at] === CR && bytes[at + 1] === LF) {
              passUntil(at + 2);
              this.done = true;
              return at + 2;
            }
            passUntil(at);
            start = size;
          }
          break;
        case "dataCr":
          if (code !== CR) return -1;
          this.#state = "dataLf";
          at++;
          break;
        case "dataLf":
          if (code !== LF) return -1;
          this.#state = "size";
          at++;
          break;
        default:
          start = size;
          return this.#readTrailer(bytes, at, pass);
      }
    }
    passUntil(size);
    return size;
  }

  /** Holds trailer bytes until the empty line that ends them. */
  #readTrailer(bytes: Buffer, from: number, pass: (piece: Buffer) => void): number {
    let at = from;
    while (at < bytes.length) {
      const lf = bytes.indexOf(LF, at);
      const end = lf === -1 ? bytes.length : lf + 1;
      this.#trailer += bytes.toString("latin1", at, end);
      if (this.#trailer.length > MAX_TRAILER_BYTES) return -1;
      at = end;
      if (this.#trailer === "\r\n" || this.#trailer.endsWith("\r\n\r\n")) {
        const fields = this.#trailer.slice(0, -2);
        if (!isTrailerSection(fields)) return -1;
        pass(Buffer.from(this.#keepsTrailers ? this.#trailer : "\r\n", "latin1"));
        this.done = true;
        return at;
      }
      if (lf !== -1 && !this.#trailer.endsWith("\r\n")) return -1;
    }
    return bytes.length;
  }
}
