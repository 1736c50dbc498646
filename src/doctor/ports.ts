import { createSocket } from "node:dgram";
import { createServer, isIPv6 } from "node:net";
import { portHolder } from "../balancer/holder.js";
import type { Config } from "../config/settings.js";
import { contains, formatIpv4, parseCidr } from "../kernel/addresses.js";
import { type Finding, good, note, problem } from "./finding.js";

type Try = "free" | { code: string };

const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? "unknown";

const tryTcp = (host: string, port: number): Promise<Try> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", (error) => resolve({ code: codeOf(error) }));
    server.listen({ host, port, exclusive: true }, () => server.close(() => resolve("free")));
  });

const tryUdp = (address: string, port: number): Promise<Try> =>
  new Promise((resolve) => {
    const socket = createSocket(isIPv6(address) ? "udp6" : "udp4");
    socket.once("error", (error) => {
      socket.close();
      resolve({ code: codeOf(error) });
    });
    socket.bind({ address, port, exclusive: true }, () => socket.close(() => resolve("free")));
  });

const freePort = async (host: string, from: number): Promise<number> => {
  for (let port = from + 1; port < from + 100 && port <= 65_535; port += 1) if ((await tryTcp(host, port)) === "free") return port;
  return 0;
};

const by = (holder: string | undefined): string => (holder === undefined ? "" : ` by ${holder}`);

interface OwnPort {
  what: string;
  flag: string;
  /** Where a start goes by itself when it may not have this port; undefined: it fails. */
  otherwise: string | undefined;
}

/** Ports of our own: the API's and the name server's. `ours`: a Backlot runs on this state and has them. */
const ownPort = async ({ what, flag, otherwise }: OwnPort, host: string, port: number, tries: readonly Try[], ours: boolean): Promise<Finding> => {
  const [failed] = tries.flatMap((one) => (one === "free" ? [] : [one]));
  if (failed === undefined) return good("ports", `Port ${port} of ${host} is free for ${what}.`);
  if (failed.code === "EADDRINUSE" && ours) return good("ports", `Port ${port} of ${host} is ${what}'s, which runs.`);
  const holder = failed.code === "EADDRINUSE" ? await portHolder(host, port) : undefined;
  const text = failed.code === "EADDRINUSE" ? `is taken${by(holder)}` : `cannot be listened on (${failed.code})`;
  const remedy =
    failed.code === "EADDRNOTAVAIL"
      ? `backlot start ${flag.replace("port", "host")} 127.0.0.1`
      : `backlot start ${flag} ${await freePort(host, port)}`;
  const place = `Port ${port} of ${host} ${text}`;
  if (otherwise !== undefined && (failed.code === "EADDRINUSE" || failed.code === "EACCES")) return note("ports", `${place}: ${otherwise}.`, remedy);
  return problem("ports", `${place}; it is ${what}'s.`, remedy);
};

/** The ports that balancers are asked for most. */
const webPorts = [80, 443];

/** Where a balancer could have both web ports instead; undefined when somebody has one of them on every address. */
const freeRange = async (): Promise<string | undefined> => {
  for (let third = 1; third < 255; third += 1) {
    const tries = await Promise.all(webPorts.map((port) => tryTcp(`127.0.${third}.1`, port)));
    if (tries.every((tried) => tried === "free")) return `127.0.${third}.0/24`;
  }
  return undefined;
};

/** What the public service's ports are worth here: privileges, and who else is on them. */
const servicePorts = async (address: string): Promise<Finding[]> => {
  const findings: Finding[] = [];
  for (const port of webPorts) {
    const tried = await tryTcp(address, port);
    if (tried === "free") continue;
    if (tried.code === "EACCES") {
      const text = `Ports below 1024 need privileges this user lacks: a balancer's port 80 becomes 8080, 443 becomes 8443.`;
      return [note("ports", text, "sudo sysctl -w net.ipv4.ip_unprivileged_port_start=80")];
    }
    if (tried.code === "EADDRINUSE") {
      const holder = await portHolder(address, port);
      const text = `Port ${port} of ${address} is taken${by(holder)}: a balancer there cannot have it.`;
      // Who has it may be a neighbour's cloud: nobody has to end for ours.
      const range = await freeRange();
      const remedy = range === undefined ? `sudo ss -Hltnp 'sport = :${port}'` : `backlot start --balancer-addresses ${range}`;
      findings.push(note("ports", text, remedy));
    } else
      findings.push(
        note("ports", `Port ${port} of ${address} cannot be listened on (${tried.code}).`, "backlot start --balancer-addresses 127.0.0.1/32"),
      );
  }
  return findings.length > 0 ? findings : [good("ports", `Balancers may listen on ports 80 and 443 of ${address}.`)];
};

/** Whether balancers can have an address each: macOS has one loopback address until somebody adds more. */
const manyAddresses = async (cidr: string): Promise<Finding[]> => {
  const range = parseCidr(cidr);
  if (!range || range.size < 4) return [];
  const second = formatIpv4(range.base + 2);
  const tried = await tryTcp(second, 0);
  if (tried === "free") return [];
  const text = `${second} is not an address of this machine (${tried.code}): a second balancer's listeners will fail there.`;
  return [note("ports", text, process.platform === "darwin" ? `sudo ifconfig lo0 alias ${second} up` : `sudo ip address add ${second}/32 dev lo`)];
};

const nameServer: OwnPort = { what: "the name server", flag: "--dns-port", otherwise: "names will be answered on a free port" };

/** @param running a Backlot runs on this state: the ports that are taken are its own, and its balancers' */
export const portFindings = async (config: Config, running: boolean): Promise<Finding[]> => {
  const { host, port, dnsHost, dnsPort, balancerAddresses } = config;
  const api =
    port === 0 ? [] : [await ownPort({ what: "the API", flag: "--port", otherwise: undefined }, host, port, [await tryTcp(host, port)], running)];
  const names =
    dnsPort === "off" || dnsPort === 0
      ? []
      : [await ownPort(nameServer, dnsHost, dnsPort, [await tryTcp(dnsHost, dnsPort), await tryUdp(dnsHost, dnsPort)], running)];
  const range = parseCidr(balancerAddresses);
  const loopback = range && contains({ base: 0x7f000000, prefix: 8, size: 2 ** 24 }, formatIpv4(range.base));
  const first = range && formatIpv4(range.size === 1 ? range.base : range.base + 1);
  const open = loopback
    ? []
    : [
        note(
          "ports",
          `Balancers listen on ${balancerAddresses}, which others on the network may reach.`,
          "backlot start --balancer-addresses 127.0.0.0/24",
        ),
      ];
  return [
    ...api,
    ...names,
    ...(first === undefined || running ? [] : await servicePorts(first)),
    ...(await manyAddresses(balancerAddresses)),
    ...open,
  ];
};
