import type { KeyObject, X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import { commonName, subjectOf } from "./certificate-asn1.js";
import { attempt, badCertificate, chainOf, keyOf } from "./certificate-pair.js";
import { subjectReason } from "./certificate-subject.js";
import { wireTime } from "./clock.js";
import type { Problem } from "./fault.js";

export { issueCertificate, selfSignedCertificate } from "./certificate-issue.js";

/** What the API shows of a certificate (contract 8.2). Times are UTC `YYYY-MM-DDTHH:MM:SS`. */
interface CertificateSummary {
  /** In lenient mode the first alternative name when the subject has no common name. */
  commonName: string;
  /** SHA-1, upper-case hexadecimal, colon separated. */
  fingerprint: string;
  notBefore: string;
  notAfter: string;
}

export interface CertificateVerdict {
  /** Empty: the pair can be served. Fields are `sslCert` and `sslKey`. */
  problems: Problem[];
  /** What is odd but taken: outside its dates. Empty when there is a problem. */
  warnings: string[];
  /** Of the balancer's own certificate; absent when there is a problem. */
  summary?: CertificateSummary;
}

type Mode = "strict" | "lenient";
const lenientHint = "or start Backlot with --certificates lenient";

const keyTypeNames: Record<string, string> = { ec: "an elliptic curve", "rsa-pss": "RSA-PSS", dsa: "DSA", ed25519: "Ed25519", ed448: "Ed448" };

/** Undefined for plain RSA, which is all that balancers take (contract 8.2). */
const keyTypeReason = (key: KeyObject | undefined, whose: string): string | undefined => {
  const type = key?.asymmetricKeyType ?? "of an unknown kind";
  if (type === "rsa") return undefined;
  return `Only RSA is accepted, and ${whose} is ${keyTypeNames[type] ?? type}. Use an RSA pair, ${lenientHint}.`;
};

const issuedBy = (certificate: X509Certificate, issuer: X509Certificate): boolean =>
  certificate.checkIssued(issuer) && (attempt(() => certificate.verify(issuer.publicKey)) ?? false);

const belongs = (certificate: X509Certificate, key: KeyObject): boolean => attempt(() => certificate.checkPrivateKey(key)) ?? false;

/** @param owner place of the certificate the key belongs to; -1 when there is none */
const orderReason = (chain: X509Certificate[], owner: number): string | undefined => {
  const remedy = "Put the balancer's own certificate first, and after each one the certificate that issued it.";
  if (owner > 0) return `The chain is in the wrong order: the key belongs to certificate ${owner + 1} of ${chain.length}. ${remedy}`;
  const stray = chain.findIndex((certificate, index) => {
    const issuer = chain[index + 1];
    return issuer !== undefined && !issuedBy(certificate, issuer);
  });
  if (stray < 0) return undefined;
  return `The chain is in the wrong order: certificate ${stray + 1} of ${chain.length} is not issued by the one after it. ${remedy}`;
};

/** What OpenSSL says when it will not serve a pair, in OpenSSL's words (its messages are constants and hold nothing of the key). */
const loadReason = (cert: string, key: string): string | undefined => {
  try {
    createSecureContext({ cert, key });
    return undefined;
  } catch (error) {
    const { reason, code } = error as { reason?: string; code?: string };
    const said = reason ?? code ?? "no reason given";
    const remedy = /too small|too weak/.test(said) ? " Use RSA with at least 2048 bits and SHA-256 throughout the chain." : "";
    return `The TLS layer cannot load the pair: ${said}.${remedy}`;
  }
};

const dateWarnings = (chain: X509Certificate[], nowMs: number): string[] =>
  chain.flatMap((certificate, index) => {
    const which = index === 0 ? "The certificate" : `Certificate ${index + 1} of the chain`;
    const beginMs = Date.parse(certificate.validFrom);
    const endMs = Date.parse(certificate.validTo);
    if (nowMs > endMs) return [`${which} expired at ${wireTime(endMs)} UTC: clients that check will refuse it.`];
    if (nowMs < beginMs) return [`${which} is not valid before ${wireTime(beginMs)} UTC: clients that check will refuse it.`];
    return [];
  });

const firstAltName = (altNames: string | undefined): string => /^(?:DNS|IP Address):([^,]+)/.exec(altNames ?? "")?.[1] ?? "";

/**
 * Can a balancer serve this pair? Every refusal is one problem that says what is wrong and how to mend it; nothing of the key is ever in it.
 * `strict` is the service's rule: RSA only, country and common name present, nothing empty (description section 7, contract 8.2).
 * `lenient` takes every key TLS takes and subjects without country, as mkcert and Let's Encrypt make them.
 * Dates never refuse: people test expiry.
 * @param cert PEM, leaf first, chain allowed, DH parameters allowed after it
 * @param key PEM without passphrase
 * @param nowMs milliseconds since the Unix epoch
 */
export const certificateProblems = (cert: string, key: string, mode: Mode, nowMs: number): CertificateVerdict => {
  const certProblems: string[] = [];
  const keyProblems: string[] = [];
  const note = (list: string[], reason: string | undefined): boolean => {
    if (reason !== undefined) list.push(reason);
    return reason !== undefined;
  };
  const chain = chainOf(cert);
  const privateKey = keyOf(key);
  note(certProblems, chain.reason);
  note(keyProblems, privateKey.reason);
  const [leaf] = chain.value ?? [];
  const verdict = (): Problem[] => [
    ...certProblems.map((reason) => ({ reason, field: "sslCert" })),
    ...keyProblems.map((reason) => ({ reason, field: "sslKey" })),
  ];
  if (!chain.value || !leaf) {
    if (privateKey.value && mode === "strict") note(keyProblems, keyTypeReason(privateKey.value, "this key"));
    return { problems: verdict(), warnings: [] };
  }

  const owner = privateKey.value ? chain.value.findIndex((certificate) => belongs(certificate, privateKey.value)) : 0;
  // In a chain of the wrong order the key tells which certificate is the balancer's own; an authority's subject follows other rules.
  const own = chain.value[owner] ?? leaf;
  if (Number.isNaN(Date.parse(own.validFrom) + Date.parse(own.validTo))) note(certProblems, `${badCertificate} its dates cannot be read.`);
  const subject = attempt(() => subjectOf(own.raw));
  note(certProblems, subject ? subjectReason(subject, own.subjectAltName, mode) : `${badCertificate} its subject cannot be read.`);
  if (mode === "strict")
    note(
      certProblems,
      keyTypeReason(
        attempt(() => own.publicKey),
        "the certificate's key",
      ),
    );
  note(certProblems, orderReason(chain.value, owner));
  if (privateKey.value) {
    const wrongType = mode === "strict" && note(keyProblems, keyTypeReason(privateKey.value, "this key"));
    if (owner < 0 && !wrongType) note(keyProblems, "This is not the key of the certificate. Send the private key it was made with.");
    if (owner === 0) note(certProblems, loadReason(cert, key));
  }
  const problems = verdict();
  if (problems.length > 0) return { problems, warnings: [] };
  return {
    problems,
    warnings: dateWarnings(chain.value, nowMs),
    summary: {
      commonName: subject?.find(({ oid }) => oid === commonName)?.value ?? firstAltName(own.subjectAltName),
      fingerprint: own.fingerprint,
      notBefore: wireTime(Date.parse(own.validFrom)),
      notAfter: wireTime(Date.parse(own.validTo)),
    },
  };
};
