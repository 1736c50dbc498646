import { request as requestHttp } from "node:http";
import { request as requestHttps } from "node:https";
import { connect } from "node:tls";

/** Where a balancer's config really listens. */
export interface Door {
  address: string;
  port: number;
  /** The balancer's name: the Host header and the name the certificate must hold. */
  hostname: string;
  /** PEM of the only certificate that is trusted; undefined: plain HTTP. */
  trusted?: string;
}

export interface Page {
  status: number;
  body: string;
  /** True when the certificate chain and the name were verified. */
  verified: boolean;
}

const visitTimeoutMs = 10_000;

/**
 * One GET over a connection of its own. node:http(s) and not fetch, because only here can the trusted certificate and the
 * server name be given while the address stays a loopback one. Rejects when TLS cannot be verified.
 */
export const visit = (door: Door): Promise<Page> =>
  new Promise((resolve, reject) => {
    const options = {
      host: door.address,
      port: door.port,
      path: "/",
      agent: false as const,
      headers: { host: `${door.hostname}:${door.port}` },
      timeout: visitTimeoutMs,
    };
    const request =
      door.trusted === undefined
        ? requestHttp(options)
        : requestHttps({ ...options, ca: door.trusted, servername: door.hostname, rejectUnauthorized: true });
    request.on("response", (response) => {
      const socket = response.socket as { authorized?: boolean };
      const verified = socket.authorized === true;
      const parts: Buffer[] = [];
      response.on("data", (part: Buffer) => parts.push(part));
      response.on("error", reject);
      response.on("end", () => resolve({ status: response.statusCode ?? 0, body: Buffer.concat(parts).toString("utf8"), verified }));
    });
    request.on("timeout", () => request.destroy(new Error(`no answer from ${door.address}:${door.port} within ${visitTimeoutMs / 1000} s`)));
    request.on("error", reject);
    request.end();
  });

/** SHA-256 fingerprint of the certificate the listener serves, as `AB:CD:…`; the chain is verified against `door.trusted`. */
export const servedFingerprint = (door: Door): Promise<string> =>
  new Promise((resolve, reject) => {
    const socket = connect({
      host: door.address,
      port: door.port,
      servername: door.hostname,
      ...(door.trusted === undefined ? {} : { ca: door.trusted }),
    });
    socket.setTimeout(visitTimeoutMs, () =>
      socket.destroy(new Error(`no TLS handshake with ${door.address}:${door.port} within ${visitTimeoutMs / 1000} s`)),
    );
    socket.on("error", reject);
    socket.on("secureConnect", () => {
      const fingerprint = socket.getPeerCertificate().fingerprint256;
      socket.destroy();
      resolve(fingerprint);
    });
  });
