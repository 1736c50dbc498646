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
  {
    subject: "instance: backups, alerts, disks, config profiles, rebuild, resize, clone, rescue",
    real: false,
    note: "Backup window and alerts are recorded; the rest is not served.",
  },
  { subject: "instance: IPv6", real: false, note: "`ipv6` is always null." },
  { subject: "instance: private scripts, private images", real: false, note: "Only the public catalogue." },
  {
    subject: "volume: filesystem_path",
    real: false,
    note: "A name only. The volume has a file system already and is mounted at /mnt/LABEL; see the runtime's row on volumes.",
  },
  { subject: "volume: encryption, config_id", real: false, note: "Recorded. The data is not encrypted, and no profile chooses a device." },
  { subject: "domains, account records, tags, OAuth, rate limits", real: false, note: "Not served yet: 404." },
  { subject: "the public vendor's spelling of paths and fields", real: false, note: "Not served yet: 404." },
  { subject: "events", real: true, note: "Written in the same commit as the change. The newest 10,000 are kept; a job under way reads 50 percent." },
  { subject: "lists: a page beyond the last", real: true, note: "Is empty and says the page asked for." },
];
