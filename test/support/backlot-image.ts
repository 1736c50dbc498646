import { execFile } from "node:child_process";
import { cpSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { docker } from "./docker.js";

const shell = promisify(execFile);
const folder = fileURLToPath(new URL("../../docker/", import.meta.url));
/** Made by docker/base-tarball.sh where no registry could be reached. */
const localBase = "backlot/base:debian12";

export type Compose = (words: string[], env?: Record<string, string>) => Promise<string>;

/** The first that is there: the Python one of Debian, or the plug-in. */
const composeCommand = async (): Promise<[string, ...string[]]> => {
  for (const command of [["docker-compose"], ["docker", "compose"]] as Array<[string, ...string[]]>) {
    const [program, ...words] = command;
    if (
      await shell(program, [...words, "version"]).then(
        () => true,
        () => false,
      )
    )
      return command;
  }
  throw new Error("docker compose is not installed (apt-get install docker-compose)");
};

/**
 * An image with Node.js and npm for `BASE`: undefined where the registry's own can be had, else this machine's Node.js on the base that the guests
 * stand on. Gives its name and the way to remove it.
 */
const nodeImage = async (): Promise<{ name: string; remove(): Promise<void> } | undefined> => {
  const there = await docker.listImages({ filters: { reference: [localBase] } });
  if (there.length === 0) return undefined;
  const context = mkdtempSync(join(tmpdir(), "backlot-node-"));
  try {
    const npm = dirname(dirname(realpathSync((await shell("sh", ["-c", "command -v npm"])).stdout.trim())));
    cpSync(realpathSync(process.execPath), join(context, "node"));
    cpSync(npm, join(context, "npm"), { recursive: true, dereference: true });
    // Whom this machine trusts, the build trusts: a registry may stand behind somebody's own authority.
    const trusted = process.env.NODE_EXTRA_CA_CERTS ?? "/etc/ssl/certs/ca-certificates.crt";
    cpSync(realpathSync(trusted), join(context, "trusted.crt"));
    writeFileSync(
      join(context, "Dockerfile"),
      [
        `FROM ${localBase}`,
        "COPY node /usr/local/bin/node",
        "COPY npm /usr/local/lib/node_modules/npm",
        "COPY trusted.crt /etc/ssl/certs/ca-certificates.crt",
        "ENV NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt",
        "RUN ln -s ../lib/node_modules/npm/bin/npm-cli.js /usr/local/bin/npm",
        "",
      ].join("\n"),
    );
    const name = "backlot-test/node";
    await shell("docker", ["build", "-q", "-t", name, context], { env: { ...process.env, DOCKER_BUILDKIT: "0" } });
    return { name, remove: async () => void (await docker.getImage(name).remove({ force: true })) };
  } finally {
    rmSync(context, { recursive: true, force: true });
  }
};

/** `docker compose` on docker/compose.yaml, with a project, an image name and a host name of the test's own. */
export const openCompose = async (project: string): Promise<{ compose: Compose; image: string; host: string; close(): Promise<void> }> => {
  const [program, ...first] = await composeCommand();
  const begunMs = Date.now() - 1_000;
  const base = await nodeImage();
  const image = `${project}-image`;
  const host = `${project}-host`;
  const scratch = mkdtempSync(join(tmpdir(), "backlot-compose-"));
  const override = join(scratch, "override.yaml");
  writeFileSync(override, `services:\n  backlot:\n    image: ${image}\n    hostname: ${host}\n`);
  const compose: Compose = async (words, env = {}) => {
    const files = ["-p", project, "-f", join(folder, "compose.yaml"), "-f", override];
    const options = { env: { ...process.env, DOCKER_BUILDKIT: "0", ...(base ? { BASE: base.name } : {}), ...env }, maxBuffer: 2 ** 26 };
    const { stdout } = await shell(program, [...first, ...files, ...words], options).catch((error) => {
      // A build that fails says why on standard output.
      throw new Error(`${String(error)}\n${String((error as { stdout?: string }).stdout ?? "").slice(-2_000)}`, { cause: error });
    });
    return stdout;
  };
  return {
    compose,
    image,
    host,
    close: async () => {
      await compose(["down", "-v"]);
      rmSync(scratch, { recursive: true, force: true });
      await docker
        .getImage(image)
        .remove({ force: true })
        .catch(() => {});
      // What the classic builder keeps of the first stage: half a gigabyte.
      const stages = await docker.listImages({ filters: { dangling: ["true"], label: ["io.backlot.build=stage"] } });
      for (const { Id, Created } of stages)
        if (Created * 1000 >= begunMs)
          await docker
            .getImage(Id)
            .remove()
            .catch(() => {});
      await base?.remove();
    },
  };
};
