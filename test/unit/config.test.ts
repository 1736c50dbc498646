import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { configFlags, processEnvironment, readConfig } from "#backlot/config/config.js";
import { Fault } from "#backlot/kernel/fault.js";

let cwd: string;

beforeEach(() => {
  cwd = mkdtempSync(join(tmpdir(), "backlot-config-"));
});

afterEach(() => {
  rmSync(cwd, { recursive: true, force: true });
});

interface Given {
  flags?: Record<string, unknown>;
  env?: Record<string, string>;
  file?: unknown;
}

const read = ({ flags = {}, env = {}, file }: Given = {}) => {
  if (file !== undefined) writeFileSync(join(cwd, "backlot.config.json"), typeof file === "string" ? file : JSON.stringify(file));
  return readConfig({ flags, env: { HOME: "/home/someone", ...env }, cwd });
};

const reasons = (given: Given): string[] => {
  try {
    read(given);
  } catch (error) {
    expect(error).toBeInstanceOf(Fault);
    expect((error as Fault).kind).toBe("invalid");
    return (error as Fault).problems.map(({ reason }) => reason);
  }
  return [];
};

describe("without any source", () => {
  it("has the defaults", () => {
    expect(read()).toEqual({
      port: 4747,
      host: "127.0.0.1",
      state: "/home/someone/.local/state/backlot",
      runtime: "auto",
      token: undefined,
      speed: 10,
      balancerAddresses: "127.0.0.0/24",
      privatePool: "192.168.128.0/17",
      fastLane: "on",
      clientKeepAlive: "on",
      balancerConnections: 10_000,
      certificates: "strict",
      cors: "off",
      dial: "auto",
      imageFallback: undefined,
      images: {},
      onExit: "keep",
      allowHostScripts: false,
      dnsPort: 4753,
      dnsHost: "127.0.0.1",
      dnsUpstream: undefined,
      dnsForward: false,
      logLevel: "info",
      json: false,
      linodePort: undefined,
      rateLimit: false,
    });
  });

  it("is frozen", () => expect(Object.isFrozen(read())).toBe(true));

  it("keeps the state where the environment says, always absolute", () => {
    expect(read({ env: { XDG_STATE_HOME: "/var/states" } }).state).toBe("/var/states/backlot");
    expect(read({ env: { XDG_STATE_HOME: "relative" } }).state).toBe("/home/someone/.local/state/backlot");
    expect(read({ env: { HOME: "" } }).state).toBe(join(homedir(), ".local/state/backlot"));
    expect(read({ flags: { state: "here" } }).state).toBe(join(cwd, "here"));
    expect(read({ file: { state: "~/there" } }).state).toBe("/home/someone/there");
    expect(read({ env: { BACKLOT_STATE: "/abs/../abs2" } }).state).toBe("/abs2");
  });
});

describe("precedence", () => {
  it("is flags, then variables, then file, then default, for each setting by itself", () => {
    const config = read({
      flags: { port: "1", host: undefined },
      env: { BACKLOT_PORT: "2", BACKLOT_HOST: "::1" },
      file: { port: 3, host: "0.0.0.0", speed: 0.5 },
    });
    expect(config).toMatchObject({ port: 1, host: "::1", speed: 0.5, runtime: "auto" });
  });

  it("knows every setting in every source", () => {
    const values = {
      port: 0,
      host: "localhost",
      state: "/s",
      runtime: "process",
      token: "0123456789abcdef",
      speed: 2.5,
      balancerAddresses: "127.0.1.0/24",
      privatePool: "192.168.64.0/20",
      fastLane: "off",
      clientKeepAlive: "off",
      balancerConnections: 5,
      certificates: "lenient",
      cors: "on",
      dial: "relay",
      imageFallback: "cloud/debian12",
      images: { "cloud/mine": "registry.example:5000/team/mine:1.2", "own/two": "busybox@sha256:0123" },
      onExit: "stop",
      allowHostScripts: true,
      dnsPort: 5300,
      dnsHost: "::1",
      dnsUpstream: "192.0.2.1,192.0.2.2:5353",
      dnsForward: true,
      logLevel: "silent",
      json: true,
      linodePort: 0,
      rateLimit: true,
    };
    const textOf = (value: unknown) =>
      typeof value === "object"
        ? Object.entries(value as object)
            .map((pair) => pair.join("="))
            .join(" ")
        : String(value);
    const asText = Object.fromEntries(Object.entries(values).map(([key, value]) => [key, textOf(value)]));
    const names: Record<string, string> = {
      BACKLOT_PORT: "port",
      BACKLOT_LINODE_PORT: "linodePort",
      BACKLOT_HOST: "host",
      BACKLOT_STATE: "state",
      BACKLOT_RUNTIME: "runtime",
      BACKLOT_TOKEN: "token",
      BACKLOT_SPEED: "speed",
      BACKLOT_BALANCER_ADDRESSES: "balancerAddresses",
      BACKLOT_PRIVATE_POOL: "privatePool",
      BACKLOT_DIAL: "dial",
      BACKLOT_FAST_LANE: "fastLane",
      BACKLOT_CLIENT_KEEP_ALIVE: "clientKeepAlive",
      BACKLOT_BALANCER_CONNECTIONS: "balancerConnections",
      BACKLOT_CERTIFICATES: "certificates",
      BACKLOT_CORS: "cors",
      BACKLOT_IMAGE_FALLBACK: "imageFallback",
      BACKLOT_IMAGES: "images",
      BACKLOT_RATE_LIMIT: "rateLimit",
      BACKLOT_ON_EXIT: "onExit",
      BACKLOT_ALLOW_HOST_SCRIPTS: "allowHostScripts",
      BACKLOT_DNS_PORT: "dnsPort",
      BACKLOT_DNS_HOST: "dnsHost",
      BACKLOT_DNS_UPSTREAM: "dnsUpstream",
      BACKLOT_DNS_FORWARD: "dnsForward",
      BACKLOT_LOG_LEVEL: "logLevel",
      BACKLOT_JSON: "json",
    };
    const env = Object.fromEntries(Object.entries(names).map(([name, key]) => [name, asText[key] ?? ""]));
    expect(read({ flags: values })).toEqual(values);
    expect(read({ flags: asText })).toEqual(values);
    expect(read({ env })).toEqual(values);
    expect(read({ file: values })).toEqual(values);
    expect(configFlags.map(({ env: name, key }) => [name, key])).toEqual(Object.entries(names));
  });

  it("takes pairs one by one, as a flag that is repeated gives them", () => {
    expect(read({ flags: { images: ["cloud/a=one:1", "cloud/b=two"] } }).images).toEqual({ "cloud/a": "one:1", "cloud/b": "two" });
    expect(read({ env: { BACKLOT_IMAGES: "cloud/a=one:1,cloud/b=two" } }).images).toEqual({ "cloud/a": "one:1", "cloud/b": "two" });
  });

  it("lets a switch be turned off again, and takes 1 and 0", () => {
    expect(read({ env: { BACKLOT_JSON: "0" }, file: { json: true } }).json).toBe(false);
    expect(read({ flags: { json: true }, env: { BACKLOT_JSON: "false" } }).json).toBe(true);
    expect(read({ env: { BACKLOT_ALLOW_HOST_SCRIPTS: "1" } }).allowHostScripts).toBe(true);
  });

  it("takes an empty variable as not set", () => {
    expect(read({ env: { BACKLOT_TOKEN: "", BACKLOT_PORT: "" }, file: { port: 5 } })).toMatchObject({ token: undefined, port: 5 });
  });
});

describe("an unknown name", () => {
  it("is refused by its name, with the near one", () => {
    expect(reasons({ flags: { prot: "1" } })).toEqual(["--prot: there is no such setting. Did you mean --port?"]);
    expect(reasons({ env: { BACKLOT_LOGLEVEL: "info" } })).toEqual(["BACKLOT_LOGLEVEL: there is no such setting. Did you mean BACKLOT_LOG_LEVEL?"]);
    expect(reasons({ file: { "private-pool": "" } })).toEqual([
      "backlot.config.json: private-pool: there is no such setting. Did you mean privatePool?",
    ]);
  });

  it("is refused without a guess when nothing is near", () => {
    expect(reasons({ env: { BACKLOT_COLOUR: "" } })).toEqual(["BACKLOT_COLOUR: there is no such setting."]);
  });

  it.each(["__proto__", "constructor", "toString"])("is refused when it is %s", (key) => {
    expect(reasons({ file: `{ ${JSON.stringify(key)}: {} }` })).toEqual([`backlot.config.json: ${key}: there is no such setting.`]);
  });

  it("is one problem each", () => {
    expect(reasons({ file: { one: 1, two: 2 } })).toHaveLength(2);
  });

  it("is not the tests' own variable, nor anybody else's", () => {
    expect(
      reasons({ env: { BACKLOT_REQUIRE_DOCKER: "1", BACKLOT_REQUIRE_BROWSER: "1", BACKLOT_REQUIRE_HAPROXY: "1", BACKLOTS: "1", PATH: "/bin" } }),
    ).toEqual([]);
  });
});

describe("a bad value", () => {
  it.each([
    ["port", ["-1", "65536", "1.5", "http", 1e9, true, "0x10", " 80"], /whole number from 0 to 65535/],
    ["host", ["", "a b", "300.1.1.1", "http://x", "-x"], /IP address or a host name/],
    ["state", ["", " ", "a\0b", 7], /path of a folder/],
    ["runtime", ["podman", ""], /one of auto, docker, process/],
    ["speed", ["0", "-1", "fast", Number.POSITIVE_INFINITY, Number.NaN], /number above 0/],
    ["balancerAddresses", ["127.0.0.1", "127.0.0.1/24", "10.0.0.0/7", "127.0.0.0/33", "x/8"], /range A\.B\.C\.D\/8 to \/32/],
    [
      "privatePool",
      ["192.168.0.0/15", "192.168.0.0/21", "10.0.0.0/16", "192.169.0.0/17", "192.168.1.0/17"],
      /\/16 to \/20 inside 192\.168\.0\.0\/16/,
    ],
    ["certificates", ["none"], /one of strict, lenient/],
    ["imageFallback", ["debian12", "cloud/", "a b/c"], /image slug/],
    ["images", ["cloud/mine", "=x", "mine=x", "private/1=x", "cloud/mine=", "cloud/mine=-x", 7, { "cloud/mine": 7 }, [7]], /pairs such as/],
    ["onExit", ["kill"], /one of keep, stop/],
    ["allowHostScripts", ["yes", 1, ""], /true or false/],
    ["dnsPort", [-1, 65_536, 1.5, "on", "", "53x"], /from 0 to 65535, or "off"/],
    ["dnsHost", ["localhost", "127.0.0.1:53", ""], /an IP address/],
    ["dnsUpstream", ["", "ns.example.com", "192.0.2.1,", "192.0.2.1:0", "192.0.2.1;192.0.2.2"], /IP addresses/],
    ["logLevel", ["loud"], /one of fatal, error/],
    ["json", ["on"], /true or false/],
  ])("of %s is refused", (key, values, rule) => {
    const name = configFlags.find((flag) => flag.key === key)?.name;
    for (const value of values) {
      expect(reasons({ flags: { [key]: value } })).toEqual([expect.stringMatching(rule)]);
      expect(reasons({ flags: { [key]: value } })[0]?.startsWith(`${name}: must be `)).toBe(true);
    }
  });

  it("of a token is refused without showing it", () => {
    for (const token of ["short", "with a space in it 123", "tab\tin-it-1234567890", "umlaut-ü-1234567890"]) {
      const [reason, ...rest] = reasons({ flags: { token } });
      expect(rest).toEqual([]);
      expect(reason).toBe("--token: must be at least 16 printable ASCII characters without spaces.");
    }
  });

  it("names its source, and all sources' problems come at once", () => {
    const problems = reasons({
      flags: { port: "x", spede: "1" },
      env: { BACKLOT_PORT: "y", BACKLOT_JSON: "maybe" },
      file: { port: "80", runtime: "vm", hots: "" },
    });
    expect(problems).toEqual([
      "--spede: there is no such setting. Did you mean --speed?",
      '--port: must be a whole number from 0 to 65535, not "x".',
      'BACKLOT_PORT: must be a whole number from 0 to 65535, not "y".',
      'BACKLOT_JSON: must be true or false, not "maybe".',
      "backlot.config.json: hots: there is no such setting. Did you mean host?",
      'backlot.config.json: port: must be a whole number from 0 to 65535, not "80".',
      'backlot.config.json: runtime: must be one of auto, docker, process, not "vm".',
    ]);
  });

  it("is refused when balancers and instances would share addresses", () => {
    expect(reasons({ env: { BACKLOT_BALANCER_ADDRESSES: "192.168.0.0/16" } })).toEqual([
      "BACKLOT_BALANCER_ADDRESSES and --private-pool: balancers and instances must not share addresses, and 192.168.0.0/16 overlaps 192.168.128.0/17.",
    ]);
    expect(read({ flags: { balancerAddresses: "192.168.0.0/24" } }).balancerAddresses).toBe("192.168.0.0/24");
  });
});

describe("backlot.config.json", () => {
  it("is refused when it is not JSON, with the line and without its content", () => {
    const [reason] = reasons({ file: '{\n  "token": "0123456789abcdef"\n  "port": 1\n}' });
    expect(reason).toBe("backlot.config.json: is not valid JSON (line 3).");
    expect(reasons({ file: "token=0123456789abcdef" }).join()).not.toContain("0123");
  });

  it("is refused when it holds no object", () => {
    for (const file of ["[]", "null", '"x"', "7"]) expect(reasons({ file })).toEqual(["backlot.config.json: must hold one JSON object."]);
  });

  it("is refused when it cannot be read", () => {
    mkdirSync(join(cwd, "backlot.config.json"));
    expect(reasons({})).toEqual(["backlot.config.json: cannot be read (EISDIR)."]);
  });

  it("may begin with a byte order mark", () => {
    expect(read({ file: '\uFEFF{"port":9}' }).port).toBe(9);
  });
});

describe("configFlags", () => {
  it("describes every flag once, for the command line and the documentation", () => {
    expect(configFlags.map(({ name, value }) => (value ? `${name} ${value}` : name))).toEqual([
      "--port PORT",
      "--linode-port PORT",
      "--host ADDRESS",
      "--state DIR",
      "--runtime auto|docker|process",
      "--token VALUE",
      "--speed N",
      "--balancer-addresses CIDR",
      "--private-pool CIDR",
      "--dial auto|direct|relay",
      "--fast-lane on|off",
      "--client-keep-alive on|off",
      "--balancer-connections N",
      "--certificates strict|lenient",
      "--cors off|on",
      "--image-fallback SLUG",
      "--image SLUG=REFERENCE",
      "--rate-limit",
      "--on-exit keep|stop",
      "--allow-host-scripts",
      "--dns-port PORT",
      "--dns-host ADDRESS",
      "--dns-upstream ADDRESSES",
      "--dns-forward",
      "--log-level LEVEL",
      "--json",
    ]);
    for (const { description } of configFlags) expect(description.length).toBeGreaterThan(10);
    expect(configFlags[0]).toMatchObject({ key: "port", env: "BACKLOT_PORT", default: "4747" });
  });
});

describe("processEnvironment", () => {
  it("is a copy of what the process was given", () => {
    const environment = processEnvironment();
    expect(environment.PATH).toBe(process.env.PATH);
    environment.BACKLOT_PORT = "1";
    expect(process.env.BACKLOT_PORT).toBeUndefined();
  });
});
