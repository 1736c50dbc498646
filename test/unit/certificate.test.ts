import { createHash, generateKeyPairSync, type KeyObject, X509Certificate } from "node:crypto";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { connect, createSecureContext, createServer } from "node:tls";
import { beforeAll, describe, expect, it } from "vitest";
import { certificateProblems, issueCertificate, selfSignedCertificate } from "#backlot/kernel/certificate.js";

const nowMs = Date.UTC(2030, 0, 15);
const dayMs = 24 * 60 * 60 * 1000;
const country = "2.5.4.6";
const common = "2.5.4.3";
const organization = "2.5.4.10";

interface Pair {
  cert: string;
  key: string;
}

const pem = (key: KeyObject): string => key.export({ type: "pkcs8", format: "pem" }).toString();
const rsa = (modulusLength = 2048) => generateKeyPairSync("rsa", { modulusLength });
const curve = () => generateKeyPairSync("ec", { namedCurve: "prime256v1" });

let ours: { publicKey: KeyObject; privateKey: KeyObject };
let other: { publicKey: KeyObject; privateKey: KeyObject };
let good: Pair;

const named = [
  { oid: country, value: "DE" },
  { oid: common, value: "www.example.com" },
];

const issued = (over: Partial<Parameters<typeof issueCertificate>[0]> = {}): string =>
  issueCertificate({
    subject: named,
    issuer: over.subject ?? named,
    publicKey: ours.publicKey,
    signingKey: ours.privateKey,
    authority: true,
    altNames: ["www.example.com"],
    notBeforeMs: nowMs - dayMs,
    notAfterMs: nowMs + dayMs,
    ...over,
  });

beforeAll(() => {
  ours = rsa();
  other = rsa();
  good = { cert: issued(), key: pem(ours.privateKey) };
});

const verdict = (pair: Partial<Pair> = {}, mode: "strict" | "lenient" = "strict") =>
  certificateProblems(pair.cert ?? good.cert, pair.key ?? good.key, mode, nowMs);

/** Exactly one problem, on that field, saying that. */
const expectOnly = (pair: Partial<Pair>, field: "sslCert" | "sslKey", words: RegExp, mode: "strict" | "lenient" = "strict") => {
  const { problems } = verdict(pair, mode);
  expect(problems).toEqual([{ field, reason: expect.stringMatching(words) }]);
  expect(problems[0]?.reason).not.toMatch(/ssl_?cert|ssl_?key/i);
};

/** The fixed order the service wants: own certificate, intermediate, root. */
const chained = () => {
  const root = [{ oid: common, value: "Root" }];
  const between = [{ oid: common, value: "Between" }];
  const middle = other;
  const top = rsa();
  return {
    leaf: issued({ issuer: between, signingKey: middle.privateKey, authority: false }),
    middle: issued({ subject: between, issuer: root, publicKey: middle.publicKey, signingKey: top.privateKey }),
    root: issued({ subject: root, publicKey: top.publicKey, signingKey: top.privateKey }),
    middleKey: pem(middle.privateKey),
  };
};

describe("a pair that is taken", () => {
  it("has no problem, no warning and a summary", () => {
    const { problems, warnings, summary } = verdict();
    expect(problems).toEqual([]);
    expect(warnings).toEqual([]);
    const sha1 = createHash("sha1").update(new X509Certificate(good.cert).raw).digest("hex").toUpperCase();
    expect(summary).toEqual({
      commonName: "www.example.com",
      fingerprint: sha1.match(/../g)?.join(":"),
      notBefore: "2030-01-14T00:00:00",
      notAfter: "2030-01-16T00:00:00",
    });
  });

  it("may come with CRLF line ends, text around the blocks and trailing spaces", () => {
    expect(verdict({ cert: good.cert.replaceAll("\n", "\r\n"), key: good.key.replaceAll("\n", "\r\n") }).problems).toEqual([]);
    expect(verdict({ cert: `Certificate:\n    Data:\n        Version: 3 (0x2)\n${good.cert}` }).problems).toEqual([]);
    expect(verdict({ cert: `${good.cert.replaceAll("\n", "  \n")} \n\n`, key: `${good.key.replaceAll("\n", "\t\n")}\n \n` }).problems).toEqual([]);
  });

  it("may carry DH parameters after the chain", () => {
    const { leaf, middle } = chained();
    const parameters = "-----BEGIN DH PARAMETERS-----\nMAYCAQcCAQI=\n-----END DH PARAMETERS-----\n";
    expect(verdict({ cert: leaf + middle + parameters }).problems).toEqual([]);
  });

  it("may carry the certificate once more next to the key", () => {
    expect(verdict({ key: good.cert + good.key }).problems).toEqual([]);
  });

  it("may have a key in the older RSA form", () => {
    expect(verdict({ key: ours.privateKey.export({ type: "pkcs1", format: "pem" }).toString() }).problems).toEqual([]);
  });

  it("may carry a whole chain in order", () => {
    const { leaf, middle, root } = chained();
    expect(verdict({ cert: leaf + middle + root }).problems).toEqual([]);
  });

  it("is taken when expired, with a warning", () => {
    const { problems, warnings } = verdict({ cert: issued({ notBeforeMs: nowMs - 3 * dayMs, notAfterMs: nowMs - 2 * dayMs }) });
    expect(problems).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining("expired at 2030-01-13T00:00:00")]);
  });

  it("is taken before it begins, with a warning", () => {
    const { problems, warnings } = verdict({ cert: issued({ notBeforeMs: nowMs + dayMs, notAfterMs: nowMs + 2 * dayMs }) });
    expect(problems).toEqual([]);
    expect(warnings).toEqual([expect.stringContaining("not valid before 2030-01-16T00:00:00")]);
  });
});

describe("the subject", () => {
  it("must not be blank", () => expectOnly({ cert: issued({ subject: [] }) }, "sslCert", /subject is blank.*-subj/));
  it("must have a country", () => expectOnly({ cert: issued({ subject: [{ oid: common, value: "a" }] }) }, "sslCert", /has no country name \(C\)\./));
  it("must have a common name", () =>
    expectOnly({ cert: issued({ subject: [{ oid: country, value: "DE" }] }) }, "sslCert", /has no common name \(CN\)\./));
  it("names both when both are missing", () =>
    expectOnly({ cert: issued({ subject: [{ oid: organization, value: "x" }] }) }, "sslCert", /no country name \(C\) and has no common name \(CN\)/));

  it.each(["", "   ", "\u200b\t"])("must not have an attribute that is present but empty (%j)", (value) => {
    expectOnly({ cert: issued({ subject: [...named, { oid: organization, value }] }) }, "sslCert", /has an empty organization \(O\)\./);
    const emptyCommon = [
      { oid: country, value: "DE" },
      { oid: common, value },
    ];
    expectOnly({ cert: issued({ subject: emptyCommon }) }, "sslCert", /subject has an empty common name \(CN\)\./);
  });

  it("is blank when all its attributes are", () => {
    const subject = [
      { oid: country, value: "" },
      { oid: common, value: " " },
    ];
    expectOnly({ cert: issued({ subject }) }, "sslCert", /subject is blank/);
  });
});

describe("text that is no certificate or no key", () => {
  it("is refused when it is not PEM", () => {
    expectOnly({ cert: "hello" }, "sslCert", /^Certificate is incorrectly formatted: .*BEGIN CERTIFICATE/);
    expectOnly({ key: "hello" }, "sslKey", /^Private key is incorrectly formatted: .*BEGIN PRIVATE KEY/);
    expect(verdict({ cert: "", key: "" }).problems.map(({ field }) => field)).toEqual(["sslCert", "sslKey"]);
  });

  it("is refused when there is rubbish inside the PEM", () => {
    expectOnly({ cert: "-----BEGIN CERTIFICATE-----\nMIIBrubbish!!\n-----END CERTIFICATE-----\n" }, "sslCert", /is not a certificate/);
    expectOnly({ key: "-----BEGIN PRIVATE KEY-----\nMIIBrubbish!!\n-----END PRIVATE KEY-----\n" }, "sslKey", /is not a private key/);
    expectOnly({ cert: good.cert + good.cert.replace(/\n.{64}/, "\nAAAA") }, "sslCert", /number 2 of 2 is not a certificate/);
  });

  it("is refused when it is cut off", () => {
    expectOnly({ cert: good.cert.slice(0, 400) }, "sslCert", /no END line/);
    expectOnly({ key: good.key.slice(0, 400) }, "sslKey", /no END line/);
  });

  it("says so when the line breaks are lost, and quotes nothing of the key", () => {
    expectOnly({ cert: good.cert.replaceAll("\n", "\\n") }, "sslCert", /line breaks seem to be lost/);
    for (const joiner of ["", " ", "\\n"]) {
      expectOnly({ key: good.key.trim().replaceAll("\n", joiner) }, "sslKey", /line breaks seem to be lost/);
      expect(JSON.stringify(verdict({ key: good.key.trim().replaceAll("\n", joiner) }))).not.toContain(good.key.split("\n")[1]);
    }
  });

  it("says so when something stands before the BEGIN line, where TLS libraries do not find it", () => {
    for (const before of ["\ufeff", "  ", "> "]) {
      expect(() => createSecureContext({ cert: before + good.cert.replaceAll("\n", `\n${before}`) })).toThrow();
      expectOnly({ cert: before + good.cert.replaceAll("\n", `\n${before}`) }, "sslCert", /Something stands before the BEGIN line/);
      expectOnly({ key: before + good.key }, "sslKey", /Something stands before the BEGIN line/);
    }
  });

  it("is refused when certificate and key are swapped, on both sides", () => {
    const { problems } = verdict({ cert: good.key, key: good.cert });
    expect(problems).toEqual([
      { field: "sslCert", reason: expect.stringMatching(/is a private key, not a certificate.*swapped/) },
      { field: "sslKey", reason: expect.stringMatching(/is a certificate, not a private key.*swapped/) },
    ]);
    expect(JSON.stringify(problems)).not.toContain(good.key.split("\n")[1]);
  });

  it("is refused when a key stands among the certificates, or a request, or another block", () => {
    expectOnly({ cert: good.cert + good.key }, "sslCert", /private key stands among the certificates/);
    expectOnly({ cert: good.cert.replaceAll("CERTIFICATE", "CERTIFICATE REQUEST") }, "sslCert", /signing request/);
    expectOnly(
      { cert: good.cert.replaceAll("CERTIFICATE", "TRUSTED CERTIFICATE") + good.cert },
      "sslCert",
      /"BEGIN TRUSTED CERTIFICATE" does not belong/,
    );
    expectOnly({ key: good.key + pem(other.privateKey) }, "sslKey", /There are 2 private keys/);
  });

  // The test's own limit is the bound: a pattern that backtracks takes minutes here, not milliseconds.
  it.each([
    ["letters", "A".repeat(2 ** 20)],
    ["line ends", "\n".repeat(2 ** 20)],
    ["dashes", "-".repeat(2 ** 20)],
    ["BEGIN lines", "-----BEGIN CERTIFICATE-----\n".repeat(2 ** 15)],
    ["empty blocks", "-----BEGIN CERTIFICATE-----\n-----END CERTIFICATE-----\n".repeat(2 ** 14)],
    ["one huge block", `-----BEGIN CERTIFICATE-----\n${"MIIB".repeat(2 ** 18)}\n-----END CERTIFICATE-----\n`],
    ["one huge label", `-----BEGIN ${"A ".repeat(2 ** 19)}-----\n`],
  ])(
    "is refused when it is a megabyte of %s",
    (_what, garbage) => {
      const { problems } = verdict({ cert: garbage, key: garbage.replaceAll("CERTIFICATE", "PRIVATE KEY") });
      expect(problems.map(({ field }) => field)).toEqual(["sslCert", "sslKey"]);
      for (const { reason } of problems) expect(reason.length).toBeLessThan(300);
    },
    5_000,
  );
});

describe("the key", () => {
  it("must be the certificate's", () => expectOnly({ key: pem(other.privateKey) }, "sslKey", /not the key of the certificate/));

  it("must not be encrypted, in either form", () => {
    const secret = { cipher: "aes-256-cbc", passphrase: "secret" };
    expectOnly({ key: ours.privateKey.export({ type: "pkcs8", format: "pem", ...secret }).toString() }, "sslKey", /passphrase.*openssl pkey/);
    const older = ours.privateKey.export({ type: "pkcs1", format: "pem", ...secret }).toString();
    expect(older).toContain("Proc-Type: 4,ENCRYPTED");
    expectOnly({ key: older }, "sslKey", /passphrase/);
  });

  it("is reported together with a blank subject", () => {
    const { problems } = verdict({ cert: issued({ subject: [] }), key: pem(other.privateKey) });
    expect(problems).toEqual([
      { field: "sslCert", reason: expect.stringMatching(/subject is blank/) },
      { field: "sslKey", reason: expect.stringMatching(/not the key/) },
    ]);
  });

  it("must be strong enough for the TLS layer", () => {
    const weak = rsa(512);
    expectOnly(
      { cert: issued({ publicKey: weak.publicKey, signingKey: weak.privateKey }), key: pem(weak.privateKey) },
      "sslCert",
      /too small.*2048 bits/,
    );
  });
});

describe("elliptic curves", () => {
  it("are refused in strict mode, on each side that has one", () => {
    const { publicKey, privateKey } = curve();
    const pair = { cert: issued({ publicKey, signingKey: privateKey }), key: pem(privateKey) };
    expect(verdict(pair).problems).toEqual([
      { field: "sslCert", reason: expect.stringMatching(/Only RSA is accepted.*elliptic curve.*lenient/) },
      { field: "sslKey", reason: expect.stringMatching(/Only RSA is accepted.*elliptic curve/) },
    ]);
    expectOnly({ key: pair.key }, "sslKey", /Only RSA is accepted/);
  });

  it("are taken in lenient mode, when the pair matches", () => {
    const { publicKey, privateKey } = curve();
    const cert = issued({ publicKey, signingKey: privateKey });
    expect(verdict({ cert, key: pem(privateKey) }, "lenient").problems).toEqual([]);
    expectOnly({ cert, key: pem(curve().privateKey) }, "sslKey", /not the key of the certificate/, "lenient");
    expectOnly({ cert }, "sslKey", /not the key of the certificate/, "lenient");
    expectOnly({ cert, key: "rubbish" }, "sslKey", /incorrectly formatted/, "lenient");
  });
});

describe("lenient mode", () => {
  it("wants no country, and no common name when the certificate has another name", () => {
    expect(verdict({ cert: issued({ subject: [{ oid: common, value: "a" }] }) }, "lenient").problems).toEqual([]);
    const mkcert = verdict({ cert: issued({ subject: [{ oid: organization, value: "mkcert development certificate" }] }) }, "lenient");
    expect(mkcert.problems).toEqual([]);
    expect(mkcert.summary?.commonName).toBe("www.example.com");
    expect(verdict({ cert: issued({ subject: [] }) }, "lenient").problems).toEqual([]);
  });

  it("still wants a name somewhere and nothing empty", () => {
    expectOnly({ cert: issued({ subject: [], altNames: [] }) }, "sslCert", /subject is blank/, "lenient");
    expectOnly({ cert: issued({ subject: [{ oid: country, value: "DE" }], altNames: [] }) }, "sslCert", /no common name/, "lenient");
    expectOnly({ cert: issued({ subject: [...named, { oid: organization, value: "" }] }) }, "sslCert", /empty organization/, "lenient");
  });
});

describe("the chain", () => {
  it("must begin with the key's own certificate", () => {
    const { leaf, middle, root } = chained();
    expectOnly({ cert: root + middle + leaf }, "sslCert", /wrong order: the key belongs to certificate 3 of 3/);
    expectOnly({ cert: middle + leaf }, "sslCert", /wrong order: the key belongs to certificate 2 of 2/, "lenient");
  });

  it("must go on with the issuer of each", () => {
    const { leaf, middle, root } = chained();
    expectOnly({ cert: leaf + root + middle }, "sslCert", /wrong order: certificate 1 of 3 is not issued by the one after it/);
    expectOnly({ cert: leaf + middle + leaf }, "sslCert", /certificate 2 of 3/);
  });

  it("must be signed by the next one, not only name it", () => {
    const { leaf, middle } = chained();
    const der = new X509Certificate(leaf).raw;
    der[der.length - 1] = (der.at(-1) ?? 0) ^ 1; // the last byte of the signature
    const forged = `-----BEGIN CERTIFICATE-----\n${der.toString("base64").replace(/.{64}/g, "$&\n")}\n-----END CERTIFICATE-----\n`;
    expectOnly({ cert: forged + middle }, "sslCert", /wrong order: certificate 1 of 2/);
  });

  it("must name the next one, not only be signed with its key", () => {
    const { leaf } = chained();
    const renamed = issued({ subject: [{ oid: common, value: "Elsewhere" }], publicKey: other.publicKey, signingKey: other.privateKey });
    expectOnly({ cert: leaf + renamed }, "sslCert", /wrong order: certificate 1 of 2/);
  });

  it("must be short enough for a client to read, as long as one really reads it", async () => {
    const { raw } = new X509Certificate(good.cert);
    // OpenSSL's SSL_MAX_CERT_LIST_DEFAULT; a TLS 1.3 message of 4 bytes, and 5 for each certificate (RFC 8446 4.4.2).
    const most = Math.floor((100 * 1024 - 4) / (raw.length + 5));
    expect(verdict({ cert: good.cert.repeat(most) }).problems).toEqual([]);
    expectOnly({ cert: good.cert.repeat(most + 1) }, "sslCert", /chain is too long.*102400 bytes/);
    for (const [count, outcome] of [
      [most, "read"],
      [most + 1, "ERR_SSL_EXCESSIVE_MESSAGE_SIZE"],
    ] as const) {
      const server = createServer({ cert: good.cert.repeat(count), key: good.key }).listen(0, "127.0.0.1");
      server.on("tlsClientError", () => {}); // the client hangs up on the long one
      await once(server, "listening");
      const client = connect({ host: "127.0.0.1", port: (server.address() as AddressInfo).port, rejectUnauthorized: false });
      const seen = await new Promise<string>((resolve) => {
        client.once("secureConnect", () => resolve("read"));
        client.once("error", (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
      });
      client.destroy();
      server.close();
      await once(server, "close");
      expect(seen).toBe(outcome);
    }
  });

  it("is reported together with a key that belongs to none of it", () => {
    const { leaf, root } = chained();
    const { problems } = verdict({ cert: leaf + root, key: pem(rsa().privateKey) });
    expect(problems.map(({ field }) => field)).toEqual(["sslCert", "sslKey"]);
  });
});

describe("selfSignedCertificate", () => {
  const options = { commonName: "backlot.test", country: "DE", organization: "Bücher & Söhne", altNames: ["localhost", "127.0.0.1", "::1"], days: 2 };

  it("makes a pair that the rules take", async () => {
    const { cert, key } = await selfSignedCertificate(options);
    expect(certificateProblems(cert, key, "strict", Date.now())).toMatchObject({
      problems: [],
      warnings: [],
      summary: { commonName: "backlot.test" },
    });
    expect(new X509Certificate(cert).subject).toBe("C=DE\nO=Bücher & Söhne\nCN=backlot.test");
    expect(new X509Certificate(cert).subjectAltName).toBe("DNS:localhost, IP Address:127.0.0.1, IP Address:0:0:0:0:0:0:0:1");
  });

  it("leaves out the country or the whole subject", async () => {
    const noCountry = await selfSignedCertificate({ ...options, country: null });
    expect(verdict(noCountry).problems).toEqual([{ field: "sslCert", reason: expect.stringMatching(/no country name/) }]);
    const blank = await selfSignedCertificate({ ...options, blankSubject: true });
    expect(new X509Certificate(blank.cert).subject ?? "").toBe("");
    expect(verdict(blank).problems).toEqual([{ field: "sslCert", reason: expect.stringMatching(/subject is blank/) }]);
  });

  it("is verified by a client that trusts it alone, by name and by address, and refused for another name", async () => {
    const pair = await selfSignedCertificate(options);
    const server = createServer(pair, (socket) => socket.end("hello")).listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as AddressInfo;
    const greet = async (servername: string | undefined, host: string): Promise<string> => {
      const socket = connect({ host, port, ca: pair.cert, ...(servername === undefined ? {} : { servername }) });
      const [data] = await once(socket, "data");
      socket.destroy();
      return String(data);
    };
    try {
      expect(await greet("localhost", "127.0.0.1")).toBe("hello");
      expect(await greet(undefined, "127.0.0.1")).toBe("hello");
      await expect(greet("elsewhere.test", "127.0.0.1")).rejects.toThrow(/does not match certificate's altnames/);
    } finally {
      await new Promise((resolve) => server.close(resolve));
    }
  });
});
