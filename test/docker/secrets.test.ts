import { afterAll, expect, test } from "vitest";
import { describeDocker, docker } from "../support/docker.js";
import { leaks, type SecretAccount, walkSecretAccount } from "../support/secrets.js";

/** All that the engine tells of an owner's things, images and logs included. */
const inspected = async (owner: string): Promise<Array<[string, string]>> => {
  const filters = { label: [`io.backlot.owner=${owner}`] };
  const containers = await docker.listContainers({ all: true, filters });
  const told: Array<[string, unknown]> = [];
  for (const { Id } of containers) {
    const container = docker.getContainer(Id);
    const info = await container.inspect();
    told.push([`inspect of container ${Id}`, info], [`inspect of image ${info.Image}`, await docker.getImage(info.Image).inspect()]);
    told.push([`history of image ${info.Image}`, await docker.getImage(info.Image).history()]);
    told.push([`log of container ${Id}`, String(await container.logs({ stdout: true, stderr: true }))]);
    told.push([`top of container ${Id}`, await container.top()]);
  }
  for (const { Id } of await docker.listNetworks({ filters })) told.push([`inspect of network ${Id}`, await docker.getNetwork(Id).inspect()]);
  told.push(["volumes", await docker.listVolumes()], ["images", await docker.listImages()]);
  return told.map(([where, what]) => [where, JSON.stringify(what)]);
};

describeDocker("secrets on an engine", () => {
  let account: SecretAccount | undefined;
  afterAll(() => account?.remove());

  test("no secret of an account shows in an answer, a log, the state, a process, or anything the engine tells", async () => {
    account = await walkSecretAccount("docker", inspected);
    await account.stop();
    const places = [...account.heard.keys()];
    for (const kind of ["inspect of container", "inspect of image", "top of container", "/proc/"]) {
      expect(
        places.some((place) => place.startsWith(kind)),
        kind,
      ).toBe(true);
    }
    expect(leaks(account)).toEqual([]);
  });
});
