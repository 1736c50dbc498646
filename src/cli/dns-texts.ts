/** What resolves names on a machine. */
export type Resolving = "systemd-resolved" | "dnsmasq" | "resolv.conf" | "macos";

export interface DnsPlace {
  address: string;
  port: number;
}

/** The zone of the names that Backlot itself gives to instances, balancers and addresses. */
const ownDomain = "backlot.test";
const resolvedFile = "/etc/systemd/resolved.conf.d/backlot.conf";
const dnsmasqFile = "/etc/dnsmasq.d/backlot.conf";
const savedFile = "/etc/resolv.conf.before-backlot";
/** Marks the files on a Mac, where there is one a domain, so that the undoing finds them. */
const macMark = "# Backlot";

/** Names that may stand in a shell word: domains are checked when they are made, and this is what gets typed as root. */
const isPlain = (domain: string): boolean => /^[a-z0-9_-]+(\.[a-z0-9_-]+)*$/i.test(domain);

const written = (file: string, lines: readonly string[]): string[] => [
  `  sudo mkdir -p ${file.slice(0, file.lastIndexOf("/"))}`,
  `  printf '${lines.join("\\n")}\\n' | sudo tee ${file}`,
];

const steps = (how: Resolving, { address, port }: DnsPlace, domains: readonly string[], servers: readonly string[]): string[] => {
  switch (how) {
    case "systemd-resolved":
      return [
        "systemd-resolved asks Backlot for these domains only:",
        ...written(resolvedFile, ["[Resolve]", `DNS=${address}:${port}`, `Domains=${domains.map((domain) => `~${domain}`).join(" ")}`]),
        "  sudo systemctl restart systemd-resolved",
      ];
    case "dnsmasq":
      return [
        "dnsmasq asks Backlot for these domains only:",
        ...written(
          dnsmasqFile,
          domains.map((domain) => `server=/${domain}/${address}#${port}`),
        ),
        "  sudo systemctl restart dnsmasq",
      ];
    case "macos":
      return [
        "macOS asks Backlot for these domains only:",
        ...domains.flatMap((domain) => written(`/etc/resolver/${domain}`, [macMark, `nameserver ${address}`, `port ${port}`])),
      ];
    case "resolv.conf":
      return [
        "/etc/resolv.conf knows no ports and no domains, so Backlot must answer on port 53 and look up all other names as well.",
        "Start it as root (or with CAP_NET_BIND_SERVICE) and these flags:",
        `  --dns-port 53 --dns-forward${servers.length > 0 ? ` --dns-upstream ${servers.join(",")}` : " --dns-upstream ADDRESS_OF_A_RESOLVER"}`,
        "then:",
        `  sudo cp -L /etc/resolv.conf ${savedFile}`,
        `  printf 'nameserver ${address}\\n' | sudo tee /etc/resolv.conf`,
      ];
  }
};

/** What `backlot dns` prints. `servers`: the resolvers this machine has now. */
export const pointingLines = (how: Resolving, place: DnsPlace, domains: readonly string[], servers: readonly string[]): string[] => {
  const all = [ownDomain, ...domains.filter(isPlain)];
  return [
    `Backlot answers names at ${place.address} port ${place.port}, over UDP and TCP: ${all.join(", ")}.`,
    "",
    "Ask it without changing anything (dig is in Debian's package bind9-dnsutils):",
    `  dig @${place.address} -p ${place.port} ${all.at(-1)} ANY`,
    "",
    ...steps(how, place, all, servers),
    "",
    `Run this again after adding a domain${place.port === 4753 ? "" : ", or when the port changed (--dns-port keeps it)"}. backlot dns --undo says how to undo it.`,
  ];
};

/** What `backlot dns --undo` prints. */
export const undoingLines = (how: Resolving): string[] => {
  switch (how) {
    case "systemd-resolved":
      return ["systemd-resolved no longer asks Backlot after:", `  sudo rm -f ${resolvedFile}`, "  sudo systemctl restart systemd-resolved"];
    case "dnsmasq":
      return ["dnsmasq no longer asks Backlot after:", `  sudo rm -f ${dnsmasqFile}`, "  sudo systemctl restart dnsmasq"];
    case "macos":
      return ["macOS no longer asks Backlot after:", `  grep -lx '${macMark}' /etc/resolver/* | xargs sudo rm -f`];
    case "resolv.conf":
      return ["/etc/resolv.conf is as before after:", `  sudo cp ${savedFile} /etc/resolv.conf && sudo rm ${savedFile}`];
  }
};
