import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { startBacklot } from "#backlot/index.js";
import { apiOf, commandLineGround } from "../support/cloud.js";

test("a library is told what differs; the rest is as on the command line", async () => {
  const state = await mkdtemp(join(tmpdir(), "backlot-library-"));
  onTestFinished(() => rm(state, { recursive: true, force: true }));
  const { privatePool, balancerAddresses } = await commandLineGround();
  const backlot = await startBacklot({
    port: 0,
    state: relative(process.cwd(), state),
    runtime: "process",
    dnsPort: "off",
    logLevel: "silent",
    privatePool,
    balancerAddresses,
  });
  try {
    expect(backlot).toMatchObject({ runtime: "process", state, dns: null, linodeUrl: undefined });
    expect((await apiOf(backlot.url, backlot.token).get("/v4/account")).status).toBe(200);
  } finally {
    await backlot.close();
  }
});

test.each([
  [{ runtime: "podman" as "process" }, /^runtime: must be one of auto, docker, process, not "podman"\.$/],
  [{ speed: -1, prot: 80 } as object, /^prot: there is no such setting\. Did you mean port\? speed: must be .*, not -1\.$/],
  [{ port: "eighty" as unknown as number }, /^port: must be .*, not "eighty"\.$/],
])("what is wrong with its settings is told by their names: %o", async (settings, message) => {
  await expect(startBacklot(settings)).rejects.toThrow(message);
});
