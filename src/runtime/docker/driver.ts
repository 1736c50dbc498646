import { setTimeout as pause } from "node:timers/promises";
import { contains, gatewayOf, parseCidr } from "../../kernel/addresses.js";
import { Closers } from "../../kernel/closers.js";
import { Fault } from "../../kernel/fault.js";
import { turns } from "../../kernel/turns.js";
import { type Machine, type MachineSpec, type RuntimeDriver, scriptPatienceMs } from "../driver.js";
import { bootLog } from "./boot-log.js";
import { dockerCapabilities } from "./capabilities.js";
import { engineCaptures } from "./captures.js";
import type { EngineConnection } from "./connection.js";
import {
  attachmentSteps,
  attachments,
  createRequest,
  extraAddresses,
  isLive,
  limitsOf,
  machineOf,
  powerStep,
  type SeenContainer,
  seenContainer,
  stopGraceSeconds,
} from "./container.js";
import { counterReader } from "./counters.js";
import { asking, engineFault, engineOutage, openEngine, statusOf, tolerating } from "./engine.js";
import { watchEngine } from "./events.js";
import { applyExtraAddresses, extraAddressesNote } from "./extra-addresses.js";
import { fileSystems } from "./file-systems.js";
import { environmentFiles, firstFiles, type GuestState, guestState, handOver, putFiles, rootPassFiles, startFiles } from "./guest-files.js";
import { defaultImageMap, guestImages } from "./guest-image.js";
import { type ImageMap, isOwnGuestImage } from "./images.js";
import { containerName, labels, parkedName } from "./labels.js";
import { engineNetworks } from "./networks.js";
import { isSameMounts, isTaken, ownMounts, plainMounts } from "./plain-volumes.js";
import { type DialMode, engineRelays } from "./relays.js";
import { engineRemakes } from "./remakes.js";
import { settledGuests } from "./settled-guests.js";
import { strangerFault } from "./strangers.js";
import { helpersOf, volumeHelper } from "./volume-helper.js";
import { engineVolumes } from "./volumes.js";

export interface DockerDriverOptions {
  /** The state file's own id. */
  owner: string;
  /** Absolute; on every label, so that `clean` can tell whose things are left behind. */
  stateFolder: string;
  /** CIDR that every region's private range lies in. */
  privatePool: string;
  /** CIDR of the network of public addresses. */
  publicPool: string;
  /** Slug to boot when the asked one cannot be had. */
  imageFallback?: string | undefined;
  /** OCI references by slug, booted as they are, with their own entrypoint. None unless given. */
  ownImages?: Readonly<Record<string, string>> | undefined;
  /** `fixtures/oci-images.json` unless given. */
  imageMap?: ImageMap | undefined;
  /** How to reach the engine; the usual places unless given. */
  docker?: EngineConnection | undefined;
  /** The name servers of a machine behind these gateways; empty: the engine's own. Asked when its networks stand. */
  guestResolvers?: ((gateways: readonly string[]) => Promise<readonly string[]>) | undefined;
  /** How private addresses are reached from here; `auto` unless given. */
  dial?: DialMode | undefined;
  /** How long services wait for a deploy script that goes on; `scriptPatienceMs` of runtime/driver.ts by default. */
  scriptPatienceMs?: number | undefined;
  /** False: volumes do without loop devices, as on an engine that grants none; they are folders then. */
  loopDevices?: boolean | undefined;
  /** A line of the making of a guest image, for people. */
  onProgress?: ((line: string) => void) | undefined;
  /** Something went wrong that no call could be told of. */
  onProblem?: ((reason: string) => void) | undefined;
}

/** The guest whose tools are used beside a machine that may have none. */
const toolsImage = "cloud/debian12";
const freshGuest: GuestState = { boots: undefined, exitCode: null, extraAddresses: "" };
/** How long a machine waits for another of ours to let go of an address that was assigned to it, in ms. */
const releaseMs = 10_000;
/**
 * Made anew rather than started: one that is being removed cannot be kept from it, a dead one the engine failed to remove, and one that never
 * took what its first start hands over (a crash came between) has nothing on its disk.
 */
const isSpent = ({ state }: SeenContainer, { boots }: GuestState, { running }: MachineSpec): boolean =>
  state === "removing" || state === "dead" || (running && boots === undefined && (state === "created" || state === "exited"));

/** One machine an instance: the one that runs, else the one that has the instance's name, for the others are put aside. */
const oneEach = (containers: readonly SeenContainer[]): SeenContainer[] => {
  const rank = ({ state, name }: SeenContainer): number => (isLive(state) ? 2 : 0) + (/^backlot-[^-]*-\d+$/.test(name) ? 1 : 0);
  const best = new Map<number, SeenContainer>();
  for (const one of containers) {
    const other = best.get(one.instance);
    if (!other || rank(one) > rank(other)) best.set(one.instance, one);
  }
  return [...best.values()];
};

/** Stops waiting when the signal says so; what was begun (the making of an image) goes on, for whoever asks next. */
const givenUp = <T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> => {
  if (!signal) return work;
  return new Promise((resolve, reject) => {
    const giveUp = (): void => reject(signal.reason);
    if (signal.aborted) giveUp();
    else signal.addEventListener("abort", giveUp, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", giveUp));
  });
};

/** How many containers are asked for their state at once. */
const askedAtOnce = 8;

/**
 * The runtime on a Docker engine (API 1.41 or newer).
 * @throws Fault `unavailable` when no engine answers
 */
export const dockerDriver = async (options: DockerDriverOptions): Promise<RuntimeDriver> => {
  const docker = openEngine(options.docker);
  const { owner, publicPool } = options;
  const pools = [options.privatePool, publicPool].flatMap((cidr) => parseCidr(cidr) ?? []);
  const networks = engineNetworks(docker, options);
  const images = guestImages(options.docker, {
    imageMap: options.imageMap ?? (await defaultImageMap()),
    imageFallback: options.imageFallback,
    owner,
    ownImages: options.ownImages ?? {},
    onProgress: options.onProgress ?? (() => {}),
  });
  const { NCPU: engineCpus } = (await asking("describe itself", () => docker.info())) as { NCPU: number };
  const leftHelpers = await helpersOf(docker, options);
  const inTurn = turns<number>();
  const guests = settledGuests();
  const counters = counterReader(parseCidr(publicPool) ?? { base: 0, prefix: 32, size: 0 });
  const closers = new Closers();

  const copies = fileSystems(docker, owner);
  const captures = engineCaptures(docker, options, copies);
  const remakes = engineRemakes(docker, options);
  /** Containers that stand still for a moment because a copy of them is made: nobody is to think that they died. */
  const still = new Set<string>();
  const standingStill = async (id: string, work: () => Promise<void>): Promise<void> => {
    still.add(id);
    try {
      await work();
    } finally {
      still.delete(id);
    }
  };
  const asRunning = (one: SeenContainer): SeenContainer => (one.state === "paused" && still.has(one.id) ? { ...one, state: "running" } : one);

  const seen = async (instance?: number, fingerprint?: string): Promise<SeenContainer[]> => {
    const label = [
      `${labels.owner}=${owner}`,
      instance === undefined ? labels.instance : `${labels.instance}=${instance}`,
      ...(fingerprint === undefined ? [] : [`${labels.fingerprint}=${fingerprint}`]),
    ];
    const rows = await asking("list containers", () => docker.listContainers({ all: true, filters: { label } }));
    return rows.flatMap((row) => seenContainer(row) ?? []);
  };
  const handle = ({ id }: { id: string }) => docker.getContainer(id);
  /** What is on its disk says nothing of a machine that was never started, unless it was made from that disk. */
  const hasBegun = ({ state, isRemade }: SeenContainer): boolean => state !== "created" || isRemade;
  const helper = volumeHelper({
    docker,
    owner: options,
    image: async () => (await images.ensure(toolsImage)).tag,
    loopDevices: options.loopDevices ?? true,
    left: leftHelpers.map(({ Id }) => Id),
  });

  const relays = engineRelays({
    docker,
    owner: options,
    mode: options.dial ?? "auto",
    privatePool: options.privatePool,
    image: async () => (await images.ensure(toolsImage)).tag,
    onProblem: options.onProblem ?? (() => {}),
  });
  closers.add(() => relays.close());

  const removeContainer = async (container: SeenContainer): Promise<void> => {
    await asking("remove a container", () =>
      // 409: somebody else's removal is under way; waiting for it is the same.
      tolerating([404, 409], () => handle(container).remove({ force: true, v: true })),
    );
    await tolerating([404], () => handle(container).wait({ condition: "removed" }));
    await asking("remove what rests with a container", () => remakes.drop(container));
  };

  /**
   * An address that was just assigned here is still another machine's for a moment; two that exchange theirs both let go first. True when
   * there was something to wait for.
   */
  const released = async (instance: number, addresses: ReadonlyArray<string | undefined>): Promise<boolean> => {
    const isHeld = async () =>
      (await seen()).some(
        (one) => one.instance !== instance && one.state === "running" && [...one.addresses.values()].some((address) => addresses.includes(address)),
      );
    const deadline = Date.now() + releaseMs;
    let waited = false;
    while ((await isHeld()) && Date.now() < deadline) {
      waited = true;
      await pause(100);
    }
    return waited;
  };

  const attach = async (container: SeenContainer, spec: MachineSpec): Promise<boolean> => {
    const steps = attachmentSteps(container.addresses, attachments(owner, spec, publicPool));
    for (const step of steps) {
      if ("disconnect" in step) {
        await tolerating([404], () => docker.getNetwork(step.disconnect).disconnect({ Container: container.id, Force: true }));
      } else {
        const { key, subnet, address } = step.connect;
        await released(container.instance, [address]);
        const EndpointConfig = address === undefined ? {} : { IPAMConfig: { IPv4Address: address } };
        const connect = async () => docker.getNetwork(await networks.ensure(key, subnet)).connect({ Container: container.id, EndpointConfig });
        await connect().catch((error) => {
          // Its last other machine was just removed, and the network with it.
          if (statusOf(error) !== 404) throw error;
          return connect();
        });
      }
    }
    return steps.length > 0;
  };

  const create = async (spec: MachineSpec, slug: string, signal: AbortSignal | undefined): Promise<SeenContainer> => {
    const wanted = attachments(owner, spec, publicPool);
    const [on] = wanted;
    if (!on) throw new Error("a machine is always on a network");
    // The image first: when it cannot be had, no network may be left behind or still be in the making.
    const copy = await copies.tagOf(spec.fingerprint);
    const image = copy === undefined ? await givenUp(images.ensure(slug), signal) : await images.existing(copy);
    const ensureNetworks = async () => {
      for (const one of wanted) await networks.ensure(one.key, one.subnet);
    };
    await ensureNetworks();
    const gateways = wanted.flatMap(({ subnet }) => parseCidr(subnet) ?? []).map(gatewayOf);
    const resolvers = (await options.guestResolvers?.(gateways)) ?? [];
    const mounts = await plainMounts(docker, owner, spec);
    const request = createRequest(options, spec, image, on, mounts, {
      cpus: engineCpus,
      resolvers,
      scriptPatienceMs: options.scriptPatienceMs ?? scriptPatienceMs,
    });
    const made = await docker.createContainer(request).catch(async (error) => {
      if (statusOf(error) === 409) {
        const reason = `The container name ${containerName(owner, spec.instance)} is taken by a container that is not this Backlot's. Remove or rename it.`;
        throw new Fault("unavailable", [{ reason }], { cause: error });
      }
      if (statusOf(error) !== 404) throw error;
      // The image or a network went while we were not looking.
      images.forget(image.tag);
      const { tag } = copy === undefined ? await images.ensure(slug) : { tag: copy };
      await ensureNetworks();
      return docker.createContainer({ ...request, Image: tag });
    });
    const container: SeenContainer = {
      id: made.id,
      instance: spec.instance,
      name: containerName(owner, spec.instance),
      image: image.tag,
      state: "created",
      fingerprint: spec.fingerprint,
      bootsAtCreation: spec.boots,
      hasScript: spec.script !== null,
      substituted: image.substituted,
      isGuest: image.isGuest,
      addresses: new Map([[on.name, on.address ?? ""]]),
      mounts,
      isRemade: false,
      carried: [],
    };
    await attach(container, spec);
    return container;
  };

  /** Starts a stopped container; when a network of it went meanwhile, makes that and tries once more. */
  const start = async (container: SeenContainer, spec: MachineSpec): Promise<void> => {
    try {
      await handle(container).start();
    } catch (error) {
      if (statusOf(error) !== 404) {
        const wanted = attachments(owner, spec, publicPool).map(({ address }) => address);
        if (!(await released(spec.instance, wanted))) throw error;
        await handle(container).start();
        return;
      }
      await attach({ ...container, addresses: new Map() }, spec).catch(() => {
        throw error;
      });
      await handle(container).start();
    }
  };

  const power = async (container: SeenContainer, guest: GuestState, spec: MachineSpec): Promise<GuestState> => {
    const box = handle(container);
    const step = powerStep(spec, container.state, guest.boots ?? container.bootsAtCreation);
    if (step === "stop" || step === "restart") {
      if (container.state === "paused") await box.unpause();
      await tolerating([304, 404], () => box.stop({ t: stopGraceSeconds }));
    }
    if (step === "unpause") await box.unpause();
    if (step === "stop") return guestState(box);
    if (step === "none" || step === "unpause") return guest;
    guests.forget(container.id);
    if (step === "first-start" && container.isGuest && guest.boots === undefined) await handOver(box, firstFiles(spec));
    else await putFiles(box, startFiles(spec));
    await start(container, spec);
    return { ...guest, boots: spec.boots, extraAddresses: "" };
  };

  /** `fresh`: it was started or connected anew, which wipes what was added beside the engine's own address. */
  const fitAddresses = async (container: SeenContainer, guest: GuestState, spec: MachineSpec, fresh: boolean): Promise<void> => {
    const extras = extraAddresses(spec, publicPool);
    const note = extraAddressesNote(extras);
    const shared = fresh ? (spec.shared ?? []) : [];
    if (note === guest.extraAddresses && (!fresh || note === "") && shared.length === 0) return;
    // Somebody's own image need not have a shell or `ip` in it. In a copy of a disk whoever was root there put what they wanted in their place.
    const { Image } = (await handle(container).inspect()).Config;
    const tools = isOwnGuestImage(Image) ? Image : (await images.ensure(toolsImage)).tag;
    const engines = attachments(owner, spec, publicPool).flatMap(({ address }) => address ?? []);
    const announced = engines.filter((address) => shared.includes(address) || guest.extraAddresses.includes(`${address}/`));
    await applyExtraAddresses(docker, options, { image: tools, container: container.id, previous: guest.extraAddresses, extras, engines, announced });
  };

  /** Before a machine that is there boots: what of the engine's volumes it boots with. What cannot be mounted would keep it from starting. */
  const fitMounts = async (container: SeenContainer, guest: GuestState, spec: MachineSpec): Promise<SeenContainer> => {
    const isStarting = ["first-start", "start", "restart"].includes(powerStep(spec, container.state, guest.boots ?? container.bootsAtCreation));
    if (!isStarting) return container;
    const has = ownMounts(owner, container.mounts);
    const wanted = await plainMounts(docker, owner, spec);
    for (const [name, path] of wanted) if (has.get(name) !== path && (await isTaken(handle(container), path))) wanted.delete(name);
    if (isSameMounts(has, wanted)) return container;
    if (container.state === "paused") await handle(container).unpause();
    if (isLive(container.state)) await tolerating([304, 404], () => handle(container).stop({ t: stopGraceSeconds }));
    return remakes.remake(container, wanted);
  };

  /** A machine that is off is made anew without an engine volume that is to go. */
  const letGo = ({ instance, id }: SeenContainer, name: string): Promise<void> =>
    inTurn(instance, async () => {
      const container = (await remakes.settle(await seen(instance))).find((one) => one.id === id);
      if (!container || isLive(container.state)) return;
      if (!hasBegun(container)) return removeContainer(container);
      const stays = [...ownMounts(owner, container.mounts)].filter(([other]) => other !== name);
      await remakes.remake(container, new Map(stays));
    });

  /** The instance's other machines: those to be kept are stopped and give up the name, the rest goes. */
  const setAside = async (all: readonly SeenContainer[], spec: MachineSpec): Promise<void> => {
    for (const other of all.filter((one) => one.fingerprint !== spec.fingerprint)) {
      if (!spec.kept?.includes(other.fingerprint)) {
        await removeContainer(other);
        continue;
      }
      if (other.state === "paused") await handle(other).unpause();
      if (isLive(other.state)) await tolerating([304, 404], () => handle(other).stop({ t: stopGraceSeconds }));
      const name = parkedName(owner, other.instance, other.fingerprint);
      if (other.name !== name) await handle(other).rename({ name });
    }
  };

  /** The name and the limits of the machine that is there: a type that changed needs no new one. */
  const tailor = async (container: SeenContainer, spec: MachineSpec): Promise<void> => {
    const box = handle(container);
    const name = containerName(owner, spec.instance);
    if (container.name !== name) await box.rename({ name });
    const { HostConfig } = await box.inspect();
    const limits = limitsOf(spec, engineCpus);
    if (HostConfig.Memory === limits.Memory && HostConfig.NanoCpus === limits.NanoCpus) return;
    await asking(`give instance ${spec.instance} ${spec.memoryMib} MB and ${spec.vcpus} CPUs`, () => box.update(limits));
  };

  /** @param all the instance's containers, as they were a moment ago */
  const bring = async (spec: MachineSpec, signal: AbortSignal | undefined, all: readonly SeenContainer[]): Promise<Machine> => {
    let container = all.find((one) => one.fingerprint === spec.fingerprint);
    await setAside(all, spec);
    let guest = container && hasBegun(container) ? await guestState(handle(container)) : freshGuest;
    if (container && (spec.image === null || isSpent(container, guest, spec))) {
      await removeContainer(container);
      container = undefined;
      guest = freshGuest;
    }
    if (spec.image === null) return { instance: spec.instance, fingerprint: spec.fingerprint, running: false, boots: spec.boots };
    signal?.throwIfAborted();
    let moved = false;
    if (!container) {
      container = await create(spec, spec.image, signal);
    } else {
      await tailor(container, spec);
      moved = await attach(container, spec);
      if (moved && container.state === "running") await putFiles(handle(container), environmentFiles(spec));
      signal?.throwIfAborted();
      container = await fitMounts(container, guest, spec);
    }
    signal?.throwIfAborted();
    const before = guest;
    guest = await power(container, guest, spec);
    if (spec.running) await fitAddresses(container, guest, spec, moved || guest !== before);
    const { addresses } = container;
    const has = attachments(owner, spec, publicPool).map(({ name, address }) => [name, address ?? addresses.get(name) ?? ""] as const);
    const [privateAddress] = spec.privateAddresses;
    if (spec.running && privateAddress !== undefined) await relays.settle(spec.region, spec.privateRange, privateAddress);
    return machineOf({ ...container, addresses: new Map(has), state: spec.running ? "running" : "exited" }, guest);
  };

  /** The instance's work in its turn, with what is known best of why it failed. */
  const working = <T>(spec: MachineSpec, signal: AbortSignal | undefined, work: (all: readonly SeenContainer[]) => Promise<T>): Promise<T> =>
    inTurn(spec.instance, async () => {
      signal?.throwIfAborted();
      try {
        return await work(await remakes.settle(await seen(spec.instance)));
      } catch (error) {
        if (signal?.aborted) throw signal.reason;
        const wanted = attachments(owner, spec, publicPool);
        const own = seen(spec.instance).then((all) => all.find((one) => one.fingerprint === spec.fingerprint)?.id);
        const stranger = await own.then((id) => strangerFault(docker, spec.instance, id, wanted)).catch(() => undefined);
        if (stranger) throw stranger;
        throw engineFault(`bring instance ${spec.instance} to its wanted state`, error);
      }
    });

  // Side by side: every start waits for it.
  const [there, standing] = await Promise.all([seen(), networks.standing(), relays.prune(), remakes.sweep()]);
  const runningNow = there.filter(({ state }) => state === "running");
  for (const { key, name, subnet } of standing)
    if (key !== "public") await relays.settle(key, subnet, runningNow.flatMap(({ addresses }) => addresses.get(name) || [])[0]);

  return {
    name: "docker",
    capabilities: () => {
      const { runtime, rows } = dockerCapabilities(helper.rights());
      return { runtime, rows: [...rows, ...relays.rows()] };
    },
    volumes: engineVolumes({ docker, owner: options, helper, containers: async (all) => (all ? seen() : oneEach(await seen())), letGo }),
    images: { ...captures, capture: (instance, ...what) => inTurn(instance, () => captures.capture(instance, ...what)) },

    list: async (instance) => {
      const containers = oneEach(await seen(instance));
      if (instance === undefined) guests.keepOnly(containers.map(({ id }) => id));
      const machines: Machine[] = [];
      for (let at = 0; at < containers.length; at += askedAtOnce) {
        const some = containers.slice(at, at + askedAtOnce);
        const seenNow = await asking("read a container's state", () => Promise.all(some.map((one) => guests.look(handle(one), one))));
        machines.push(...seenNow.map(([one, guest]) => machineOf(asRunning(one), guest)));
      }
      return machines;
    },

    ensure: (spec, signal) => working(spec, signal, (all) => bring(spec, signal, all)),
    fit: (spec, signal) =>
      working(spec, signal, async (all) => {
        const runs = all.some(({ fingerprint, state }) => fingerprint === spec.fingerprint && state === "running");
        return runs ? bring(spec, signal, all) : undefined;
      }),

    remove: (instance) =>
      inTurn(instance, async () => {
        for (const container of await seen(instance)) await removeContainer(container);
        await networks.removeIdle((key) => relays.release(key));
      }),

    copy: async (from, to) => {
      if ((await copies.tagOf(to)) !== undefined) return true;
      const [source] = await seen(undefined, from);
      const isBooted = source && hasBegun(source) && (await guestState(handle(source))).boots !== undefined;
      if (source && isBooted) await inTurn(source.instance, () => standingStill(source.id, () => copies.capture(handle(source), to)));
      else {
        const tag = await copies.tagOf(from);
        if (tag === undefined) return false;
        await copies.alias(tag, to);
      }
      return true;
    },
    discard: async (fileSystem) => {
      for (const container of await seen(undefined, fileSystem)) await inTurn(container.instance, () => removeContainer(container));
      await copies.remove(fileSystem);
    },
    prepared: () => copies.names(),
    setRootPassword: async (fileSystem, hash) => {
      // One that was never started is given it at its first start.
      for (const container of await seen(undefined, fileSystem))
        if (hasBegun(container)) await asking("set a password", () => putFiles(handle(container), rootPassFiles(hash)));
    },

    counters: async (instance) => {
      const [container] = oneEach(await seen(instance));
      return container?.state === "running" ? asking("count what a machine uses", () => counters.read(handle(container))) : undefined;
    },

    kill: async (instance) => {
      for (const container of await seen(instance))
        await asking("kill a container", () => tolerating([404, 409], () => handle(container).kill({ signal: "SIGKILL" })));
    },

    log: async (instance) => {
      const [container] = oneEach(await seen(instance));
      return container ? asking("show a container's log", () => bootLog(handle(container))) : "";
    },

    dial: (address, port) => {
      if (!pools.some((pool) => contains(pool, address))) return undefined;
      const via = relays.via(address);
      return via ? { host: address, port, via } : { host: address, port };
    },
    unreached: () => relays.unreached(),
    watchDial: (moved) => relays.watch(moved),

    watch: (hint) => {
      const watch = watchEngine({ docker, owner, hint, onProblem: options.onProblem ?? (() => {}) });
      closers.add(() => watch.close());
      return watch;
    },

    outage: () => engineOutage(options.docker),
    occupied: () => networks.occupied(),
    close: () => closers.close(),
  };
};
