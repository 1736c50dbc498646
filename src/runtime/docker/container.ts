import type Docker from "dockerode";
import { parseCidr } from "../../kernel/addresses.js";
import type { Machine, MachineSpec } from "../driver.js";
import type { GuestState } from "./guest-files.js";
import { containerName, hostName, labels, networkName, type Owner, ownerLabels } from "./labels.js";

/** A container of ours as the engine lists it. */
export interface SeenContainer {
  id: string;
  instance: number;
  /** The engine's name for it. */
  name: string;
  /** The image it was made from. */
  image: string;
  /** `created` (never started), `running`, `paused`, `exited`, `removing`, `dead` … */
  state: string;
  fingerprint: string;
  bootsAtCreation: number;
  hasScript: boolean;
  substituted: string | undefined;
  /** It has our boot program; containers have the labels of their image. */
  isGuest: boolean;
  /** Network name -> the address it is fixed to there. */
  addresses: ReadonlyMap<string, string>;
  /** What of the engine's volumes it was made with, ours and its image's. */
  mounts: EngineMounts;
  /** Made anew from its own disk (remakes.ts): it has begun even while it was never started. */
  isRemade: boolean;
  /** Engine volumes that end with it. */
  carried: readonly string[];
  /** Why it does not run, once it was looked at closely. */
  end?: string | undefined;
}

export const isLive = (state: string): boolean => state === "running" || state === "paused" || state === "restarting";

/** Engine volume -> where a container has it. Fixed when a container is made. */
export type EngineMounts = ReadonlyMap<string, string>;

/** A network this machine belongs on, with its address there; `key` is a region id or "public". */
export interface Attachment {
  key: string;
  name: string;
  subnet: string;
  /** undefined: the engine picks one (a machine without any address of its own). */
  address: string | undefined;
}

/** What a server needs and no more: sshd and su change user and root, a web server binds port 80. No NET_ADMIN, NET_RAW, MKNOD, SYS_ADMIN. */
const serverCapabilities = [
  "AUDIT_WRITE",
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "NET_BIND_SERVICE",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
];

const pidsLimit = 1024;
/**
 * A guest with two networks would answer on the public one for its private address, as every Linux does, and whoever is there could dial it
 * around the engine's walls between networks. So it answers ARP for, and names itself by, the addresses of that device alone (Linux, ip-sysctl.rst).
 */
const strictArp = { "net.ipv4.conf.all.arp_ignore": "1", "net.ipv4.conf.all.arp_announce": "2" };
/** Docker's own smallest limit. */
const leastMemoryMib = 6;
export const stopGraceSeconds = 3;

export const engineMounts = (mounts: ReadonlyArray<{ Type: string; Name?: string | undefined; Destination: string }> | undefined): EngineMounts =>
  new Map((mounts ?? []).flatMap(({ Type, Name, Destination }) => (Type === "volume" && Name ? [[Name, Destination] as const] : [])));

/** As the engine takes them. What lies at that path of an image is not copied into an empty volume: it is the volume's own place. */
export const mountRequest = (mounts: EngineMounts): Docker.MountSettings[] =>
  [...mounts].map(([Source, Target]) => ({ Type: "volume", Source, Target, VolumeOptions: { NoCopy: true } }) as Docker.MountSettings);

export const carriedVolumes = (on: Readonly<Record<string, string>> | undefined): string[] => (on?.[labels.carried] ?? "").split(" ").filter(Boolean);

/** Undefined for a container without our instance label, which is none of ours. */
export const seenContainer = (info: Docker.ContainerInfo): SeenContainer | undefined => {
  const instance = Number(info.Labels[labels.instance]);
  if (!Number.isSafeInteger(instance) || instance <= 0) return undefined;
  return {
    id: info.Id,
    instance,
    name: (info.Names[0] ?? "").replace(/^\//, ""),
    image: info.Image,
    state: info.State,
    fingerprint: info.Labels[labels.fingerprint] ?? "",
    bootsAtCreation: Number(info.Labels[labels.boots] ?? 0),
    hasScript: (info.Labels[labels.script] ?? "") !== "",
    substituted: info.Labels[labels.substituted] || undefined,
    isGuest: info.Labels[labels.guest] !== undefined,
    // IPAMConfig is what was asked for and stays while the machine is stopped; IPAddress is only there while it runs.
    addresses: new Map(
      Object.entries(info.NetworkSettings?.Networks ?? {}).map(([name, network]) => [
        name,
        (network.IPAMConfig as { IPv4Address?: string } | null)?.IPv4Address ?? network.IPAddress,
      ]),
    ),
    mounts: engineMounts(info.Mounts),
    isRemade: (info.Labels[labels.remade] ?? "") !== "",
    carried: carriedVolumes(info.Labels),
  };
};

export const machineOf = (seen: SeenContainer, guest: GuestState): Machine => ({
  instance: seen.instance,
  fingerprint: seen.fingerprint,
  running: seen.state === "running",
  boots: guest.boots ?? seen.bootsAtCreation,
  containerId: seen.id,
  addresses: [...seen.addresses.values()].sort(),
  ...(seen.end === undefined ? {} : { end: seen.end }),
  ...(seen.hasScript ? { script: { exitCode: guest.exitCode } } : {}),
  ...(seen.substituted === undefined ? {} : { substitutedImage: seen.substituted }),
  ...(seen.isGuest ? {} : { ownEntrypoint: true }),
});

/** Pure: why a container does not run, from the engine's record of it; undefined for one that runs, or never did. */
export const endOf = ({
  Status,
  OOMKilled,
  ExitCode,
  Error: said,
}: Pick<Docker.ContainerInspectInfo["State"], "Status" | "OOMKilled" | "ExitCode" | "Error">): string | undefined => {
  if (Status === "paused") return "It is paused (docker pause).";
  if (Status === "removing" || Status === "dead") return "Its container is being removed.";
  if (Status !== "exited") return undefined;
  if (OOMKilled) return "It ran out of memory and was killed.";
  return `It stopped by itself, with exit code ${ExitCode}${said ? ` (${said})` : ""}.`;
};

/** The first address of each kind is the engine's to fix; the others are added in the guest (extra-addresses.ts). */
export const attachments = (owner: string, spec: MachineSpec, publicPool: string): Attachment[] => {
  const [publicAddress] = spec.publicAddresses;
  const [privateAddress] = spec.privateAddresses;
  const onPublic = { key: "public", name: networkName(owner, "public"), subnet: publicPool };
  const onRegion = { key: spec.region, name: networkName(owner, spec.region), subnet: spec.privateRange };
  const wanted: Attachment[] = [];
  if (publicAddress !== undefined) wanted.push({ ...onPublic, address: publicAddress });
  if (privateAddress !== undefined) wanted.push({ ...onRegion, address: privateAddress });
  return wanted.length > 0 ? wanted : [{ ...onPublic, address: undefined }];
};

export const extraAddresses = (spec: MachineSpec, publicPool: string): Array<{ beside: string; address: string; prefix: number }> =>
  (
    [
      [spec.publicAddresses, publicPool],
      [spec.privateAddresses, spec.privateRange],
    ] as const
  ).flatMap(([[first, ...others], cidr]) =>
    first === undefined ? [] : others.map((address) => ({ beside: first, address, prefix: parseCidr(cidr)?.prefix ?? 32 })),
  );

/** What the type of a machine limits, as the engine takes it at creation and for a machine that is there already. */
export const limitsOf = (spec: Pick<MachineSpec, "memoryMib" | "vcpus">, engineCpus: number) => {
  const memory = Math.max(leastMemoryMib, spec.memoryMib) * 2 ** 20;
  return { Memory: memory, MemorySwap: memory, NanoCpus: Math.min(spec.vcpus, engineCpus) * 1e9 };
};

/** Pure: everything the engine is asked for. No secret is in here, for all of it shows in `docker inspect`. */
export const createRequest = (
  owner: Owner,
  spec: MachineSpec,
  image: { tag: string; substituted?: string; isGuest: boolean },
  on: Attachment,
  mounts: EngineMounts,
  host: { cpus: number; resolvers: readonly string[]; scriptPatienceMs: number },
): Docker.ContainerCreateOptions => {
  return {
    name: containerName(owner.owner, spec.instance),
    Image: image.tag,
    Env: [`BACKLOT_FILE_SYSTEM=${spec.fingerprint}`, `BACKLOT_SCRIPT_PATIENCE=${host.scriptPatienceMs / 1000}`],
    Hostname: hostName(spec.label, spec.instance),
    // For the hand-over at the first start (guest-files.ts); closed after it.
    OpenStdin: image.isGuest,
    StdinOnce: image.isGuest,
    StopTimeout: stopGraceSeconds,
    Labels: {
      ...ownerLabels(owner),
      [labels.instance]: String(spec.instance),
      [labels.fingerprint]: spec.fingerprint,
      [labels.boots]: String(spec.boots),
      // Said even when empty: an image that was made from a machine has that machine's labels.
      [labels.script]: spec.script ? String(spec.script.id) : "",
      [labels.substituted]: image.substituted ?? "",
      [labels.remade]: "",
      [labels.carried]: "",
    },
    HostConfig: {
      NetworkMode: on.name,
      ...limitsOf(spec, host.cpus),
      Mounts: mountRequest(mounts),
      PidsLimit: pidsLimit,
      CapDrop: ["ALL"],
      CapAdd: serverCapabilities,
      Sysctls: strictArp,
      // The engine's own resolver in the container asks these, from inside the container's network.
      ...(host.resolvers.length > 0 ? { Dns: [...host.resolvers] } : {}),
      // Loops decide what runs; an engine that restarts machines by itself would boot what should be off.
      RestartPolicy: { Name: "no" },
      LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "2" } },
    },
    NetworkingConfig: { EndpointsConfig: { [on.name]: on.address === undefined ? {} : { IPAMConfig: { IPv4Address: on.address } } } },
  };
};

export type AttachmentStep = { disconnect: string } | { connect: Attachment };

/** Pure: the way from the networks a container has to those it should have. */
export const attachmentSteps = (has: ReadonlyMap<string, string>, wanted: readonly Attachment[]): AttachmentStep[] => {
  const right = (name: string, address: string) => wanted.some((one) => one.name === name && (one.address === undefined || one.address === address));
  const stays = [...has].filter(([name, address]) => right(name, address)).map(([name]) => name);
  return [
    ...[...has.keys()].filter((name) => !stays.includes(name)).map((name) => ({ disconnect: name })),
    ...wanted.filter((one) => !stays.includes(one.name)).map((one) => ({ connect: one })),
  ];
};

/** Pure: what has to happen for a machine to run, or not to, as the spec says. */
export const powerStep = (spec: MachineSpec, state: string, boots: number): "none" | "first-start" | "start" | "restart" | "unpause" | "stop" => {
  const live = isLive(state);
  if (!spec.running) return live ? "stop" : "none";
  if (!live) return state === "created" ? "first-start" : "start";
  if (boots < spec.boots) return "restart";
  return state === "paused" ? "unpause" : "none";
};
