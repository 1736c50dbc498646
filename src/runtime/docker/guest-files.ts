import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import type Docker from "dockerode";
import { extract, pack } from "tar-stream";
import type { MachineSpec } from "../driver.js";
import { statusOf } from "./engine.js";

/** Where the guest keeps what driver and boot program tell each other (docker/guest/backlot-boot). */
const keptFolder = "/var/lib/backlot";

interface GuestFile {
  path: string;
  text: string | Buffer;
  mode: number;
}

/** What only the guest knows. */
export interface GuestState {
  /** The `boots` of its last start; undefined while it has not taken what its first start hands over. */
  boots: number | undefined;
  /** null while the deploy script has not ended. */
  exitCode: number | null;
  /** Addresses beyond the first of each network, as last added, space separated; they die with the network namespace. */
  extraAddresses: string;
}

// A NUL cannot be in a variable or a file of shell text.
const quoted = (value: string): string => `'${value.replaceAll("\0", "").replaceAll("'", `'\\''`)}'`;

const assignments = (variables: Readonly<Record<string, string>>): string =>
  Object.entries(variables)
    .filter(([name]) => /^[A-Za-z_][A-Za-z0-9_]*$/.test(name))
    .map(([name, value]) => `${name}=${quoted(value)}\n`)
    .join("");

const userDataFile = "etc/backlot/user-data";

/** The environment that services and deploy scripts share on every runtime. */
const machineEnvironment = (spec: MachineSpec): string =>
  assignments({
    BACKLOT_INSTANCE: String(spec.instance),
    BACKLOT_LABEL: spec.label,
    BACKLOT_VOLUMES: (spec.volumes ?? []).map(({ label }) => label).join(" "),
    BACKLOT_PUBLIC_ADDRESS: spec.publicAddresses.join(" "),
    BACKLOT_PRIVATE_ADDRESS: spec.privateAddresses.join(" "),
    BACKLOT_BIND_ADDRESSES: "0.0.0.0",
    BACKLOT_MINIMAL: spec.minimal ? "1" : "",
    BACKLOT_USER_DATA: spec.userData ? `/${userDataFile}` : "",
  });

/** Put by itself when addresses change under a running machine; its services read it at their next start. */
export const environmentFiles = (spec: MachineSpec): GuestFile[] => [
  { path: "etc/backlot/machine.env", text: machineEnvironment(spec), mode: 0o644 },
];

const userDataFiles = (spec: MachineSpec): GuestFile[] =>
  spec.userData ? [{ path: userDataFile, text: Buffer.from(spec.userData, "base64"), mode: 0o600 }] : [];

/** Taken, and removed, at the next start. */
export const rootPassFiles = (hash: string): GuestFile[] => [{ path: "etc/backlot/root-pass", text: `root:${hash}\n`, mode: 0o600 }];

/** What changes from start to start. Put while the machine is stopped: a crash after it costs no boot that was asked for. */
export const startFiles = (spec: MachineSpec): GuestFile[] => [
  ...environmentFiles(spec),
  ...userDataFiles(spec),
  { path: "var/lib/backlot/boots", text: `${spec.boots}\n`, mode: 0o644 },
];

/** What a new machine reads at its first start. Secrets travel here and nowhere else: `docker inspect` shows no file. */
export const firstFiles = (spec: MachineSpec): GuestFile[] => {
  const files = [...environmentFiles(spec), ...userDataFiles(spec), ...(spec.rootPassHash === null ? [] : rootPassFiles(spec.rootPassHash))];
  if (spec.authorizedKeys.length > 0)
    files.push({ path: "root/.ssh/authorized_keys", text: spec.authorizedKeys.map((key) => `${key}\n`).join(""), mode: 0o600 });
  if (spec.script) {
    files.push({ path: "etc/backlot/script", text: spec.script.text.replaceAll("\r\n", "\n"), mode: 0o700 });
    files.push({ path: "etc/backlot/script.env", text: assignments(spec.script.data), mode: 0o600 });
  }
  // Last, and renamed by the boot program when all is there: half a hand-over is none.
  files.push({ path: "var/lib/backlot/.boots", text: `${spec.boots}\n`, mode: 0o644 });
  return files;
};

export const extraAddressesFile = (addresses: string): GuestFile[] => [
  { path: "var/lib/backlot/extra-addresses", text: `${addresses}\n`, mode: 0o644 },
];

const archiveOf = (files: readonly GuestFile[]): Promise<Buffer> => {
  const archive = pack();
  for (const file of files) {
    if (file.path.startsWith("root/.ssh/")) archive.entry({ name: "root/.ssh", type: "directory", mode: 0o700 });
    archive.entry({ name: file.path, mode: file.mode }, file.text);
  }
  archive.finalize();
  return buffer(archive as unknown as Readable);
};

/** Puts files into a container, running or not; one request. */
export const putFiles = async (container: Docker.Container, files: readonly GuestFile[]): Promise<void> => {
  await container.putArchive(await archiveOf(files), { path: "/" });
};

/**
 * Gives a container that was never started what its boot program reads first, on standard input. The engine holds it until the start, so a
 * crash on either side of the start loses nothing. `putArchive` would do, but for a stopped container the engine runs itself anew to unpack:
 * 40 to 60 ms of every boot.
 */
export const handOver = async (container: Docker.Container, files: readonly GuestFile[]): Promise<void> => {
  const [archive, input] = await Promise.all([archiveOf(files), container.attach({ stream: true, stdin: true, hijack: true })]);
  // The engine ends the connection when the guest has read all, or is gone: then its next boot is a first one again.
  input.on("error", () => {});
  input.resume();
  input.end(archive);
};

/** Is it gone, or going? While the engine takes a container away, its refusals are errors of all kinds (500, with words of its storage). */
const isGoing = async (container: Docker.Container): Promise<boolean> => {
  try {
    return ["removing", "dead"].includes((await container.inspect()).State.Status);
  } catch (error) {
    if (statusOf(error) === 404) return true;
    throw error;
  }
};

/** Whoever is root in a guest may put anything there; a mark of ours is a line. */
const mostMarkBytes = 4 * 1024;
const mostKeptBytes = 256 * 1024;
/** They become part of a command with more rights than the guest has (extra-addresses.ts), so addresses and nothing else. */
const isAddressNote = (word: string): boolean => /^[\d.]{7,15}\/\d{1,2}$/.test(word);
const markNames = ["boots", "script-exit", "extra-addresses"] as const;

/** The first bytes of the files of an archive by their names; undefined when there is more than `mostKeptBytes` of it, and no more is read. */
export const marksIn = async (container: Docker.Container, path: string): Promise<Map<string, string> | undefined> => {
  const texts = new Map<string, string>();
  let archive: Readable;
  try {
    archive = (await container.getArchive({ path })) as Readable;
  } catch (error) {
    if (statusOf(error) !== 404 && !(await isGoing(container))) throw error;
    return texts;
  }
  let left = mostKeptBytes;
  const bounded = async function* (): AsyncGenerator<Buffer> {
    for await (const chunk of archive as AsyncIterable<Buffer>) {
      left -= chunk.length;
      if (left < 0) return;
      yield chunk;
    }
  };
  const reader = extract();
  // The pipeline tells of a failure. It, and the entry it was at, fail once more after that; without listeners that would end the process.
  reader.on("error", () => {});
  reader.on("entry", (header, stream, next) => {
    const chunks: Buffer[] = [];
    stream.on("error", () => {});
    stream.on("data", (chunk) => {
      if (header.size !== undefined && header.size <= mostMarkBytes) chunks.push(chunk as Buffer);
    });
    stream.on("end", () => {
      texts.set(header.name.split("/").pop() ?? "", Buffer.concat(chunks).toString().trim());
      next();
    });
  });
  try {
    await pipeline(bounded, reader as unknown as NodeJS.WritableStream);
  } catch (error) {
    // Less than nothing left: cut off by us, in the middle of a file.
    if (left >= 0 && !(await isGoing(container))) throw error;
    if (left >= 0) texts.clear();
  } finally {
    archive.destroy();
  }
  return left < 0 ? undefined : texts;
};

/**
 * Reads what the guest says about itself; one request, unless somebody fills the folder. A container that is gone or going, or has not said
 * anything, gives an empty state.
 */
export const guestState = async (container: Docker.Container): Promise<GuestState> => {
  let texts = await marksIn(container, keptFolder);
  if (texts === undefined) {
    texts = new Map();
    for (const name of markNames) for (const [, text] of (await marksIn(container, `${keptFolder}/${name}`)) ?? []) texts.set(name, text);
  }
  const marks = texts;
  const numberIn = (name: (typeof markNames)[number]) => (/^\d{1,15}$/.test(marks.get(name) ?? "") ? Number(marks.get(name)) : undefined);
  const addresses = (marks.get("extra-addresses") ?? "").split(" ").filter(isAddressNote);
  return { boots: numberIn("boots"), exitCode: numberIn("script-exit") ?? null, extraAddresses: addresses.join(" ") };
};
