import { certificateProblems } from "../../kernel/certificate.js";
import type { Problem } from "../../kernel/fault.js";
import type { Cloud, Reader } from "../cloud.js";
import { type ConfigRow, type ConfigSettings, configsOf, defaultSettings } from "./config.js";

type Wanted = { [N in keyof ConfigSettings]?: ConfigSettings[N] | null | undefined };

const givenSettings = (wanted: Wanted): Partial<ConfigSettings> =>
  Object.fromEntries(
    Object.keys(defaultSettings("http"))
      .map((name) => [name, wanted[name as keyof ConfigSettings]])
      .filter(([name, value]) => value !== undefined && (value !== null || name === "sslCert" || name === "sslKey")),
  );

/** `current` with what the caller wants laid over it. `<REDACTED>`, as read back, means "unchanged". A new protocol brings its own words. */
export const mergedSettings = (current: ConfigSettings | undefined, wanted: Wanted): ConfigSettings => {
  const given = givenSettings(wanted);
  for (const name of ["sslCert", "sslKey"] as const) if (given[name] === "<REDACTED>") delete given[name];
  const protocol = given.protocol ?? current?.protocol ?? "http";
  const base: ConfigSettings = { ...defaultSettings(protocol), ...(current && settingsOf(current)) };
  if (current && (current.protocol === "udp") !== (protocol === "udp")) {
    const { algorithm, stickiness, checkPassive, cipherSuite } = defaultSettings(protocol);
    Object.assign(base, { algorithm, stickiness, checkPassive, cipherSuite });
  }
  return { ...base, ...given };
};

const settingsOf = (row: ConfigSettings): ConfigSettings =>
  Object.fromEntries(Object.keys(defaultSettings("http")).map((name) => [name, row[name as keyof ConfigSettings]])) as unknown as ConfigSettings;

const choiceProblem = (field: keyof ConfigSettings, value: string, choices: readonly string[], protocol: string): Problem[] =>
  choices.includes(value) ? [] : [{ reason: `Must be one of ${choices.join(", ")} with protocol ${protocol}.`, field }];

/** Contract 8.2, VAL rows: what a protocol allows. */
const protocolProblems = (settings: ConfigSettings): Problem[] => {
  const { protocol } = settings;
  const udp = protocol === "udp";
  const tcpLike = protocol === "tcp";
  return [
    ...choiceProblem(
      "algorithm",
      settings.algorithm,
      udp ? ["roundrobin", "leastconn", "ring_hash"] : ["roundrobin", "leastconn", "source"],
      protocol,
    ),
    ...choiceProblem(
      "stickiness",
      settings.stickiness,
      udp ? ["none", "session", "source_ip"] : tcpLike ? ["none", "table"] : ["none", "table", "http_cookie"],
      protocol,
    ),
    ...choiceProblem("proxyProtocol", settings.proxyProtocol, tcpLike ? ["none", "v1", "v2"] : ["none"], protocol),
    ...choiceProblem("cipherSuite", settings.cipherSuite, udp ? ["none"] : ["recommended", "legacy"], protocol),
    ...(udp && settings.checkPassive ? [{ reason: "Must be false with protocol udp.", field: "checkPassive" }] : []),
  ];
};

const checkProblems = (settings: ConfigSettings): Problem[] => {
  const problems: Problem[] = [];
  const overHttp = settings.check === "http" || settings.check === "http_body";
  if (settings.checkInterval <= settings.checkTimeout) {
    problems.push({ reason: `Must be larger than the timeout of ${settings.checkTimeout} seconds.`, field: "checkInterval" });
  }
  if (overHttp && settings.checkPath === "") problems.push({ reason: `Needed with the check ${settings.check}.`, field: "checkPath" });
  if (settings.check === "http_body" && settings.checkBody === "") problems.push({ reason: "Needed with the check http_body.", field: "checkBody" });
  return problems;
};

export interface CertificateJudgement {
  problems: Problem[];
  warnings: string[];
  commonName: string;
  fingerprint: string;
}

/** A certificate is judged when it is set, and when https is switched on over one that was set before. */
const certificateJudgement = (cloud: Cloud, settings: ConfigSettings): CertificateJudgement => {
  const none = { problems: [], warnings: [], commonName: "", fingerprint: "" };
  if (settings.sslCert === null && settings.sslKey === null && settings.protocol !== "https") return none;
  const missing = (["sslCert", "sslKey"] as const).filter((name) => settings[name] === null || settings[name]?.trim() === "");
  if (missing.length > 0) {
    return {
      ...none,
      problems: missing.map((field) => ({
        reason: settings.protocol === "https" ? "Needed with protocol https." : "Certificate and key must be set together.",
        field,
      })),
    };
  }
  const { problems, warnings, summary } = certificateProblems(
    settings.sslCert ?? "",
    settings.sslKey ?? "",
    cloud.settings.certificates,
    cloud.clock.now(),
  );
  return { problems, warnings, commonName: summary?.commonName ?? "", fingerprint: summary?.fingerprint ?? "" };
};

/** Everything that can be wrong with a config, at once; fields prefixed with `at`. */
export const configProblems = (
  tx: Reader,
  cloud: Cloud,
  balancerId: number | null,
  self: ConfigRow | null,
  settings: ConfigSettings,
  at = "",
): CertificateJudgement => {
  const problems: Problem[] = [];
  // tcp, http and https share one port space, udp has its own (contract 8.2).
  const rival =
    balancerId === null
      ? undefined
      : configsOf(tx, balancerId).find(
          (row) => row.id !== self?.id && row.port === settings.port && (row.protocol === "udp") === (settings.protocol === "udp"),
        );
  if (rival) problems.push({ reason: `Config ${rival.id} of this balancer already has ${settings.port}; it must be unique.`, field: "port" });
  problems.push(...protocolProblems(settings), ...checkProblems(settings));
  const unchanged =
    self && self.sslCert === settings.sslCert && self.sslKey === settings.sslKey && (settings.protocol !== "https" || settings.sslCert !== null);
  const certificate = unchanged
    ? { problems: [], warnings: [], commonName: self.sslCommonname, fingerprint: self.sslFingerprint }
    : certificateJudgement(cloud, settings);
  return {
    ...certificate,
    problems: [...problems, ...certificate.problems].map((problem) =>
      problem.field === undefined ? problem : { ...problem, field: `${at}${problem.field}` },
    ),
  };
};
