import { randomInt, randomUUID } from "node:crypto";
import { networkInterfaces } from "node:os";
import Docker from "dockerode";
import { describe } from "vitest";
import { formatCidr, formatIpv4, overlaps, parseCidr, parseIpv4, type Range } from "#backlot/kernel/addresses.js";
import { type DockerDriverOptions, dockerDriver } from "#backlot/runtime/docker/driver.js";
import { engineAnswers } from "#backlot/runtime/docker/engine.js";
import { ownedThings, removeOwned } from "#backlot/runtime/docker/orphans.js";
import type { MachineSpec, RuntimeDriver } from "#backlot/runtime/driver.js";

const required = process.env.BACKLOT_REQUIRE_DOCKER === "1";
const engine = await engineAnswers();

/** A suite that needs an engine: skipped without one (engine-notice.ts says so, once), run (and so failed) all the same with BACKLOT_REQUIRE_DOCKER=1. */
export const describeDocker = (name: string, body: () => void): void => {
  describe.runIf(required || !("reason" in engine))(name, body);
};

export const docker = new Docker();

/** A /24 of `pool` that no network on the engine has; taken at random so that test files side by side do not meet. */
const freeRange = async (pool: string): Promise<Range> => {
  const whole = parseCidr(pool);
  if (!whole) throw new Error(`${pool} is no CIDR`);
  const networks = (await docker.listNetworks()).flatMap((network) =>
    (network.IPAM?.Config ?? []).flatMap((config) => parseCidr(config.Subnet ?? "") ?? []),
  );
  // Another engine of a test has its bridges here too.
  const interfaces = Object.values(networkInterfaces()).flatMap((addresses) =>
    (addresses ?? []).flatMap(({ address, cidr }) => {
      const base = parseIpv4(address);
      const size = 2 ** (32 - Number(cidr?.split("/")[1]));
      return base === undefined ? [] : [{ base: base - (base % size), prefix: 32 - Math.log2(size), size }];
    }),
  );
  const taken = [...networks, ...interfaces];
  const count = whole.size / 256;
  const first = randomInt(count);
  for (let step = 0; step < count; step += 1) {
    const range = { base: whole.base + ((first + step) % count) * 256, prefix: 24, size: 256 };
    if (!taken.some((other) => overlaps(other, range))) return range;
  }
  throw new Error(`every /24 of ${pool} is taken`);
};

/** One Backlot's things on the engine, for a test: an owner, pools nobody has, drivers, and the removal of it all. */
export interface Plot {
  options: DockerDriverOptions;
  driver: RuntimeDriver;
  again(overrides?: Partial<DockerDriverOptions>): Promise<RuntimeDriver>;
  spec(overrides?: Partial<MachineSpec>): MachineSpec;
  close(): Promise<void>;
}

/** The `index`-th address (from .10 on) of a /24. */
export const addressIn = (cidr: string, index: number): string => formatIpv4((parseCidr(cidr)?.base ?? 0) + 10 + index);

export const openPlot = async (overrides: Partial<DockerDriverOptions> = {}): Promise<Plot> => {
  const owner = randomUUID();
  const options: DockerDriverOptions = {
    owner,
    stateFolder: `/tmp/backlot-test-${owner}`,
    privatePool: formatCidr(await freeRange("192.168.128.0/17")),
    publicPool: formatCidr(await freeRange("198.18.0.0/15")),
    ...overrides,
  };
  const drivers: RuntimeDriver[] = [];
  const again = async (changes: Partial<DockerDriverOptions> = {}) => {
    const driver = await dockerDriver({ ...options, ...changes });
    drivers.push(driver);
    return driver;
  };
  return {
    options,
    driver: await again(),
    again,
    spec: (changes = {}) => {
      const instance = changes.instance ?? 1;
      return {
        instance,
        label: `test-${instance}`,
        region: "us-east",
        privateRange: options.privatePool,
        image: "cloud/debian12",
        running: true,
        boots: 1,
        memoryMib: 256,
        vcpus: 1,
        publicAddresses: [addressIn(options.publicPool, instance)],
        privateAddresses: [addressIn(options.privatePool, instance)],
        rootPassHash: null,
        authorizedKeys: [],
        script: null,
        fingerprint: "first",
        ...changes,
      };
    },
    close: async () => {
      for (const driver of drivers) await driver.close();
      for (const things of await ownedThings()) if (things.owner === owner) await removeOwned(things);
    },
  };
};

/** The one container of an instance, found by its labels and not through the driver. */
export const containerOf = async (owner: string, instance: number): Promise<Docker.Container | undefined> => {
  const label = [`io.backlot.owner=${owner}`, `io.backlot.instance=${instance}`];
  const [row] = await docker.listContainers({ all: true, filters: { label } });
  return row && docker.getContainer(row.Id);
};

/** Runs a command in a container; its output (both streams) and exit code. */
export const run = async (container: Docker.Container, command: string[]): Promise<{ text: string; exitCode: number }> => {
  const exec = await container.exec({ Cmd: command, AttachStdout: true, AttachStderr: true, Tty: true });
  const stream = await exec.start({ Tty: true });
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return { text: Buffer.concat(chunks).toString().replaceAll("\r\n", "\n"), exitCode: (await exec.inspect()).ExitCode ?? -1 };
};
