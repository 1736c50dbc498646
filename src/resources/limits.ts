/** What is stored but not acted on, or not there at all, in this version: shown at `/_backlot/capabilities` (DESIGN, "nothing pretends"). */
export const limits: ReadonlyArray<{ subject: string; real: boolean; note: string }> = [
  {
    subject: "balancer: http, https, tcp",
    real: true,
    note: "Really listens where `listener` in the config's record says; TLS ends with the uploaded certificate.",
  },
  {
    subject: "balancer: health",
    real: true,
    note: "Real probes. With check none a node is used regardless, and a connection probe tells its status.",
  },
  { subject: "balancer: udp", real: true, note: "Datagrams are passed both ways; a session ends after 16 s without any." },
  {
    subject: "balancer: open connections",
    real: true,
    note: "At most 10,000 a balancer (`--balancer-connections`), beyond them 503; the API has 1,000. On one connection at most 512 requests wait for their answers, 33 at the API; more end it.",
  },
  {
    subject: "balancer: check_passive",
    real: true,
    note: "A real request that fails takes the node out; it is measured again after 5 s (before `--speed`) and comes back when that is good.",
  },
  {
    subject: "balancer: client_conn_throttle, client_udp_sess_throttle",
    real: true,
    note: "Counted per client address over the whole balancer in any second; one connection too many is closed without a word.",
  },
  {
    subject: "balancer: transfer, stats",
    real: true,
    note: "Bytes of its ports, by calendar month; a day of points, each five minutes long before `--speed`, lost when Backlot stops.",
  },
  { subject: "balancer: hostname", real: true, note: "Resolves to the balancer's address, as does LABEL.balancers.backlot.test." },
  {
    subject: "instance: backups and snapshots",
    real: true,
    note: "Copies of its disks' file systems, which restore what was there. One a simulated day in the hours of its schedule (its day of the week is recorded only), the newest 3 are kept.",
  },
  { subject: "instance: alerts", real: false, note: "Recorded; nothing is sent." },
  {
    subject: "instance: disks",
    real: true,
    note: "A disk made from an image is a file system of its own at the runtime: it is copied, dropped and booted. Sizes are added up against the plan, and nothing in the guest enforces them; disks without an image are records.",
  },
  {
    subject: "instance: config profiles",
    real: true,
    note: "They choose the disk that boots, `memory_limit` and `run_level`. Kernel, helpers, virt_mode, interfaces and further devices are recorded.",
  },
  {
    subject: "instance: rescue",
    real: false,
    note: "The instance's own disk, booted with ssh alone, neither deploy script nor services; there is no separate rescue system.",
  },
  {
    subject: "instance: rebuild, resize, clone, migrate, password",
    real: true,
    note: "On the runtime: new disks, other limits for the same files, copied files, another region's network. The process runtime limits nothing and knows no password.",
  },
  {
    subject: "scripts: one that never ends",
    real: true,
    note: "Keeps running, its log to be read meanwhile. Services start when the script has ended, and beside one that goes on for more than 30 s; those that fail then start again at its end.",
  },
  { subject: "instance: disk_encryption, maintenance_policy, interfaces", real: false, note: "Recorded." },
  {
    subject: "addresses: assigned between instances",
    real: true,
    note: "Running machines give and take them at once; an address taken from an instance goes to nobody else before its machine is without it.",
  },
  {
    subject: "addresses: sharing",
    real: true,
    note: "A shared address is up in its holder; while that does not run, in the first that shares it and does. It moves by itself, whole: a guest cannot announce it (no keepalived, no lelastic), and two never have it at once.",
  },
  {
    subject: "domains and records",
    real: true,
    note: "Really answered, over UDP and TCP, where /_backlot/dns says; no DNSSEC, and IXFR is answered with the whole zone.",
  },
  {
    subject: "domains: slave",
    real: true,
    note: "Fetched from its masters (AXFR) at once and every refresh; NOTIFY is not heard. Its content is not kept over a restart.",
  },
  { subject: "domains: axfr_ips", real: true, note: "Only these addresses get a transfer, over TCP." },
  {
    subject: "domains: name servers",
    real: true,
    note: "Every domain has ns1.backlot.test, which is this process; the world's delegations do not lead here, so clients must ask it (backlot dns).",
  },
  {
    subject: "addresses: rdns",
    real: true,
    note: "Resolves at the name server. Inside the account's own domains an A record must point back; any other valid name is taken, since nobody else is asked.",
  },
  { subject: "instance: IPv6", real: false, note: "`ipv6` is always null." },
  {
    subject: "account: invoices, balance",
    real: true,
    note: "From hours that things really existed, at the public price list, while Backlot ran. An hour takes 1/--speed of one; a billing month is 720 of them.",
  },
  {
    subject: "account: payments, cards, agreements",
    real: false,
    note: "Records: no money moves, and of a card only kind, last four digits and expiry are kept.",
  },
  {
    subject: "account: transfer",
    real: true,
    note: "Bytes that balancers' ports and instances' public networks really carried this calendar month, each counted once (on the process runtime balancers' only; a crash leaves out at most the last 15 s). What is beyond the quota is shown, and not on any invoice.",
  },
  { subject: "account: cancel, managed, promotions, PayPal, transfers to other accounts", real: false, note: "Refused with the reason." },
  { subject: "users, grants, tokens, scopes", real: true, note: "Enforced on every route; passwords and tokens are kept hashed only." },
  {
    subject: "OAuth: authorization code with PKCE, refresh, revocation, login and consent pages, second factor",
    real: true,
    note: "Served under `/oauth` here. The implicit flow is refused: use code with PKCE.",
  },
  {
    subject: "profile: e-mail, notifications by mail, time zone, lish_auth_method, IP whitelist, authorized_keys",
    real: false,
    note: "Recorded; no mail is sent and nothing is whitelisted. Keys for instances are `/v4/profile/sshkeys`, by `authorized_users`.",
  },
  {
    subject: "profile: telephone number, security questions, trusted devices",
    real: false,
    note: "Refused with the reason; devices are always empty.",
  },
  {
    subject: "notifications",
    real: true,
    note: "What is in a bad way now: engine, boots, substituted images, ports, interrupted balancers, volumes, domains without instances, disk, unpaid balance. Nothing is stored.",
  },
  {
    subject: "scripts: public and private",
    real: true,
    note: "Run once at first boot with the answers given; a machine keeps the text it was deployed with, and the log is at `/_backlot/instances/ID`.",
  },
  {
    subject: "images: made from an instance's disk",
    real: true,
    note: "A real copy of its file system, with its size measured, without host keys, root's password and what was handed over at boot; made while the machine runs, so shut it down for one moment's state.",
  },
  { subject: "images: upload, replication to regions", real: false, note: "Refused with the reason." },
  {
    subject: "events",
    real: true,
    note: "Written in the same commit as the change. The newest 10,000 are kept, those of the last 90 days are shown; a job under way reads 50 percent.",
  },
  {
    subject: "firewalls, VPCs, VLANs, placement groups, Kubernetes, databases, object storage, Longview, managed service, support tickets, betas",
    real: false,
    note: "Not built: their lists are empty, everything else about them is 404.",
  },
  {
    subject: "availability, maintenance policies",
    real: false,
    note: "Catalogue data: every plan can be had everywhere, and nothing is ever maintained.",
  },
  {
    subject: "rate limits",
    real: true,
    note: "With --rate-limit, the public API's numbers; windows are divided by --speed. Without it nothing is refused, and the headers say so.",
  },
  {
    subject: "the public Linode spelling",
    real: true,
    note: "Under /v4beta, under paths that only it has, and on all of /v4 at the port that --linode-port opens.",
  },
  {
    subject: "volume: filesystem_path",
    real: false,
    note: "A name only. The volume has a file system already and is mounted at /mnt/LABEL; see the runtime's row on volumes.",
  },
  { subject: "volume: encryption, config_id", real: false, note: "Recorded. The data is not encrypted, and no profile chooses a device." },
  { subject: "lists: a page beyond the last", real: true, note: "Is empty and says the page asked for." },
];
