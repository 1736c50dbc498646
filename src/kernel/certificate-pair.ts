import { createPrivateKey, type KeyObject, X509Certificate } from "node:crypto";
import { hiddenBegin, pemOf } from "./certificate-pem.js";

/** A value, or the reason why there is none. */
type Read<T> = { value: T; reason?: never } | { value?: never; reason: string };

const swapped = "The two seem to be swapped.";
export const badCertificate = "Certificate is incorrectly formatted:";
const badKey = "Private key is incorrectly formatted:";

const certificateLabels = new Set(["CERTIFICATE", "X509 CERTIFICATE"]);
/** Contract, section 8.2 "certificates": DH parameters may be appended. */
const companionLabels = new Set(["DH PARAMETERS", "X9.42 DH PARAMETERS"]);
const isKeyLabel = (label: string): boolean => label.endsWith("PRIVATE KEY");

/** What OpenSSL's clients read of a chain (`SSL_MAX_CERT_LIST_DEFAULT`): a longer one would fail at every handshake. */
const readableBytes = 100 * 1024;
/** RFC 8446 4.4.2: the message's own lengths, and length and extensions of each certificate. */
const messageHeadBytes = 4;
const entryBytes = 5;

/** Undefined instead of an error. */
export const attempt = <T>(read: () => T): T | undefined => {
  try {
    return read();
  } catch {
    return undefined; // OpenSSL's own words ("bad base64 decode") help nobody, and the caller knows what was being read
  }
};

/** The chain as it came, first certificate first. */
export const chainOf = (text: string): Read<X509Certificate[]> => {
  const { blocks, unclosed } = pemOf(text);
  if (unclosed !== undefined) return { reason: `${badCertificate} the block "BEGIN ${unclosed}" has no END line of its own. Send the whole text.` };
  const certificates = blocks.filter((block) => certificateLabels.has(block.label));
  const hasKey = blocks.some((block) => isKeyLabel(block.label));
  if (hasKey && certificates.length === 0) return { reason: `This is a private key, not a certificate. ${swapped}` };
  if (hasKey) return { reason: "A private key stands among the certificates. Send it as the key only." };
  if (certificates.length === 0 && blocks.some((block) => block.label.endsWith("CERTIFICATE REQUEST"))) {
    return { reason: "This is a certificate signing request, not a certificate. Send what the authority made of it." };
  }
  const stranger = blocks.find((block) => !certificateLabels.has(block.label) && !companionLabels.has(block.label));
  if (stranger) return { reason: `${badCertificate} a block "BEGIN ${stranger.label}" does not belong here. Send "BEGIN CERTIFICATE" blocks only.` };
  if (certificates.length === 0) {
    return { reason: `${badCertificate} there is no line "-----BEGIN CERTIFICATE-----". Send PEM text.${hiddenBegin(text)}` };
  }
  const chain: X509Certificate[] = [];
  for (const block of certificates) {
    const certificate = attempt(() => new X509Certificate(block.text));
    const place = certificates.length === 1 ? "" : ` number ${chain.length + 1} of ${certificates.length}`;
    if (!certificate) return { reason: `${badCertificate} what stands between the BEGIN and END lines${place} is not a certificate.` };
    chain.push(certificate);
  }
  const messageBytes = chain.reduce((sum, { raw }) => sum + raw.length + entryBytes, messageHeadBytes);
  if (messageBytes > readableBytes) {
    return {
      reason: `The chain is too long: clients read at most ${readableBytes} bytes of it. Send the certificates from yours up to its root only.`,
    };
  }
  return { value: chain };
};

export const keyOf = (text: string): Read<KeyObject> => {
  const { blocks, unclosed } = pemOf(text);
  if (unclosed !== undefined) return { reason: `${badKey} the block "BEGIN ${unclosed}" has no END line of its own. Send the whole text.` };
  const keys = blocks.filter((block) => isKeyLabel(block.label));
  const [block] = keys;
  if (!block && blocks.some((each) => certificateLabels.has(each.label))) return { reason: `This is a certificate, not a private key. ${swapped}` };
  if (!block) return { reason: `${badKey} there is no line "-----BEGIN PRIVATE KEY-----". Send PEM text.${hiddenBegin(text)}` };
  if (keys.length > 1) return { reason: `There are ${keys.length} private keys. Send only the one that belongs to the certificate.` };
  if (block.encrypted || block.label === "ENCRYPTED PRIVATE KEY") {
    return { reason: 'The private key is protected by a passphrase. Take it off first: "openssl pkey -in key.pem -out plain.pem".' };
  }
  const value = attempt(() => createPrivateKey(block.text));
  return value ? { value } : { reason: `${badKey} what stands between the BEGIN and END lines is not a private key.` };
};
