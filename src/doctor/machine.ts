import { constants, type StatsFs } from "node:fs";
import { access, stat, statfs } from "node:fs/promises";
import { dirname } from "node:path";
import { stateOwner } from "../store/state-owner.js";
import { type Finding, good, note, problem, quoted } from "./finding.js";

const leastFreeMib = 512;
const mib = ({ bavail, bsize }: StatsFs): number => Math.floor((bavail * bsize) / 1024 ** 2);

/** The folder itself, or the nearest one above it that is there. */
const standing = async (folder: string): Promise<string> => {
  const there = await stat(folder).then(
    () => true,
    () => false,
  );
  return there || dirname(folder) === folder ? folder : standing(dirname(folder));
};

/** Room where something is kept. Pure. */
const roomFinding = (freeMib: number, what: string, remedy: string): Finding =>
  freeMib < leastFreeMib
    ? problem("disk", `${freeMib} MiB are free where ${what}; at least ${leastFreeMib} are wanted.`, remedy)
    : good("disk", `${freeMib} MiB are free where ${what}.`);

/** What lets this user write a state at `state`, of which `place` is the part that is there. */
const writeRemedy = async (state: string, place: string, code: string | undefined): Promise<string> => {
  const elsewhere = "export BACKLOT_STATE=/var/tmp/backlot";
  if (code === "EROFS") return elsewhere;
  const { uid } = await stat(place);
  if (uid === process.getuid?.()) return `chmod u+rwx ${quoted(place)}`;
  if (place === state) return `sudo chown -R "$(id -u):$(id -g)" ${quoted(state)}`;
  // The folder above may be everybody's, and stays whose it is.
  const isEntered = await access(place, constants.X_OK).then(
    () => true,
    () => false,
  );
  return isEntered ? `sudo install -d -m 700 -o "$(id -u)" -g "$(id -g)" ${quoted(state)}` : elsewhere;
};

/** Where the state is kept: room, rights, and that it can be read. */
export const stateFindings = async (state: string): Promise<Finding[]> => {
  const place = await standing(state);
  const findings: Finding[] = [];
  if (!(await stat(place)).isDirectory())
    return [problem("disk", `The state folder cannot be ${state}: ${place} is a file.`, "export BACKLOT_STATE=/var/tmp/backlot")];
  try {
    await access(place, constants.W_OK | constants.X_OK);
  } catch (error) {
    const code = (error as NodeJS.ErrnoException).code;
    const remedy = await writeRemedy(state, place, code);
    findings.push(problem("disk", `The state folder ${state} cannot be written: ${code} at ${place}.`, remedy));
  }
  if (place === state) {
    const { mode } = await stat(state);
    if ((mode & 0o077) !== 0)
      findings.push(problem("disk", `Other users of this machine can look into the state folder ${state}.`, `chmod 700 ${quoted(state)}`));
    if ((await stateOwner(state)) === "unreadable") {
      const remedy = `mv ${quoted(state)} ${quoted(`${state}.damaged`)}`;
      findings.push(
        problem("disk", `There is a state in ${state} that cannot be read; a start says which file, and whether there is a copy.`, remedy),
      );
    }
  }
  const room = await statfs(place);
  findings.push(roomFinding(mib(room), `the state is kept (${state})`, `df -h ${quoted(place)} && export BACKLOT_STATE=/a/folder/on/a/larger/disk`));
  if (room.files > 0 && room.ffree < 1_000)
    findings.push(problem("disk", `Only ${room.ffree} files can still be made where the state is kept (${state}).`, `df -i ${quoted(place)}`));
  return findings;
};

/** The engine keeps machines and images there; asked where that folder is this machine's. */
export const engineRoomFindings = async (folder: string): Promise<Finding[]> => {
  const room = await statfs(folder).catch(() => undefined);
  return room ? [roomFinding(mib(room), `the engine keeps machines (${folder})`, "docker image prune")] : [];
};

/** Certificates, tokens and bills are about time. Pure. */
export const clockFindings = (nowMs: number, builtMs: number, engineMs: number | undefined): Finding[] => {
  const mend = "sudo timedatectl set-ntp true";
  const now = new Date(nowMs).toISOString();
  if (nowMs < builtMs) return [problem("clock", `This machine's clock says ${now}, which is before this Backlot was made.`, mend)];
  if (engineMs === undefined) return [good("clock", `This machine's clock says ${now}.`)];
  const apartS = Math.round((engineMs - nowMs) / 1000);
  if (Math.abs(apartS) <= 2) return [good("clock", `This machine's clock says ${now}, and the engine's agrees.`)];
  const text = `The engine's clock is ${Math.abs(apartS)} s ${apartS > 0 ? "ahead of" : "behind"} this machine's.`;
  return [Math.abs(apartS) > 60 ? problem("clock", text, mend) : note("clock", text, mend)];
};
