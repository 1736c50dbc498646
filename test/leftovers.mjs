// Fails when anything of ours that was made since the moment given (seconds since the epoch) is still there after everything was stopped:
// containers, networks, images made from machines, volumes, loop devices, processes, temporary folders. What was there before is somebody else's.
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const sinceMs = Number(process.argv[2] ?? 0) * 1000;
const lines = (...words) => execFileSync("docker", words, { encoding: "utf8" }).trim().split("\n").filter(Boolean);
const isNew = (text) => Date.parse(text) >= sinceMs;
const made = (kind, ids, name = "{{.Name}}") =>
  ids
    .map((id) => lines(kind, "inspect", "--format", `${name}\t{{.Created}}`, id)[0].split("\t"))
    .filter(([, created]) => isNew(created.replace(/^(\S+) (\S+) .*$/, "$1T$2Z")))
    .map(([name]) => `${kind} ${name}`);

const ourProcesses = () =>
  readdirSync("/proc")
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        const ours = readFileSync(`/proc/${pid}/environ`, "latin1")
          .split("\0")
          .some((entry) => entry.startsWith("BACKLOT_OWNER="));
        return ours && statSync(`/proc/${pid}`).ctimeMs >= sinceMs;
      } catch {
        return false;
      }
    });

/** Over a file of a volume of ours. The name tells; a loop device has no birthday, and none of ours outlives its mount. */
const ourLoops = () =>
  readdirSync("/sys/block").filter((name) => {
    try {
      return /\/backlot-[^/]+-volume-\d+\.ext4/.test(readFileSync(`/sys/block/${name}/loop/backing_file`, "utf8"));
    } catch {
      return false;
    }
  });

const ourFolders = () =>
  readdirSync(tmpdir()).filter((name) => {
    if (!/^backlot-/.test(name)) return false;
    return statSync(join(tmpdir(), name)).birthtimeMs >= sinceMs;
  });

const left = [
  ...made("container", lines("ps", "-aq", "--filter", "label=io.backlot.owner")),
  ...made("network", lines("network", "ls", "-q", "--filter", "label=io.backlot.owner")),
  ...lines("volume", "ls", "-q", "--filter", "label=io.backlot.owner")
    .filter((name) => isNew(lines("volume", "inspect", "--format", "{{.CreatedAt}}", name)[0]))
    .map((name) => `volume ${name}`),
  ...ourLoops().map((name) => `loop device ${name}`),
  ...made("image", lines("image", "ls", "-q", "--filter", "label=io.backlot.owner"), "{{.RepoTags}}"),
  ...ourProcesses().map((pid) => `process ${pid}`),
  ...ourFolders().map((name) => `folder ${name} in the temporary folder`),
];
for (const thing of left) process.stderr.write(`left behind: ${thing}\n`);
process.stdout.write(`left behind: ${left.length}\n`);
process.exitCode = left.length === 0 ? 0 : 1;
