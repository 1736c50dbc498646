import type { SecureContextOptions } from "node:tls";
import type { ListenerSpec } from "./plane.js";

/** 128 bits first, as Mozilla's "intermediate" list has it: strong enough for decades, and less work in every handshake and record. */
const TLS13 = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";

/** `recommended`: forward secrecy and authenticated encryption only. `legacy`: the string of contract 8.5. Both need TLS 1.2 or newer. */
const CIPHERS = {
  recommended: `${TLS13}:ECDHE+AESGCM+AES128:ECDHE+AESGCM:ECDHE+CHACHA20:DHE+AESGCM:!aNULL`,
  legacy: `${TLS13}:!RC4:HIGH:!aNULL:!MD5`,
} as const;

/** What a TLS server is given for a config's certificate. */
export const secureOptions = (tls: NonNullable<ListenerSpec["tls"]>): SecureContextOptions => ({
  cert: tls.cert,
  key: tls.key,
  ciphers: CIPHERS[tls.cipherSuite],
  honorCipherOrder: true,
  minVersion: "TLSv1.2",
  // Used only with RSA key exchange groups of DHE suites; sized after the key.
  dhparam: "auto",
});
