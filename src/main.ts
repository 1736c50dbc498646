import { readFileSync } from "node:fs";
import { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { type Logger, pino } from "pino";
import type { BalancerPlane } from "./balancer/plane.js";
import { openPlane } from "./balancer/worker-host.js";
import type { Config } from "./config/settings.js";
import { type NameServer, openNameServer } from "./dns/server.js";
import { fetchZone } from "./dns/transfer.js";
import { upstreamsOf } from "./dns/upstreams.js";
import { createApp, type Mounted } from "./http/app.js";
import { backlotRoutes } from "./http/backlot-routes.js";
import { openApiDocument } from "./http/openapi.js";
import { openServer } from "./http/server.js";
import { realClock } from "./kernel/clock.js";
import { Closers } from "./kernel/closers.js";
import { definedOf } from "./kernel/defined.js";
import { cannotStart, reasonOf } from "./kernel/fault.js";
import { packageFolder } from "./kernel/package-folder.js";
import type { Route } from "./kernel/route.js";
import { operatorOf } from "./operator.js";
import { openBackups } from "./reconcile/backups.js";
import { openBalancerStats } from "./reconcile/balancer-stats.js";
import { openBalancerTransfer } from "./reconcile/balancer-transfer.js";
import { openBillingMonths } from "./reconcile/billing-months.js";
import { type Health, openHealth } from "./reconcile/health.js";
import { openImages } from "./reconcile/images.js";
import { openInstanceMeter } from "./reconcile/instance-meter.js";
import { openListeners } from "./reconcile/listeners.js";
import { machineSpec } from "./reconcile/machine-spec.js";
import { openMachines } from "./reconcile/machines.js";
import { type Names, openNames } from "./reconcile/names.js";
import { repeat } from "./reconcile/repeat.js";
import { balancersNotice, openSurroundings } from "./reconcile/surroundings.js";
import { openVolumes } from "./reconcile/volumes.js";
import { billedTime } from "./resources/billing/billed-time.js";
import { billedSoFar, openBilling } from "./resources/billing/invoice.js";
import { metered } from "./resources/billing/metering.js";
import { readCatalogue } from "./resources/catalogue/catalogue.js";
import { type Cloud, type CloudStore, firstIds, type Kinds, kinds } from "./resources/cloud.js";
import { routes, shapes } from "./resources/index.js";
import { layOutOldInstances } from "./resources/instances/layout.js";
import { migrations, schemaVersion } from "./resources/migrations.js";
import { openNotices } from "./resources/notifications/notices.js";
import { admitStartToken, freshToken, tokenHash } from "./resources/tokens/token.js";
import type { RuntimeDriver } from "./runtime/driver.js";
import { openRuntime, type RuntimeChoice, runtimeKind, strangers } from "./runtime/open-runtime.js";
import { openStore } from "./store/open-store.js";

export interface Hooks {
  /** A line about something that takes long, such as the making of a guest image. */
  onProgress?(line: string): void;
}

/** A cloud that runs in this process. */
export interface Running {
  /** Base of the API, e.g. `http://127.0.0.1:4747`. */
  url: string;
  /** Where every path speaks the public vendor's spelling; undefined without `linodePort`. */
  linodeUrl: string | undefined;
  /** A full-rights token, valid now and after restarts. */
  token: string;
  runtime: "docker" | "process";
  pid: number;
  /** Where names are answered, UDP and TCP; null with `dnsPort: "off"`. */
  dns: { address: string; port: number } | null;
  /** Folder of the state. */
  state: string;
  /** Stops cleanly; `machines` overrides the setting `onExit`. Waits until all is closed. */
  close(options?: { machines?: "keep" | "stop" }): Promise<void>;
  /** Resolves when it is closed, whoever asked for it. */
  closed: Promise<void>;
}

const { version } = JSON.parse(readFileSync(join(packageFolder, "package.json"), "utf8")) as { version: string };
/** What a running Backlot leaves in its state folder for `backlot status` and `backlot stop`. */
const runningFile = "running.json";
/** What stands in the state folder beside the state: machines and all that is made of them, on the process runtime. */
const besideState = [runningFile, "machines", "disks", "images", "volumes"];

const storedChoice = (store: CloudStore): RuntimeChoice | undefined => store.list("pool")[0];

const keepChoice = (store: CloudStore, choice: RuntimeChoice): Promise<void> =>
  store.commit((tx) => {
    const row = tx.list("pool")[0];
    if (row) tx.update("pool", row.id, choice);
    else tx.insert("pool", choice);
  });

/** The runtime this state runs on, with its pools settled. */
const openMachinesRoom = async (
  config: Config,
  store: CloudStore,
  log: Logger,
  hooks: Hooks,
  guestResolvers: (gateways: readonly string[]) => Promise<readonly string[]>,
  closers: Closers,
): Promise<{ driver: RuntimeDriver; choice: RuntimeChoice; occupied: string[] }> => {
  const stored = storedChoice(store);
  const kind = await runtimeKind(config.runtime, stored, store.list("instance").length > 0);
  const given = store.list("address").flatMap((row) => (row.public ? [] : [row.address]));
  const foreign = strangers(config.privatePool, given);
  if (foreign.length > 0) {
    throw cannotStart(
      `This state holds private addresses outside ${config.privatePool}, such as ${foreign[0]}; start with the --private-pool it was made with, or choose another folder with --state.`,
    );
  }
  const isPoolUsed = store.list("address").some((row) => row.public);
  const opened = await openRuntime(kind, stored?.runtime === kind ? stored : undefined, isPoolUsed, {
    owner: store.owner,
    stateFolder: config.state,
    privatePool: config.privatePool,
    imageFallback: config.imageFallback,
    ownImages: config.images,
    allowHostScripts: config.allowHostScripts,
    dial: config.dial,
    guestResolvers,
    onProgress: (line) => {
      hooks.onProgress?.(line);
      log.info(line);
    },
    onProblem: (reason) => log.warn(reason),
  });
  closers.add(() => opened.driver.close(), "The runtime's tasks");
  await keepChoice(store, opened.choice);
  return opened;
};

/** Stops every machine that runs; their rows still want them on, so the next start brings them up. */
const stopMachines = async (cloud: Cloud, driver: RuntimeDriver, log: Logger): Promise<void> => {
  const running = (await driver.list()).filter((machine) => machine.running);
  const stopping = running.map(async ({ instance }) => {
    const row = cloud.store.get("instance", instance);
    if (row) await driver.ensure({ ...machineSpec(cloud, row), running: false });
    else await driver.remove(instance);
  });
  for (const result of await Promise.allSettled(stopping))
    if (result.status === "rejected") log.error({ err: result.reason }, "a machine could not be stopped");
};

/** How long a whole zone may take to come, in ms. */
const transferMs = 10_000;

const openNamesRoom = async (
  config: Config,
  log: Logger,
  hooks: Hooks,
  guestPools: readonly string[],
  closers: Closers,
): Promise<NameServer | undefined> => {
  if (config.dnsPort === "off") return undefined;
  const server = await openNameServer({
    host: config.dnsHost,
    port: config.dnsPort,
    forward: config.dnsForward,
    guestPools,
    upstreams: upstreamsOf(config.dnsUpstream),
    onProblem: (reason) => {
      hooks.onProgress?.(reason);
      log.info(reason);
    },
  }).catch((error: unknown) => {
    throw cannotStart(
      `The name server cannot listen on ${config.dnsHost}: ${reasonOf(error)}; choose another address with --dns-host, or start without it: --dns-port off.`,
      error,
    );
  });
  closers.add(() => server.close());
  return server;
};

/** How long a start waits for the first measurement of every node, so that its listeners do not begin with refusals. */
const firstHealthMs = 500;

/** The order matters: what runs is known before nodes are measured, and nodes are measured before anything listens. */
const openLoops = async (cloud: Cloud, driver: RuntimeDriver, plane: BalancerPlane, log: Logger, closers: Closers): Promise<Health> => {
  const failed = (what: string) => (id: number, error: unknown) =>
    log.warn({ [what]: id, reason: reasonOf(error) }, `${what} is not yet as wanted; trying again`);
  const meter = openInstanceMeter({
    cloud,
    driver,
    onFailure: (instance, error) => log.warn({ instance, reason: reasonOf(error) }, "what an instance uses could not be read; trying again"),
  });
  closers.add(() => meter.close(), "The instances' meters");
  const machines = openMachines({ cloud, driver, onFailure: failed("instance"), measure: (id) => meter.measure(id) });
  closers.add(() => machines.close(), "The tasks of instances");
  const backups = openBackups({ cloud, driver, onFailure: failed("backup") });
  closers.add(() => backups.close(), "The tasks of backups");
  const images = openImages({ cloud, driver, onFailure: failed("image") });
  closers.add(() => images.close(), "The tasks of images");
  await machines.resync();
  const volumes = openVolumes({ cloud, driver, onFailure: failed("volume") });
  closers.add(() => volumes.close(), "The tasks of volumes");
  const health = openHealth({ cloud, driver, onFailure: failed("node") });
  closers.add(() => health.close(), "The health checks");
  await health.measured(firstHealthMs);
  const listeners = openListeners({ cloud, plane, driver, onFailure: failed("config"), onPassive: (node) => health.suspect(node) });
  closers.add(() => listeners.close(), "The balancers' ports");
  return health;
};

/** What the account shows beside resources: bills, bytes, and what around us is in a bad way. */
const openAccountLoops = (cloud: Cloud, driver: RuntimeDriver, plane: BalancerPlane, state: string, log: Logger): (() => Promise<void>) => {
  const onFailure = (_key: number, error: unknown) => log.warn({ reason: reasonOf(error) }, "the account's records are behind; trying again");
  const loops = [
    openBillingMonths({ cloud, onFailure }),
    openBalancerTransfer({ cloud, plane, onFailure }),
    openBalancerStats({ cloud, plane, onFailure }),
    openSurroundings({ cloud, driver, stateFolder: state, onFailure }),
  ];
  return async () => {
    await Promise.all(loops.map((loop) => loop.close()));
  };
};

/** How often the addresses that others use on this machine are looked at, in real ms. */
const lookAroundMs = 15_000;

/** How long a stop may take, in ms: an engine or a helper that hangs must not hold it for ever. Stopping machines has a time of its own. */
const closeWithinMs = 30_000;
const stopMachinesWithinMs = 120_000;

/** Opens every room in order; whatever fails, what was opened is closed again in reverse. */
export const openCloud = async (config: Config, hooks: Hooks = {}): Promise<Running> => {
  const closers = new Closers(closeWithinMs);
  try {
    return await openRooms(config, hooks, closers);
  } catch (error) {
    await closers.close().catch(() => {});
    throw error;
  }
};

const openRooms = async (config: Config, hooks: Hooks, closers: Closers): Promise<Running> => {
  const log = pino({ level: config.logLevel, base: null }, pino.destination({ fd: 2, sync: true }));
  const clock = realClock(config.speed);
  const startedMs = clock.now();
  const onProblem = (reason: string): void => log.warn(reason);

  const opened = await openStore<Kinds>({ folder: config.state, beside: besideState, kinds, firstIds, schemaVersion, migrations, onProblem });
  closers.add(() => opened.close());
  const billed = billedTime(clock, billedSoFar(opened));
  const store = metered(opened, billed);
  const server = await openServer(config.host, config.port);
  closers.add(() => server.close());
  const publicServer = config.linodePort === undefined ? undefined : await openServer(config.host, config.linodePort);
  closers.add(() => publicServer?.close());
  // The runtime asks it about its guests only once machines are made, when the names' room is open.
  let names: Names | undefined;
  const { driver, choice, occupied } = await openMachinesRoom(
    config,
    store,
    log,
    hooks,
    async (gateways) => (await names?.guestResolvers(gateways)) ?? [],
    closers,
  );
  let others = occupied;
  const lookAround = async (): Promise<void> => {
    others = (await driver.occupied()).map(({ cidr }) => cidr);
  };
  const looking = repeat(lookAroundMs, lookAround, (error) =>
    log.warn({ reason: reasonOf(error) }, "the networks of this machine could not be looked at"),
  );
  closers.add(() => looking.close(), "The look at this machine's networks");

  const controlToken = freshToken();
  const cloud: Cloud = {
    store,
    clock,
    catalogue: readCatalogue(join(packageFolder, "fixtures"), config.images),
    billed,
    notices: openNotices(() => clock.now()),
    controlHash: tokenHash(controlToken),
    fetchZone: (domain, { host, port }) => fetchZone(domain, { host, port, withinMs: transferMs }),
    settings: {
      privatePool: config.privatePool,
      publicPool: choice.publicPool,
      occupied: () => others,
      balancerAddresses: config.balancerAddresses,
      certificates: config.certificates,
    },
  };
  const token = config.token ?? freshToken();
  await admitStartToken(cloud, token);
  await layOutOldInstances(cloud);
  await openBilling(cloud);

  let machinesAtExit = config.onExit;
  closers.add(
    async () => {
      if (machinesAtExit === "stop") await stopMachines(cloud, driver, log);
    },
    "Machines that are to be stopped",
    stopMachinesWithinMs,
  );
  const nameServer = await openNamesRoom(config, log, hooks, [config.privatePool, choice.publicPool], closers);
  if (nameServer) {
    const opened = openNames({
      cloud,
      server: nameServer,
      driver,
      upstreams: upstreamsOf(config.dnsUpstream),
      onFailure: (domain, error) => log.warn({ domain, reason: reasonOf(error) }, "a domain could not be fetched; trying again"),
    });
    names = opened;
    closers.add(() => opened.close());
  }
  const plane = openPlane({
    fastLane: config.fastLane === "on",
    keepAlive: config.clientKeepAlive === "on",
    maxConnections: config.balancerConnections,
    onProblem: (reason) => {
      log.warn(reason);
      cloud.notices.note("balancers", balancersNotice(reason, clock.now()));
    },
  });
  closers.add(() => plane.close(), "The balancers");
  const health = await openLoops(cloud, driver, plane, log, closers);
  closers.add(openAccountLoops(cloud, driver, plane, config.state, log), "The account's tasks");

  let announceClosed = (): void => {};
  const closed = new Promise<void>((resolve) => {
    announceClosed = resolve;
  });
  const close = async (options: { machines?: "keep" | "stop" } = {}): Promise<void> => {
    machinesAtExit = options.machines ?? machinesAtExit;
    try {
      await closers.close();
    } finally {
      announceClosed();
    }
  };
  const operator = operatorOf(cloud, version, { driver, plane, health, names, nameServer }, startedMs, config.state, (machines) =>
    setImmediate(() => void close(definedOf({ machines })).catch((error) => log.error({ err: error }, "the stop did not go cleanly"))),
  );
  /** Made at the first request for it: a start would pay 25 ms, and few ask. */
  let document: object | undefined;
  const describe: Route<Cloud> = {
    method: "GET",
    path: "/v4/openapi.json",
    scope: null,
    summary: "This document.",
    answers: "one",
    verbatimAnswer: true,
    run: () => {
      document ??= openApiDocument(routes as readonly Route<never>[], shapes, version);
      return document;
    },
  };
  const mounts: Mounted<never>[] = [
    { routes: [...routes, describe], context: cloud } as never,
    { routes: backlotRoutes, context: operator } as never,
  ];
  const app = createApp(
    cloud,
    log,
    { host: config.host, publicPort: publicServer?.port, rateLimit: config.rateLimit, crossOrigin: config.cors === "on" },
    mounts,
  );
  for (const door of [server, publicServer]) door?.serve(app);
  // Once more, on top: the API closes before what it serves.
  closers.add(async () => void (await Promise.all([server.close(), publicServer?.close()])), "Requests");

  const path = join(config.state, runningFile);
  // A mode is that of a new file, and one that a crash left may have got others on its way through a backup.
  await rm(path, { force: true });
  await writeFile(path, JSON.stringify({ url: server.url, pid: process.pid, token: controlToken }), { mode: 0o600, flag: "wx" });
  closers.add(() => rm(path, { force: true }));
  const dns = nameServer ? { address: nameServer.address, port: nameServer.port } : null;
  log.info({ url: server.url, runtime: driver.name, state: config.state, dns }, "serving");
  return { url: server.url, linodeUrl: publicServer?.url, token, runtime: driver.name, pid: process.pid, dns, state: config.state, close, closed };
};
