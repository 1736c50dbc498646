import { readdirSync, readFileSync } from "node:fs";
import { mkdir, mkdtemp, readFile, rm, stat, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { MachineSpec, RuntimeDriver } from "#backlot/runtime/driver.js";
import { type ProcessDriverOptions, processDriver } from "#backlot/runtime/process/driver.js";
import type { Ground } from "../contract/driver-suite.js";
import { until } from "./until.js";

/** A look at /proc that owes nothing to the driver's own. */
export const processesWith = (...variables: string[]): number[] =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      const environ = environOf(pid);
      return variables.every((variable) => environ.includes(variable));
    });

/** `NAME=value` entries; empty for a process that is gone or a zombie. */
export const environOf = (pid: number): string[] => {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8").split("\0");
  } catch {
    return [];
  }
};

export const statOf = (pid: number): { state: string; session: number; start: string } | undefined => {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "latin1");
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    return { state: fields[0] ?? "", session: Number(fields[3]), start: fields[19] ?? "" };
  } catch {
    return undefined;
  }
};

// Each test process, and each ground in it, has 16 addresses of its own: suites may run beside each other. Below 192.168.64.0, where
// test/support/cloud.ts begins.
let grounds = 0;
const block = (): { a: number; b: number } => {
  const index = (process.pid * 16 + grounds++) % 1024;
  return { a: index >> 4, b: (index & 15) * 16 };
};

export interface ProcessGround extends Ground {
  owner: string;
  stateFolder: string;
  /** The driver with other options over the same state. */
  driverWith(options: Partial<ProcessDriverOptions>): RuntimeDriver;
}

/** May this user bind port 80? Asked of the kernel, on a loopback address that no machine has. */
const mayBindPort80 = (address: string): Promise<boolean> =>
  new Promise((resolve) => {
    const server = createServer();
    server.once("error", () => resolve(false));
    server.listen(80, address, () => server.close(() => resolve(true)));
  });

export const processGround = async (): Promise<ProcessGround> => {
  const made: Array<{ owner: string; folder: string; drivers: RuntimeDriver[] }> = [];

  const backlot = async () => {
    const folder = await mkdtemp(join(tmpdir(), "backlot-process-"));
    const owner = `test-${folder.slice(-6)}`;
    const { a, b } = block();
    const drivers: RuntimeDriver[] = [];
    made.push({ owner, folder, drivers });
    const driverWith = (options: Partial<ProcessDriverOptions> = {}): RuntimeDriver => {
      const driver = processDriver({
        owner,
        stateFolder: folder,
        privatePool: `192.168.${a}.${b}/28`,
        publicPool: `198.18.${a}.${b}/28`,
        allowHostScripts: false,
        ...options,
      });
      drivers.push(driver);
      return driver;
    };
    const spec = (overrides: Partial<MachineSpec> = {}): MachineSpec => {
      const instance = overrides.instance ?? 1;
      return {
        instance,
        label: `web-${instance}`,
        region: "us-east",
        privateRange: `192.168.${a}.${b}/28`,
        image: "cloud/debian12",
        running: true,
        boots: 1,
        memoryMib: 1024,
        vcpus: 1,
        publicAddresses: [`198.18.${a}.${b + instance}`],
        privateAddresses: [`192.168.${a}.${b + instance}`],
        rootPassHash: null,
        authorizedKeys: [],
        script: null,
        fingerprint: "first",
        ...overrides,
      };
    };
    return { owner, folder, driverWith, spec, unusedAddress: `127.192.${a}.${b + 15}` };
  };

  const ours = await backlot();
  const folderOf = (instance: number): string => join(ours.folder, "machines", String(instance));
  const pidsOf = (instance: number): number[] => processesWith(`BACKLOT_OWNER=${ours.owner}`, `BACKLOT_INSTANCE=${instance}`);
  const leaderOf = (instance: number): number | undefined =>
    pidsOf(instance).find((pid) => statOf(pid)?.session === pid && environOf(pid).includes("BACKLOT_ROLE=supervisor"));
  const killAll = async (variables: string[]): Promise<void> => {
    await until(
      () => {
        const pids = processesWith(...variables);
        for (const pid of pids) {
          try {
            process.kill(pid, "SIGKILL");
          } catch {} // it ended meanwhile
        }
        return pids.length === 0;
      },
      { what: `the end of every process with ${variables.join(", ")}` },
    );
  };
  const killHard = (instance: number): Promise<void> => killAll([`BACKLOT_OWNER=${ours.owner}`, `BACKLOT_INSTANCE=${instance}`]);

  return {
    owner: ours.owner,
    stateFolder: ours.folder,
    driver: ours.driverWith(),
    driverWith: ours.driverWith,
    privilegedPorts: await mayBindPort80(ours.unusedAddress),
    again: async () => ours.driverWith(),
    impatient: async () => ours.driverWith({ scriptPatienceMs: 500 }),
    other: async () => {
      const other = await backlot();
      return { driver: other.driverWith(), spec: other.spec };
    },
    spec: ours.spec,
    world: {
      pidsOf: async (instance) => pidsOf(instance),
      startOf: async (instance) => {
        const leader = leaderOf(instance);
        return leader === undefined ? undefined : `${leader} ${statOf(leader)?.start}`;
      },
      isAlive: async (instance) => leaderOf(instance) !== undefined,
      exists: async (instance) =>
        pidsOf(instance).length > 0 ||
        (await stat(folderOf(instance)).then(
          () => true,
          () => false,
        )),
      killHard,
      volume: {
        write: (instance, label, text) => writeFile(join(folderOf(instance), "mnt", label, "file"), text),
        read: (instance, label) => readFile(join(folderOf(instance), "mnt", label, "file"), "utf8").catch(() => undefined),
      },
      touchHome: (instance, name) => writeFile(join(folderOf(instance), "root", name), ""),
      removeBehind: async (instance) => {
        await killHard(instance);
        await rm(folderOf(instance), { recursive: true, force: true });
      },
      // The folder is there, its record (written last) is not, and nothing was started.
      leaveHalfMade: async (spec) => {
        await mkdir(join(folderOf(spec.instance), "services"), { recursive: true });
      },
    },
    close: async () => {
      for (const { owner, folder, drivers } of made) {
        for (const driver of drivers) await driver.close();
        await killAll([`BACKLOT_OWNER=${owner}`]);
        await rm(folder, { recursive: true, force: true });
      }
    },
  };
};
