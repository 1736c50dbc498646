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
  { subject: "balancer: udp", real: false, note: "Validated and stored; nothing listens. The config's `listener` says so." },
  { subject: "balancer: algorithm ring_hash, stickiness session and source_ip", real: false, note: "For udp; stored only." },
  {
    subject: "balancer: check_passive",
    real: false,
    note: "A real request that fails makes the node be probed at once; by itself it takes no node out.",
  },
  { subject: "balancer: proxy_protocol", real: false, note: "Validated and stored; no PROXY header is sent." },
  { subject: "balancer: client_conn_throttle, client_udp_sess_throttle", real: false, note: "Validated and stored; nothing is throttled." },
  { subject: "balancer: transfer, stats", real: false, note: "`transfer` reads null; there is no stats endpoint." },
  { subject: "balancer: hostname", real: false, note: "The name does not resolve yet; use the address." },
  { subject: "instance: backups, alerts", real: false, note: "Backup window and alerts are recorded; nothing is sent." },
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
    note: "Keeps running; the services it installed start at the next boot only, for services start when the script has ended.",
  },
  { subject: "instance: disk_encryption, maintenance_policy, interfaces", real: false, note: "Recorded." },
  {
    subject: "addresses: assigned between instances",
    real: true,
    note: "Running machines give and take them at once; an address taken from an instance goes to nobody else before its machine is without it.",
  },
  { subject: "addresses: sharing", real: false, note: "Recorded and shown; no machine gets a shared address by itself." },
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
    note: "Bytes that balancers' ports and instances' public networks really carried this calendar month (on the process runtime balancers' only). What is beyond the quota is shown, and not on any invoice.",
  },
  { subject: "account: cancel, managed, promotions, PayPal, transfers to other accounts", real: false, note: "Refused with the reason." },
  { subject: "notifications", real: true, note: "What is in a bad way now: engine, ports, boots, images, disk, unpaid balance. Nothing is stored." },
  {
    subject: "scripts: public and private",
    real: true,
    note: "Run once at first boot with the answers given; a machine keeps the text it was deployed with, and the log is at `/_backlot/instances/ID`.",
  },
  { subject: "instance: private images", real: false, note: "Only the public catalogue." },
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
