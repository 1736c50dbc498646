// Fails when anything of ours is still there after everything was stopped: containers, networks, processes, temporary folders.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";

const docker = (...words) => execFileSync("docker", words, { encoding: "utf8" }).trim().split("\n").filter(Boolean);
const ourProcesses = () =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readFileSync(`/proc/${pid}/environ`, "latin1")
          .split("\0")
          .some((entry) => entry.startsWith("BACKLOT_OWNER="));
      } catch {
        return false;
      }
    });

const left = [
  ...docker("ps", "-a", "--filter", "label=io.backlot.owner", "--format", "container {{.Names}} {{.Status}}"),
  ...docker("network", "ls", "--filter", "label=io.backlot.owner", "--format", "network {{.Name}}"),
  ...ourProcesses().map((pid) => `process ${pid}`),
  ...readdirSync(tmpdir())
    .filter((name) => /^backlot-/.test(name))
    .map((name) => `folder ${name} in the temporary folder`),
];
for (const thing of left) process.stderr.write(`left behind: ${thing}\n`);
process.stdout.write(`left behind: ${left.length}\n`);
process.exitCode = left.length === 0 ? 0 : 1;
