import { createRequire } from "node:module";
import type forge from "node-forge";

/**
 * node-forge's ASN.1 module alone: it loads in 4 ms, the whole package in 25 ms, and every start would pay for that.
 * It reads any DER. The package's own certificate reader takes RSA only ("OID is not RSA" on an elliptic curve).
 */
const asn1 = createRequire(import.meta.url)("node-forge/lib/asn1.js") as typeof forge.asn1;

type Asn1 = forge.asn1.Asn1;
/** The package takes options here (`lib/asn1.js`, `asn1.fromDer`); its types know only the older flag. */
type FromDer = (bytes: string, options: { strict: boolean; parseAllBytes: boolean; decodeBitStrings: boolean }) => Asn1;

export const { Type } = asn1;

/** One name attribute, such as `{ oid: "2.5.4.6", value: "DE" }`. */
export interface NameAttribute {
  oid: string;
  value: string;
}

export const countryName = "2.5.4.6";
export const commonName = "2.5.4.3";

/** Throws when the bytes are not one DER value. */
export const readDer = (der: Buffer): Asn1 =>
  (asn1.fromDer as unknown as FromDer)(der.toString("latin1"), { strict: true, parseAllBytes: true, decodeBitStrings: false });

export const writeDer = (value: Asn1): Buffer => Buffer.from(asn1.toDer(value).getBytes(), "latin1");

/** A value with its own tag; a string holds bytes (latin1), a list holds values. */
export const node = (type: forge.asn1.Type, value: string | Asn1[]): Asn1 => asn1.create(asn1.Class.UNIVERSAL, type, Array.isArray(value), value);

export const tagged = (tag: number, value: string | Asn1[]): Asn1 =>
  asn1.create(asn1.Class.CONTEXT_SPECIFIC, tag as forge.asn1.Type, Array.isArray(value), value);

export const oidNode = (oid: string): Asn1 => node(asn1.Type.OID, asn1.oidToDer(oid).getBytes());

/** RFC 5280 4.1.2.5: two-digit years up to 2049, four-digit ones after that. */
export const timeNode = (ms: number): Asn1 => {
  const date = new Date(ms);
  return date.getUTCFullYear() < 2050
    ? node(asn1.Type.UTCTIME, asn1.dateToUtcTime(date))
    : node(asn1.Type.GENERALIZEDTIME, asn1.dateToGeneralizedTime(date));
};

const children = (value: Asn1 | undefined): Asn1[] => (Array.isArray(value?.value) ? value.value : []);

const universalString = 28;

const textOf = (value: Asn1 | undefined): string => {
  if (typeof value?.value !== "string") return "";
  if (value.type === asn1.Type.BMPSTRING) return value.value; // already one character per UTF-16 unit
  const bytes = Buffer.from(value.value, "latin1");
  if (value.type === asn1.Type.UTF8) return bytes.toString("utf8");
  if ((value.type as number) === universalString) return value.value.replaceAll("\0", "");
  return value.value;
};

/** The subject of an X.509 certificate, in its own order. RFC 5280 4.1: `[0] version` is optional, the subject is the fifth member after it. */
export const subjectOf = (certificateDer: Buffer): NameAttribute[] => {
  const body = children(children(readDer(certificateDer))[0]);
  const versioned = body[0]?.tagClass === asn1.Class.CONTEXT_SPECIFIC;
  const relativeNames = children(body[versioned ? 5 : 4]);
  return relativeNames.flatMap(children).map((attribute) => {
    const [oid, value] = children(attribute);
    return { oid: typeof oid?.value === "string" ? asn1.derToOid(oid.value) : "", value: textOf(value) };
  });
};
