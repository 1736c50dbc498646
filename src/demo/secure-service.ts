import { X509Certificate } from "node:crypto";
import { selfSignedCertificate } from "../kernel/certificate.js";
import { backEnd } from "./page.js";
import { openDoor } from "./preparation.js";
import { type BalancerConfig, expectThat, fact, type Step } from "./stage.js";
import { servedFingerprint, visit } from "./visitor.js";

export const secureService: readonly Step[] = [
  {
    title: "a certificate, made on the spot",
    run: async (stage) => {
      const { hostname, ipv4 } = fact(stage.facts.balancer, "balancer");
      const altNames = [hostname, "localhost", ipv4];
      const pair = await selfSignedCertificate({ commonName: hostname, country: "US", organization: "Backlot demo", altNames, days: 30 });
      const fingerprint = new X509Certificate(pair.cert).fingerprint256;
      stage.facts.certificate = { ...pair, fingerprint };
      return `for ${altNames.join(", ")}`;
    },
  },
  {
    title: "the config switched to HTTPS on 443",
    run: async (stage) => {
      const { cert, key } = fact(stage.facts.certificate, "certificate");
      const path = `/v4/balancers/${fact(stage.facts.balancer, "balancer").id}/configs/${fact(stage.facts.configId, "config")}`;
      const config = await stage.cloud.put<BalancerConfig>(path, { protocol: "https", port: 443, ssl_cert: cert, ssl_key: key });
      expectThat(config.protocol === "https" && config.port === 443, "https on 443", `${config.protocol} on ${config.port}`);
      expectThat(!JSON.stringify(config).includes("PRIVATE KEY"), "a record that does not show the key", "the key");
      const door = await openDoor(stage, fact(stage.facts.plainDoor, "listener").port);
      stage.facts.tlsDoor = { ...door, trusted: cert };
      return `${door.address}:${door.port}`;
    },
  },
  {
    title: "a request over verified TLS",
    run: async (stage) => {
      const door = fact(stage.facts.tlsDoor, "TLS listener");
      const page = await visit(door);
      expectThat(page.verified, "a verified certificate", "an unverified one");
      expectThat(page.status === 200, "200", `${page.status} ${page.body.slice(0, 200)}`);
      const served = backEnd(page.body);
      expectThat(served !== undefined, "a page that names its instance", page.body.slice(0, 200));
      const fingerprint = await servedFingerprint(door);
      const { fingerprint: ours } = fact(stage.facts.certificate, "certificate");
      expectThat(fingerprint === ours, `our certificate ${ours}`, fingerprint);
      return `${served?.label} answered`;
    },
  },
];
