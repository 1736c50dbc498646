import type Docker from "dockerode";
import { Fault } from "../../kernel/fault.js";
import { turns } from "../../kernel/turns.js";
import type { RuntimeVolumes, VolumeSpec, VolumeState } from "../driver.js";
import { type EngineMounts, engineMounts, isLive, type SeenContainer } from "./container.js";
import { asking, engineFault, statusOf, tolerating } from "./engine.js";
import { labels, type Owner, ownerLabels, volumeName } from "./labels.js";
import { holdersOf, plainForm, plainState } from "./plain-volumes.js";
import type { VolumeAnswer, VolumeHelper, VolumeTask } from "./volume-helper.js";

interface VolumesOptions {
  docker: Docker;
  owner: Owner;
  helper: VolumeHelper;
  /** This Backlot's machines, as the engine lists them; with those put aside when `all`. */
  containers(all?: boolean): Promise<SeenContainer[]>;
  /** Takes an engine volume out of a machine that is off. */
  letGo(container: SeenContainer, name: string): Promise<void>;
}

/** A start of a guest: its mounts last as long as this does. */
interface Run {
  container: string;
  startedAt: string;
  mounts: EngineMounts;
}

/** A guest that ends while its helper works is looked at again this often. */
const mostTries = 5;

const noteOf = ({ left, waits }: { left: string[]; waits: string[] }): string | null => {
  const notes = [
    ...(left.length === 0 ? [] : [`Still used in the machine it left, by ${left.join(", ")}: what they have open stays open for them.`]),
    ...(waits.length === 0
      ? []
      : [
          `Used by ${waits.join(", ")}, and this engine does not let a file system in use grow (it grants no SYS_RESOURCE): it grows when nothing uses it, at the latest at the machine's next boot.`,
        ]),
  ];
  return notes.length === 0 ? null : notes.join(" ");
};

/**
 * Volumes on a Docker engine: each is an engine volume of ours that holds one sparse file with an ext4 in it. The file is mounted in a
 * running guest by a helper (docker/volumes/backlot-volume.py). Where the engine refuses that, an engine volume is mounted as it is when its
 * machine boots (plain-volumes.ts).
 */
export const engineVolumes = ({ docker, owner, helper, containers, letGo }: VolumesOptions): RuntimeVolumes => {
  const inTurn = turns<number>();
  /** What was made true, by volume, so that looking again costs no helper. A mount ends with the run of its guest, and only so. */
  const settled = new Map<number, { mark: string; state: VolumeState }>();
  let isSwept = false;

  const nameOf = (volume: number): string => volumeName(owner.owner, volume);
  const diskOf = (volume: number): string => `/volumes/${nameOf(volume)}/${nameOf(volume)}.ext4`;

  const runOf = async (instance: number, seen: readonly SeenContainer[]): Promise<Run | undefined> => {
    let run: Run | undefined;
    for (const { id } of seen.filter((candidate) => candidate.instance === instance)) {
      await tolerating([404], async () => {
        const { State, Mounts } = await docker.getContainer(id).inspect();
        if (State.Running) run = { container: id, startedAt: State.StartedAt, mounts: engineMounts(Mounts) };
      });
    }
    return run;
  };

  /** Its labels; undefined when it is not there. */
  const look = async (volume: number): Promise<Record<string, string> | undefined> => {
    try {
      return (await docker.getVolume(nameOf(volume)).inspect()).Labels ?? {};
    } catch (error) {
      if (statusOf(error) === 404) return undefined;
      throw error;
    }
  };
  const isPlain = (on: Record<string, string> | undefined): boolean => on?.[labels.volumeForm] === plainForm;

  /** A volume is plain when nothing else is to be had, and stays so; a copy is what its source is. */
  const make = async ({ volume, copyOf }: VolumeSpec): Promise<{ on: Record<string, string>; refusal: string | undefined }> => {
    const name = nameOf(volume);
    let on = await look(volume);
    let refusal: string | undefined;
    if (!on) {
      if (copyOf === null) refusal = await helper.refusal();
      const form = refusal !== undefined || (copyOf !== null && isPlain(await look(copyOf))) ? { [labels.volumeForm]: plainForm } : {};
      await docker.createVolume({ Name: name, Labels: { ...ownerLabels(owner), [labels.volume]: String(volume), ...form } });
      on = await look(volume);
    }
    if (on?.[labels.owner] === owner.owner) return { on, refusal };
    throw new Fault("unavailable", [{ reason: `The engine volume ${name} is there and is not this Backlot's. Rename or remove it.` }]);
  };

  /** Asked with an engine volume that is not there, the engine would make one without our label. */
  const requireSource = async (volume: number): Promise<void> => {
    if (await look(volume)) return;
    throw new Fault("unavailable", [{ reason: `Volume ${volume}, which is to be copied, is not there any more.` }]);
  };

  /** @param refusal why nothing else was to be had, if it was just made */
  const ensurePlain = async (spec: VolumeSpec, run: Run | undefined, refusal: string | undefined): Promise<VolumeState> => {
    const name = nameOf(spec.volume);
    if (spec.copyOf !== null) await helper.copy(nameOf(spec.copyOf), name);
    const others = holdersOf(name, await containers(true)).filter(({ state, instance }) => isLive(state) && instance !== spec.instance);
    const box = run && docker.getContainer(run.container);
    const state = await plainState(spec, box, run?.mounts.get(name), [...new Set(others.map(({ instance }) => instance))]);
    if (refusal === undefined) return state;
    const made = `An engine volume, mounted when its instance boots; size: not enforced. This engine refuses the helper that does more (${refusal}).`;
    return { ...state, note: [made, state.note ?? ""].join(" ").trim() };
  };

  const ensure = async (spec: VolumeSpec): Promise<VolumeState> => {
    const path = `/mnt/${spec.label}`;
    for (let tries = 1; ; tries += 1) {
      const seen = await containers();
      const run = spec.instance === null ? undefined : await runOf(spec.instance, seen);
      const mark = JSON.stringify([spec.bytes, spec.instance, ...(run ? [path, run] : [])]);
      const known = settled.get(spec.volume);
      if (known?.mark === mark) return known.state;
      settled.delete(spec.volume);
      const { on, refusal } = await make(spec);
      if (spec.copyOf !== null) await requireSource(spec.copyOf);
      if (isPlain(on)) {
        const state = await ensurePlain(spec, run, refusal);
        // What waits for a boot is looked at again.
        if (state.note === null) settled.set(spec.volume, { mark, state });
        return state;
      }
      const task: VolumeTask = {
        do: "ensure",
        disk: diskOf(spec.volume),
        copyOf: spec.copyOf === null ? null : diskOf(spec.copyOf),
        bytes: spec.bytes,
        into: run?.container ?? null,
        path,
        containers: seen.map(({ id }) => id),
      };
      // A copy that is cut off leaves its source frozen; the source's next look mends that, and must not be spared.
      if (spec.copyOf !== null) settled.delete(spec.copyOf);
      const answer: VolumeAnswer = await helper.run(task, [spec.volume, ...(spec.copyOf === null ? [] : [spec.copyOf])].map(nameOf));
      if ("gone" in answer) {
        if (tries < mostTries) continue;
        throw new Fault("unavailable", [{ reason: `Instance ${spec.instance} does not stay up for as long as a mount takes.` }]);
      }
      const state: VolumeState = { path: run ? path : null, note: noteOf(answer) };
      // What waits to grow is asked for again.
      if (answer.waits.length === 0) settled.set(spec.volume, { mark, state: { ...state, note: null } });
      return state;
    }
  };

  const remove = async (volume: number): Promise<void> => {
    settled.delete(volume);
    const name = nameOf(volume);
    const on = await look(volume);
    if (on?.[labels.owner] !== owner.owner) return;
    if (isPlain(on)) await releasePlain(name);
    else await helper.run({ do: "release", disk: diskOf(volume), containers: (await containers()).map(({ id }) => id) }, [name]);
    await tolerating([404], () => docker.getVolume(name).remove());
  };

  const releasePlain = async (name: string): Promise<void> => {
    const holders = holdersOf(name, await containers(true));
    const running = holders.find(({ state }) => isLive(state));
    if (running)
      throw new Fault("unavailable", [
        { reason: `Instance ${running.instance} has it until that boots next, or is shut down: then it is removed, with its data.` },
      ]);
    for (const holder of holders) await letGo(holder, name);
  };

  return {
    list: async () => {
      if (!isSwept) isSwept = await helper.sweep();
      const filters = { label: [`${labels.owner}=${owner.owner}`, labels.volume] };
      const { Volumes } = await asking("list its volumes", () => docker.listVolumes({ filters }));
      return (Volumes ?? []).map((row) => Number(row.Labels?.[labels.volume])).filter((id) => Number.isSafeInteger(id) && id > 0);
    },
    ensure: (spec) =>
      inTurn(spec.volume, async () => {
        try {
          return await ensure(spec);
        } catch (error) {
          throw engineFault(`bring volume ${spec.volume} to its wanted state`, error);
        }
      }),
    remove: (volume) =>
      inTurn(volume, async () => {
        try {
          await remove(volume);
        } catch (error) {
          throw engineFault(`remove volume ${volume}`, error);
        }
      }),
  };
};
