import { existsSync } from "node:fs";
import { driverSuite, type Ground } from "../contract/driver-suite.js";
import { containerOf, describeDocker, docker, openPlot, run } from "../support/docker.js";

const ground = async (): Promise<Ground> => {
  const plot = await openPlot();
  const { owner } = plot.options;
  const others: Array<{ close(): Promise<void> }> = [];
  const inspect = async (instance: number) => (await containerOf(owner, instance))?.inspect();
  // Asked while the machine lives, so that its end can be looked for in /proc when the engine has forgotten it.
  const known = new Map<number, Set<number>>();
  const pidsOf = async (instance: number): Promise<number[]> => {
    const container = await containerOf(owner, instance);
    const pids = known.get(instance) ?? new Set();
    known.set(instance, pids);
    if ((await container?.inspect())?.State.Running) {
      const top = (await container?.top({ ps_args: "-eo pid" })) as { Processes: string[][] } | undefined;
      for (const [pid] of top?.Processes ?? []) pids.add(Number(pid));
    }
    return [...pids].filter((pid) => existsSync(`/proc/${pid}`));
  };

  return {
    driver: plot.driver,
    again: () => plot.again(),
    impatient: () => plot.again({ scriptPatienceMs: 500 }),
    other: async () => {
      const other = await openPlot();
      others.push(other);
      return { driver: other.driver, spec: other.spec };
    },
    spec: plot.spec,
    world: {
      pidsOf,
      startOf: async (instance) => {
        await pidsOf(instance);
        const state = (await inspect(instance))?.State;
        return state?.Running ? state.StartedAt : undefined;
      },
      isAlive: async (instance) => (await inspect(instance))?.State.Running ?? false,
      exists: async (instance) => (await containerOf(owner, instance)) !== undefined || (await pidsOf(instance)).length > 0,
      killHard: async (instance) => {
        await (await containerOf(owner, instance))?.kill({ signal: "SIGKILL" });
      },
      volume: {
        write: async (instance, label, text) => {
          const container = await containerOf(owner, instance);
          if (container) await run(container, ["sh", "-c", `echo '${text}' >/mnt/${label}/file`]);
        },
        read: async (instance, label) => {
          const container = await containerOf(owner, instance);
          const said = container && (await run(container, ["cat", `/mnt/${label}/file`]));
          return said?.exitCode === 0 ? said.text.trim() : undefined;
        },
      },
      touchHome: async (instance, name) => {
        const container = await containerOf(owner, instance);
        if (container) await run(container, ["touch", `/root/${name}`]);
      },
      removeBehind: async (instance) => {
        await (await containerOf(owner, instance))?.remove({ force: true });
      },
      leaveHalfMade: async (spec) => {
        // A crash right after the engine answered `create`: nothing was handed over yet, and only the first network is attached.
        await plot.driver.ensure({ ...spec, running: false });
        const made = await inspect(spec.instance);
        if (!made) throw new Error("nothing was made");
        for (const name of Object.keys(made.NetworkSettings.Networks).filter((network) => !network.endsWith("-public")))
          await docker.getNetwork(name).disconnect({ Container: made.Id, Force: true });
      },
    },
    close: async () => {
      await plot.close();
      for (const other of others) await other.close();
    },
  };
};

describeDocker("on a Docker engine", () => {
  driverSuite("docker", ground);
});
