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

/** `nginx (pid 7)` -> `sudo kill 7`; undefined when nobody is known. */
const endOf = (holder: string | undefined): string | undefined => {
  const pid = /pid (\d+)/.exec(holder ?? "")?.[1];
  return pid === undefined ? undefined : `sudo kill ${pid}`;
};

const freePort = async (host: string, from: number): Promise<number> => {
  for (let port = from + 1; port < from + 100 && port <= 65_535; port += 1) if ((await tryTcp(host, port)) === "free") return port;
  return 0;
};

const by = (holder: string | undefined): string => (holder === undefined ? "" : ` by ${holder}`);

/** Ports of our own: the API's and the name server's. `ours`: a Backlot runs on this state and has them. */
const ownPort = async (what: string, flag: string, host: string, port: number, tries: readonly Try[], ours: boolean): Promise<Finding> => {
  const [failed] = tries.flatMap((one) => (one === "free" ? [] : [one]));
  if (failed === undefined) return good("ports", `Port ${port} of ${host} is free for ${what}.`);
  if (failed.code === "EADDRINUSE" && ours) return good("ports", `Port ${port} of ${host} is ${what}'s, which runs.`);
  const holder = failed.code === "EADDRINUSE" ? await portHolder(port) : undefined;
  const text = failed.code === "EADDRINUSE" ? `is taken${by(holder)}` : `cannot be listened on (${failed.code})`;
  const remedy =
    failed.code === "EADDRNOTAVAIL"
      ? `backlot start ${flag.replace("port", "host")} 127.0.0.1`
      : `backlot start ${flag} ${await freePort(host, port)}`;
  return problem("ports", `Port ${port} of ${host} ${text}; it is ${what}'s.`, remedy);
};

/** What the public service's ports are worth here: privileges, and who else is on them. */
const servicePorts = async (address: string): Promise<Finding[]> => {
  const findings: Finding[] = [];
  for (const port of [80, 443]) {
    const tried = await tryTcp(address, port);
    if (tried === "free") continue;
    if (tried.code === "EACCES") {
      const text = `Ports below 1024 need privileges this user lacks: a balancer's port 80 becomes 8080, 443 becomes 8443.`;
      return [note("ports", text, "sudo sysctl -w net.ipv4.ip_unprivileged_port_start=80")];
    }
    if (tried.code === "EADDRINUSE") {
      const holder = await portHolder(port);
      const text = `Port ${port} of ${address} is taken${by(holder)}: a balancer there cannot have it.`;
      findings.push(note("ports", text, endOf(holder) ?? "backlot start --balancer-addresses 127.0.1.0/24"));
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

/** @param running a Backlot runs on this state: the ports that are taken are its own, and its balancers' */
export const portFindings = async (config: Config, running: boolean): Promise<Finding[]> => {
  const { host, port, dnsHost, dnsPort, balancerAddresses } = config;
  const api = port === 0 ? [] : [await ownPort("the API", "--port", host, port, [await tryTcp(host, port)], running)];
  const names =
    dnsPort === "off" || dnsPort === 0
      ? []
      : [await ownPort("the name server", "--dns-port", dnsHost, dnsPort, [await tryTcp(dnsHost, dnsPort), await tryUdp(dnsHost, dnsPort)], running)];
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
