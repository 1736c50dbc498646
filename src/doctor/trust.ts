import { readFile } from "node:fs/promises";
import { connect } from "node:tls";
import { type Finding, good, note, problem, quoted } from "./finding.js";

/** Where distributions keep what curl and others trust. */
const bundles = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
const withinMs = 3_000;

/** A listener that speaks https, as the API tells of it. */
export interface SecureListener {
  config: number;
  address: string;
  port: number;
  /** The name its certificate is for. */
  commonName: string;
}

export interface TrustStore {
  path: string;
  pem: string;
}

export const trustStore = async (paths: readonly string[] = bundles): Promise<TrustStore | undefined> => {
  for (const path of paths) {
    const pem = await readFile(path, "utf8").catch(() => "");
    if (pem.includes("BEGIN CERTIFICATE")) return { path, pem };
  }
  return undefined;
};

/** What this machine's trust store says of the certificate that is served there: undefined when it is content. */
const distrust = ({ address, port, commonName }: SecureListener, ca: string): Promise<string | undefined> =>
  new Promise((resolve) => {
    const socket = connect({ host: address, port, servername: commonName, ca, rejectUnauthorized: false, timeout: withinMs });
    const settle = (reason: string | undefined) => {
      socket.destroy();
      resolve(reason);
    };
    socket.once("secureConnect", () => settle(socket.authorized ? undefined : String(socket.authorizationError)));
    socket.once("timeout", () => settle("no answer"));
    socket.once("error", (error: NodeJS.ErrnoException) => settle(error.code ?? error.message));
  });

const admit = ({ config, address, port, commonName }: SecureListener): string => {
  const fetched = `openssl s_client -connect ${address}:${port} -servername ${quoted(commonName)} </dev/null 2>/dev/null | openssl x509`;
  return `${fetched} | sudo tee /usr/local/share/ca-certificates/backlot-config-${config}.crt >/dev/null && sudo update-ca-certificates`;
};

/** Who this machine trusts: that there is a store at all, and whether it trusts what balancers serve here. */
export const trustFindings = async (
  store: TrustStore | undefined,
  extra: string | undefined,
  listeners: readonly SecureListener[],
): Promise<Finding[]> => {
  const findings: Finding[] = [];
  if (extra !== undefined && extra !== "") {
    const text = await readFile(extra, "utf8").catch(() => undefined);
    if (text === undefined) findings.push(problem("trust", `NODE_EXTRA_CA_CERTS names ${extra}, which cannot be read.`, "unset NODE_EXTRA_CA_CERTS"));
  }
  if (store === undefined) {
    const text = "This machine has no store of trusted certificates: registries and HTTPS clients will refuse each other.";
    return [...findings, problem("trust", text, "sudo apt-get install -y ca-certificates")];
  }
  for (const listener of listeners) {
    const reason = await distrust(listener, store.pem);
    if (reason === undefined) continue;
    const text = `The certificate that config ${listener.config} serves at ${listener.address} port ${listener.port} is not trusted by this machine (${reason}).`;
    findings.push(note("trust", text, admit(listener)));
  }
  if (findings.length === 0) findings.push(good("trust", `This machine's trusted certificates are in ${store.path}.`));
  return findings;
};
