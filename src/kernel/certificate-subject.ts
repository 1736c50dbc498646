import { commonName, countryName, type NameAttribute } from "./certificate-asn1.js";

/** Nothing to see in it: spaces, control and invisible characters only. */
const isBlank = (text: string): boolean => /^[\p{Z}\p{C}]*$/u.test(text);

const attributeNames: Record<string, string> = {
  [countryName]: "country name (C)",
  [commonName]: "common name (CN)",
  "2.5.4.7": "locality (L)",
  "2.5.4.8": "state or province (ST)",
  "2.5.4.10": "organization (O)",
  "2.5.4.11": "organizational unit (OU)",
  "1.2.840.113549.1.9.1": "e-mail address",
};

/** One sentence with all that is wrong with the subject. Lenient: a name somewhere is enough (mkcert leaves out the common name too). */
export const subjectReason = (subject: NameAttribute[], altNames: string | undefined, mode: "strict" | "lenient"): string | undefined => {
  const remedy = 'Make it anew, with openssl for example -subj "/C=DE/CN=www.example.com".';
  const filled = subject.filter((attribute) => !isBlank(attribute.value));
  const nameless = altNames === undefined;
  if (filled.length === 0 && (mode === "strict" || nameless || subject.length > 0)) return `The certificate's subject is blank. ${remedy}`;
  const present = new Set(subject.map((attribute) => attribute.oid));
  const wanted = mode === "strict" ? [countryName, commonName] : nameless ? [commonName] : [];
  const missing = wanted.filter((oid) => !present.has(oid)).map((oid) => `has no ${attributeNames[oid]}`);
  const empty = subject.filter((attribute) => isBlank(attribute.value)).map(({ oid }) => `has an empty ${attributeNames[oid] ?? `attribute ${oid}`}`);
  const faults = [...new Set([...missing, ...empty])];
  if (faults.length === 0) return undefined;
  return `The certificate's subject ${faults.join(" and ")}. ${remedy}`;
};
