import { createHash, randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import type Docker from "dockerode";
import { pack } from "tar-stream";
import { Fault } from "../../kernel/fault.js";
import { packageFolder } from "../../kernel/package-folder.js";
import type { RelayDoor } from "../../kernel/relay.js";
import { asking, statusOf, tolerating } from "./engine.js";
import { marksIn } from "./guest-files.js";
import { labels, networkName, type Owner, ownerLabels, relayName } from "./labels.js";
import { anyAddress, type Standing } from "./standing.js";

const program = join(packageFolder, "docker/relay/backlot-relay.py");

const port = 4750;
const portKey = `${port}/tcp`;
const folder = "/etc/backlot-relay";
const secretPath = `${folder}/secret`;
const programPath = `${folder}/relay.py`;
/** `nobody` on Debian. */
const nobody = 65_534;

interface RelayPlan {
  owner: Owner;
  region: string;
  subnet: string;
  /** Tag of a guest image that we built: it has python3. */
  image: string;
  standing: Exclude<Standing, { place: "nowhere" }>;
}

/** Relays of this owner, running or not; of one region when it is named. */
export const relaysOf = (docker: Docker, { owner }: Owner, region?: string): Promise<Docker.ContainerInfo[]> => {
  const label = [`${labels.owner}=${owner}`, region === undefined ? labels.relay : `${labels.relay}=${region}`];
  return asking("list containers", () => docker.listContainers({ all: true, filters: { label } }));
};

/** Pure. It may do nothing but open connections: no root, no capability, few processes, little memory. `at`: the address it is published at. */
const request = ({ owner, region, subnet, image, standing }: RelayPlan, at: string): Docker.ContainerCreateOptions => ({
  name: relayName(owner.owner, region),
  Image: image,
  User: `${nobody}:${nobody}`,
  Entrypoint: ["/usr/bin/python3", "-I", programPath, subnet, String(port), secretPath],
  Cmd: [],
  ExposedPorts: { [portKey]: {} },
  Labels: { ...ownerLabels(owner), [labels.relay]: region },
  HostConfig: {
    NetworkMode: networkName(owner.owner, region),
    // Inside a container a published port of the machine's loopback is out of reach: there the relay joins that container's network instead.
    PortBindings: standing.place === "inside" ? {} : { [portKey]: [{ HostIp: at, HostPort: "" }] },
    CapDrop: ["ALL"],
    SecurityOpt: ["no-new-privileges"],
    PidsLimit: 16,
    Memory: 128 * 2 ** 20,
    RestartPolicy: { Name: "no" },
    // It ends by itself when nobody holds it any more, and then nothing of it is left behind.
    AutoRemove: true,
    LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "1" } },
  },
});

/** Another one is needed when this changes. */
const fingerprintOf = (wanted: Docker.ContainerCreateOptions, source: string, standing: Standing): string =>
  createHash("sha256")
    .update(JSON.stringify([wanted, source, standing]))
    .digest("hex")
    .slice(0, 16);

const secretOf = async (container: Docker.Container): Promise<string> => {
  const [secret = ""] = (await marksIn(container, secretPath))?.values() ?? [];
  return secret;
};

const removeRelay = async (docker: Docker, id: string): Promise<void> => {
  await tolerating([404, 409], () => docker.getContainer(id).remove({ force: true, v: true }));
  await tolerating([404], () => docker.getContainer(id).wait({ condition: "removed" }));
};

/** Removes the relays of this owner: of one region, or all. Absent is success. */
export const removeRelays = async (docker: Docker, owner: Owner, region?: string): Promise<void> => {
  for (const { Id } of await relaysOf(docker, owner, region)) await asking("remove a relay", () => removeRelay(docker, Id));
};

const doorOf = async (container: Docker.Container, standing: RelayPlan["standing"], secret: string): Promise<RelayDoor | undefined> => {
  const { NetworkSettings, State } = await container.inspect();
  if (!State.Running) return undefined;
  if (standing.place === "inside") {
    const host = NetworkSettings.Networks[standing.network]?.IPAddress;
    return host ? { host, port, secret } : undefined;
  }
  const published = Number(NetworkSettings.Ports[portKey]?.[0]?.HostPort);
  return published > 0 ? { host: standing.place === "away" ? standing.host : "127.0.0.1", port: published, secret } : undefined;
};

const make = async (docker: Docker, plan: RelayPlan, wanted: Docker.ContainerCreateOptions, source: string): Promise<RelayDoor> => {
  const secret = randomBytes(24).toString("hex");
  const archive = pack();
  archive.entry({ name: programPath.slice(1), mode: 0o444 }, source);
  // A file, for the environment and the command line show in `docker inspect`.
  archive.entry({ name: secretPath.slice(1), mode: 0o400, uid: nobody, gid: nobody }, `${secret}\n`);
  archive.finalize();
  const container = await docker.createContainer(wanted);
  try {
    await container.putArchive(await buffer(archive as unknown as Readable), { path: "/" });
    if (plan.standing.place === "inside") await docker.getNetwork(plan.standing.network).connect({ Container: container.id });
    await container.start();
    const door = await doorOf(container, plan.standing, secret);
    if (!door) {
      throw new Fault("unavailable", [{ reason: `The relay of ${plan.region} ended as soon as it was started, or has no port.` }]);
    }
    return door;
  } catch (error) {
    await removeRelay(docker, container.id).catch(() => {});
    throw error;
  }
};

/**
 * The relay of a region's network: the one that runs when it is as wanted and `answers`, else a new one in its place.
 * @throws Fault `unavailable` with cause and remedy
 */
export const ensureRelay = async (docker: Docker, plan: RelayPlan, answers: (door: RelayDoor) => Promise<boolean>): Promise<RelayDoor> => {
  const source = await readFile(program, "utf8");
  const at = plan.standing.place === "away" ? plan.standing.address : "127.0.0.1";
  const fingerprint = fingerprintOf(request(plan, at), source, plan.standing);
  const wanted = (address: string): Docker.ContainerCreateOptions => {
    const { Labels, ...more } = request(plan, address);
    return { ...more, Labels: { ...Labels, [labels.fingerprint]: fingerprint } };
  };
  return asking(`keep a relay in the network of ${plan.region}`, async () => {
    for (const { Id, State, Labels } of await relaysOf(docker, plan.owner, plan.region)) {
      if (State === "running" && Labels[labels.fingerprint] === fingerprint) {
        const container = docker.getContainer(Id);
        const door = await secretOf(container).then((secret) => doorOf(container, plan.standing, secret));
        if (door && (await answers(door))) return door;
      }
      await removeRelay(docker, Id);
    }
    try {
      return await make(docker, plan, wanted(at), source).catch((error) => {
        if (statusOf(error) === 409 || plan.standing.place !== "away" || at === anyAddress) throw error;
        return make(docker, plan, wanted(anyAddress), source);
      });
    } catch (error) {
      if (statusOf(error) !== 409) throw error;
      const reason = `The container name ${relayName(plan.owner.owner, plan.region)} is taken by a container that is not this Backlot's. Remove or rename it.`;
      throw new Fault("unavailable", [{ reason }], { cause: error });
    }
  });
};
