import { createHash, createPublicKey, generateKeyPair, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIP } from "node:net";
import { promisify } from "node:util";
import type forge from "node-forge";
import { commonName, countryName, type NameAttribute, node, oidNode, readDer, Type, tagged, timeNode, writeDer } from "./certificate-asn1.js";

type Asn1 = forge.asn1.Asn1;

export interface CertificateOrder {
  /** In this order; empty for a blank subject. */
  subject: NameAttribute[];
  issuer: NameAttribute[];
  publicKey: KeyObject;
  /** The issuer's private key, RSA or elliptic curve. */
  signingKey: KeyObject;
  /** May it sign others? */
  authority: boolean;
  /** DNS names or IP addresses. */
  altNames: string[];
  /** Milliseconds since the Unix epoch. */
  notBeforeMs: number;
  notAfterMs: number;
}

const organizationName = "2.5.4.10";

const bytes = (buffer: Buffer): string => buffer.toString("latin1");

const sequence = (...members: Asn1[]): Asn1 => node(Type.SEQUENCE, members);

/** X.520 wants a printable string for a country; everything else is UTF-8 (RFC 5280 4.1.2.4). */
const nameNode = (attributes: NameAttribute[]): Asn1 =>
  sequence(
    ...attributes.map(({ oid, value }) =>
      node(Type.SET, [sequence(oidNode(oid), node(oid === countryName ? Type.PRINTABLESTRING : Type.UTF8, bytes(Buffer.from(value))))]),
    ),
  );

const signatureAlgorithm = (key: KeyObject): Asn1 =>
  key.asymmetricKeyType === "rsa" ? sequence(oidNode("1.2.840.113549.1.1.11"), node(Type.NULL, "")) : sequence(oidNode("1.2.840.10045.4.3.2"));

const ipv6Bytes = (address: string): Buffer => {
  const [head = "", tail] = new URL(`http://[${address}]`).hostname.slice(1, -1).split("::");
  const groups = (text: string | undefined): string[] => (text ? text.split(":") : []);
  const zeros = Array<string>(8 - groups(head).length - groups(tail).length).fill("0");
  return Buffer.from([...groups(head), ...(tail === undefined ? [] : zeros), ...groups(tail)].map((group) => group.padStart(4, "0")).join(""), "hex");
};

/** RFC 5280 4.2.1.6: `dNSName` is tag 2, `iPAddress` tag 7. */
const altNameNode = (name: string): Asn1 => {
  const family = isIP(name);
  if (family === 0) return tagged(2, name);
  return tagged(7, bytes(family === 4 ? Buffer.from(name.split(".").map(Number)) : ipv6Bytes(name)));
};

const extension = (oid: string, critical: boolean, value: Asn1): Asn1 =>
  sequence(oidNode(oid), ...(critical ? [node(Type.BOOLEAN, "\xff")] : []), node(Type.OCTETSTRING, bytes(writeDer(value))));

const keyIdentifier = (key: KeyObject): string =>
  bytes(
    createHash("sha1")
      .update(key.export({ type: "spki", format: "der" }))
      .digest(),
  );

const extensions = (order: CertificateOrder): Asn1 => {
  // keyUsage bits: 0 digitalSignature, 2 keyEncipherment, 5 keyCertSign; the first byte counts the unused low bits.
  const usage = order.authority ? "\x02\xa4" : "\x05\xa0";
  return sequence(
    extension("2.5.29.19", true, order.authority ? sequence(node(Type.BOOLEAN, "\xff")) : sequence()),
    extension("2.5.29.15", true, node(Type.BITSTRING, usage)),
    extension("2.5.29.37", false, sequence(oidNode("1.3.6.1.5.5.7.3.1"))),
    extension("2.5.29.14", false, node(Type.OCTETSTRING, keyIdentifier(order.publicKey))),
    extension("2.5.29.35", false, sequence(tagged(0, keyIdentifier(createPublicKey(order.signingKey))))),
    ...(order.altNames.length > 0 ? [extension("2.5.29.17", false, sequence(...order.altNames.map(altNameNode)))] : []),
  );
};

/** A positive number of 16 bytes, without a leading zero byte (RFC 5280 4.1.2.2). */
const serialNumber = (): string => {
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40;
  return bytes(serial);
};

/** An X.509 version 3 certificate, signed with SHA-256, as PEM. The curve of an elliptic key must be P-256 to suit the hash. */
export const issueCertificate = (order: CertificateOrder): string => {
  const algorithm = signatureAlgorithm(order.signingKey);
  const publicKey = order.publicKey.export({ type: "spki", format: "der" });
  const unsigned = writeDer(
    sequence(
      tagged(0, [node(Type.INTEGER, "\x02")]),
      node(Type.INTEGER, serialNumber()),
      algorithm,
      nameNode(order.issuer),
      sequence(timeNode(order.notBeforeMs), timeNode(order.notAfterMs)),
      nameNode(order.subject),
      readDer(publicKey),
      tagged(3, [extensions(order)]),
    ),
  );
  const signature = sign("sha256", unsigned, order.signingKey);
  const der = writeDer(sequence(readDer(unsigned), algorithm, node(Type.BITSTRING, `\0${bytes(signature)}`)));
  const lines = der.toString("base64").match(/.{1,64}/g) ?? [];
  return ["-----BEGIN CERTIFICATE-----", ...lines, "-----END CERTIFICATE-----", ""].join("\n");
};

export interface SelfSignedOptions {
  commonName: string;
  /** Two letters; null leaves the country out. */
  country: string | null;
  organization?: string;
  /** DNS names or IP addresses a client may ask for. */
  altNames: string[];
  days: number;
  /** No attribute at all in the subject, whatever else was asked: the certificate a balancer must refuse. */
  blankSubject?: boolean;
  /** When it begins, milliseconds since the Unix epoch; default: an hour ago, for clocks that run late. */
  notBeforeMs?: number;
}

const dayMs = 24 * 60 * 60 * 1000;

/** A certificate that is its own authority: a client that trusts it alone accepts it for its `altNames`. 2048-bit RSA, PKCS #8 key, PEM. */
export const selfSignedCertificate = async (options: SelfSignedOptions): Promise<{ cert: string; key: string }> => {
  const { publicKey, privateKey } = await promisify(generateKeyPair)("rsa", { modulusLength: 2048 });
  const subject: NameAttribute[] = [
    ...(options.country === null ? [] : [{ oid: countryName, value: options.country }]),
    ...(options.organization === undefined ? [] : [{ oid: organizationName, value: options.organization }]),
    { oid: commonName, value: options.commonName },
  ];
  const name = options.blankSubject ? [] : subject;
  const notBeforeMs = options.notBeforeMs ?? Date.now() - 60 * 60 * 1000;
  const cert = issueCertificate({
    subject: name,
    issuer: name,
    publicKey,
    signingKey: privateKey,
    authority: true,
    altNames: options.altNames,
    notBeforeMs,
    notAfterMs: notBeforeMs + options.days * dayMs,
  });
  return { cert, key: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
};
