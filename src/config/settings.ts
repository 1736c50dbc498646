/** Every setting there is, after file, environment and flags were merged (flags win, then `BACKLOT_…`, then `backlot.config.json`). */
export interface Config {
  /** TCP port of the API; 0 picks a free one. */
  port: number;
  /** Address the API binds to; loopback unless the user asked otherwise. */
  host: string;
  /** A second TCP port, where shared paths speak the public vendor's spelling too; 0 picks a free one, undefined: there is none. */
  linodePort: number | undefined;
  /** Calls are counted and refused as in production (contract 7.2). */
  rateLimit: boolean;
  /** Folder of the state, absolute. */
  state: string;
  runtime: "auto" | "docker" | "process";
  /** A full-rights token chosen by the user; undefined: one is made at each start. */
  token: string | undefined;
  /** All simulated waiting is divided by this; 1 is as in production. */
  speed: number;
  /** CIDR of the addresses balancers listen on, inside 127.0.0.0/8 unless the user asked otherwise. */
  balancerAddresses: string;
  /** CIDR of private addresses, inside 192.168.0.0/16 (contract 8.4: node addresses begin with 192.168). */
  privatePool: string;
  /** How the docker runtime's private addresses are reached; auto: tried with the first machine that runs. */
  dial: "auto" | "direct" | "relay";
  /** Plain HTTP requests take the balancer's fast lane; off: all take the careful one. */
  fastLane: "on" | "off";
  /** Balancers keep client connections open between requests; off: they close after each answer, as the public service does. */
  clientKeepAlive: "on" | "off";
  /** Client connections one balancer may have open (contract 8.5). */
  balancerConnections: number;
  certificates: "strict" | "lenient";
  /** Answers let pages of any origin read them, as the public API's do (contract 7.1), and such pages may change things; off: neither. */
  cors: "off" | "on";
  /** Image slug to boot when the asked one cannot be had; undefined: fail with cause and remedy. */
  imageFallback: string | undefined;
  /** OCI references by slug: containers of the user's own that instances can be made of, as they are. */
  images: Readonly<Record<string, string>>;
  onExit: "keep" | "stop";
  allowHostScripts: boolean;
  /** UDP and TCP port of the name server; 0 picks a free one, "off": there is none. */
  dnsPort: number | "off";
  /** Address the name server binds to. */
  dnsHost: string;
  /** Resolvers that names beyond ours are looked up with, `ADDRESS[:PORT]` and commas; undefined: this machine's. */
  dnsUpstream: string | undefined;
  /** Names beyond ours are looked up for this machine too, not only for guests. */
  dnsForward: boolean;
  logLevel: "fatal" | "error" | "warn" | "info" | "debug" | "trace" | "silent";
  json: boolean;
}
