import { createHash, createHmac, randomBytes, timingSafeEqual } from "node:crypto";

/** A second factor that an authenticator app shows (RFC 6238). Its secret cannot be hashed: it is what both sides compute with. */
export interface TwoFactor {
  /** Base32, as the app takes it. */
  secret: string;
  /** False until a first code proved that the app has it. */
  confirmed: boolean;
  /** SHA-256, hex, of the code for a lost telephone; used once. */
  scratchHash: string | null;
  /** Step of the last code that was used, so that no code is used twice. */
  lastStep: number;
  startedMs: number;
}

const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
const stepMs = 30_000;
/** How long an unconfirmed secret may be confirmed, in ms. */
export const confirmWithinMs = 24 * 60 * 60 * 1000;

const bits = (bytes: Buffer): string => [...bytes].map((byte) => byte.toString(2).padStart(8, "0")).join("");

/** RFC 4648 section 6, of 20 bytes: no padding is needed. */
const base32 = (bytes: Buffer): string => (bits(bytes).match(/.{5}/g) ?? []).map((five) => alphabet[Number.parseInt(five, 2)]).join("");

const fromBase32 = (text: string): Buffer => {
  const all = [...text].map((letter) => alphabet.indexOf(letter).toString(2).padStart(5, "0")).join("");
  return Buffer.from((all.match(/.{8}/g) ?? []).map((eight) => Number.parseInt(eight, 2)));
};

/** RFC 4226 section 5.3, six digits, SHA-1 as every authenticator app has it. */
export const codeAt = (secret: string, step: number): string => {
  const counter = Buffer.alloc(8);
  counter.writeBigUInt64BE(BigInt(step));
  const mac = createHmac("sha1", fromBase32(secret)).update(counter).digest();
  const offset = (mac.at(-1) ?? 0) & 0xf;
  return String((mac.readUInt32BE(offset) & 0x7fffffff) % 1_000_000).padStart(6, "0");
};

export const stepOf = (nowMs: number): number => Math.floor(nowMs / stepMs);

export const freshTwoFactor = (nowMs: number): TwoFactor => ({
  secret: base32(randomBytes(20)),
  confirmed: false,
  scratchHash: null,
  lastStep: 0,
  startedMs: nowMs,
});

const sha256 = (text: string): Buffer => createHash("sha256").update(text).digest();

export const freshScratch = (): { scratch: string; hash: string } => {
  const scratch = randomBytes(8).toString("hex");
  return { scratch, hash: sha256(scratch).toString("hex") };
};

/** The factor after `code` was used with it, one step early or late allowed (RFC 6238 section 5.2); undefined when it is no code. */
export const usedWith = (factor: TwoFactor, code: string, nowMs: number): TwoFactor | undefined => {
  const now = stepOf(nowMs);
  const step = [now - 1, now, now + 1].find((candidate) => candidate > factor.lastStep && codeAt(factor.secret, candidate) === code);
  if (step !== undefined) return { ...factor, lastStep: step };
  const isScratch = factor.scratchHash !== null && timingSafeEqual(sha256(code), Buffer.from(factor.scratchHash, "hex"));
  return isScratch ? { ...factor, scratchHash: null } : undefined;
};
