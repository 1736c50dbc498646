import type { RuntimeCapabilities } from "../driver.js";
import type { VolumeRights } from "./volume-helper.js";

const volumeRow = (rights: VolumeRights | undefined): RuntimeCapabilities["rows"][number] => {
  const subject = "Volumes";
  if (rights && "refused" in rights) {
    const why = `this engine refuses the helper that mounts them in a running machine (${rights.refused})`;
    return { subject, real: true, note: `A plain engine volume, mounted at /mnt/LABEL when its machine boots next. Size: not enforced, for ${why}.` };
  }
  const place = "mounted at /mnt/LABEL in the running machine";
  if (rights?.growth === "none")
    return { subject, real: true, note: `A folder, ${place}. Size: not enforced, for this engine grants no loop devices (${rights.reason}).` };
  const growth =
    rights === undefined
      ? "What the engine grants is tried with the first one."
      : rights.growth === "in-use"
        ? "They grow in use."
        : "They grow while no process of the machine uses them, else at its next boot: this engine grants no SYS_RESOURCE.";
  const left = "`backlot clean` finds loop devices that a crash left (kernels before 5.8) on this machine only, not on another machine's engine.";
  return { subject, real: true, note: `An ext4 of exactly the size, ${place}. ${growth} ${left}` };
};

/** @param rights what the engine granted the volumes' helper; undefined before that was tried */
export const dockerCapabilities = (rights: VolumeRights | undefined): RuntimeCapabilities => ({
  runtime: "docker",
  rows: [
    volumeRow(rights),
    { subject: "Operating system", real: true, note: "A container of the image's distribution with its packages; Debian family only." },
    {
      subject: "Containers of your own (--image)",
      real: true,
      note: "Run with their own entrypoint, at the instance's addresses and within its type's limits; no sshd, root_pass, keys or deploy script.",
    },
    { subject: "Kernel", real: false, note: "All instances share the kernel of the engine's machine; the chosen kernel is stored, not booted." },
    { subject: "Init and services", real: true, note: "tini is PID 1 and a small boot program starts sshd and services; no systemd." },
    { subject: "Root password and SSH", real: true, note: "sshd with the chosen password and keys; host keys are made by each machine." },
    { subject: "Private addresses", real: true, note: "The container's own address on its region's network, the same after a rebuild." },
    { subject: "Regions", real: true, note: "One network each; machines of two regions reach each other over public addresses only." },
    { subject: "Memory and CPU of the type", real: true, note: "Enforced; CPUs at most as many as the engine has, memory without swap." },
    { subject: "Disk size of the type", real: false, note: "Not limited: the engine's storage is shared by all machines." },
    {
      subject: "Transfer and statistics",
      real: true,
      note: "The engine's own counters by network; what a machine carried since the last reading (15 s at most) is lost when it dies by itself.",
    },
    { subject: "Deploy script", real: true, note: "Run once at first boot as root; output and exit code are kept." },
    {
      subject: "Isolation",
      real: true,
      note: "A container's. An instance reaches what this host binds to all addresses and, where the engine runs with userland-proxy off, can send datagrams (unanswered) to its loopback.",
    },
    { subject: "Traffic filters in the guest", real: false, note: "No NET_ADMIN: a guest cannot change its routes or firewall." },
    { subject: "Lish and rescue consoles", real: false, note: "There is no serial console; use ssh or `docker exec`." },
  ],
});
