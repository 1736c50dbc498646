import type { RuntimeCapabilities } from "../driver.js";

/** What the process runtime is and is not, for `/_backlot/capabilities`. Honest to the row: nothing here is pretended elsewhere. */
export const processCapabilities = (allowHostScripts: boolean): RuntimeCapabilities => ({
  runtime: "process",
  rows: [
    {
      subject: "instances run",
      real: true,
      note: "Each is a supervised group of real processes on this host; they outlive Backlot and are found again by their environment.",
    },
    {
      subject: "private and public addresses",
      real: true,
      note: "192.168.a.b is 127.192.a.b and 198.18.a.b is 127.18.a.b on this host's loopback, ports unchanged.",
    },
    { subject: "reachable from other hosts", real: false, note: "Loopback addresses answer on this host only." },
    {
      subject: "boot, shutdown, reboot",
      real: true,
      note: "Processes are started and ended (SIGTERM, after 5 s SIGKILL); services start at every boot, the deploy script runs at the first.",
    },
    {
      subject: "deploy scripts",
      real: true,
      note: allowHostScripts
        ? "All scripts run, on this host, as the user who runs Backlot (--allow-host-scripts)."
        : "The shipped public scripts run, as the user who runs Backlot; others only with --allow-host-scripts (exit code 126 without).",
    },
    {
      subject: "images",
      real: false,
      note: "Nothing is booted from a public image: any slug is accepted, and the machine has this host's programs. One of --image fails its boot.",
    },
    { subject: "private images, backups", real: true, note: "Copies of the machine's folder (home and services); there is no more of a disk here." },
    {
      subject: "disk",
      real: false,
      note: "A folder that holds the machine's home and services; the host's own files are seen, and no size is enforced.",
    },
    {
      subject: "volumes",
      real: true,
      note: "A folder, linked at $BACKLOT_MACHINE/mnt/LABEL while attached; its data outlives the machine. Size: not enforced.",
    },
    { subject: "root password and SSH", real: false, note: "There is no login: root_pass and authorized_keys are taken and not used." },
    { subject: "memory and CPU limits", real: false, note: "Types do not limit what the processes use." },
    { subject: "process isolation", real: false, note: "Machines see and can signal each other's processes and the host's." },
    {
      subject: "an address is the instance's alone",
      real: false,
      note: "A server of this host that listens on all addresses (0.0.0.0) also answers on an instance's, and makes its node up.",
    },
    {
      subject: "an address that comes to or leaves a running machine",
      real: true,
      note: "Its processes are started anew with the addresses it has now (BACKLOT_BIND_ADDRESSES), once its deploy script has ended.",
    },
    { subject: "processor and disk statistics", real: true, note: "From /proc, of all processes of the machine." },
    {
      subject: "network statistics and transfer",
      real: false,
      note: "Nobody counts loopback traffic by process: transfer stays 0 and the network's graphs are empty.",
    },
    { subject: "traffic filtering", real: false, note: "Every process of this host can connect to every address." },
    {
      subject: "ports below 1024",
      real: true,
      note: "Only with root, CAP_NET_BIND_SERVICE or net.ipv4.ip_unprivileged_port_start; otherwise the server in the machine cannot bind them.",
    },
    {
      subject: "processes that hide",
      real: false,
      note: "One that wipes its environment and leaves its process group is not found when its machine stops.",
    },
  ],
});
