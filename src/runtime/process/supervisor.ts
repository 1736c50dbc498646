import { scriptFieldsOf } from "../../kernel/script-fields.js";
import type { MachineSpec } from "../driver.js";
import { markerEnvironment } from "./table.js";

/**
 * The first process of a machine. It leads the session and the process group, runs the deploy script once in the machine's life and
 * the services at every boot, and then is the machine's log: it sleeps in `dd` until somebody writes. It says `ready` on its
 * standard output when the machine runs.
 *
 * A fifo and not a pipeline: what a script leaves behind keeps its end open and must not end or block anything. `dd` and not `head`:
 * it hands on each piece as it comes and never reads more than it writes. 1,024 pieces of at most 4 KiB, twice: no log fills a disk.
 */
export const supervisorText = `#!/bin/sh
cd "$BACKLOT_MACHINE" || exit 1
umask 022
unset BACKLOT_ROLE
rm -f console && mkfifo -m 600 console && exec 3<>console || exit 1

say() { echo "backlot: $*"; }

# The number whole or not at all, and only when the log holds the script's last words.
note_exit() {
  say "deploy script ended with exit code $1"
  tries=0
  until grep -aqs "^backlot: deploy script ended" boot.log boot.log.1 || [ $tries -ge 20 ]; do
    sleep 0.02
    tries=$((tries + 1))
  done
  echo "$1" >script.exit.new && mv -f script.exit.new script.exit
}

# A volume is linked in when the machine runs, a moment after its start: what uses it would write beside it.
await_volumes() {
  tries=0
  for label in $BACKLOT_VOLUMES; do
    until [ -e "mnt/$label" ] || [ $tries -ge 100 ]; do
      sleep 0.1
      tries=$((tries + 1))
    done
  done
  [ $tries -lt 100 ] || say "not every volume is there after 10 s ($BACKLOT_VOLUMES); going on"
}

# Services that are not running yet. $1 is \`early\` while the script goes on: what fails then may want what the script has not brought yet,
# and is started again when it ends.
start_services() {
  for service in "$BACKLOT_SERVICES"/*; do
    [ -f "$service" ] && [ -x "$service" ] || continue
    name=\${service##*/}
    [ -e "early/$name" ] && ! [ -e "early/$name failed" ] && continue
    say "starting $name"
    if [ -n "$1" ]; then
      : >"early/$name"
      (cd "$HOME" && "$service" || : >"$BACKLOT_MACHINE/early/$name failed") &
    else
      (cd "$HOME" && exec "$service") &
    fi
  done
}

# A script may run for ever, as a server, say. Services wait for it this long.
start_early() {
  sleeper=
  say "the deploy script goes on after $BACKLOT_SCRIPT_PATIENCE s; starting the services that are there"
  start_services early
}

boot() {
  say "boot $BACKLOT_BOOTS of instance $BACKLOT_INSTANCE"
  if [ "$BACKLOT_MINIMAL" = 1 ]; then
    say "started to be repaired: no deploy script, no services"
    return
  fi
  await_volumes
  if [ -e script ] && ! [ -e script.exit ]; then
    if [ -e script.started ]; then
      say "the deploy script was cut off by a crash; it is not run again"
      note_exit 137
    else
      : >script.started
      (cd "$HOME" && exec "$BACKLOT_MACHINE/script") &
      script=$!
      trap start_early USR1
      booting=$(exec sh -c 'echo $PPID') # $$ is the supervisor here too
      (sleep "$BACKLOT_SCRIPT_PATIENCE" && kill -s USR1 "$booting") >/dev/null 2>&1 &
      sleeper=$!
      # \`wait\` ends for a signal too, and then the script is still there.
      while wait "$script"; code=$?; kill -0 "$script" 2>/dev/null; do :; done
      [ -z "$sleeper" ] || kill "$sleeper" 2>/dev/null
      trap : USR1 # not ignored: services would inherit that
      note_exit "$code"
    fi
  fi
  start_services
}

rm -rf early && mkdir early || exit 1
boot </dev/null >&3 2>&1 3>&- &
echo ready
exec >/dev/null 2>&1
while :; do
  { BACKLOT_ROLE=log dd bs=4096 count=1024 <&3 >>boot.log && mv -f boot.log boot.log.1; } ||
    BACKLOT_ROLE=log dd bs=4096 count=1024 <&3 >/dev/null || sleep 1
done
`;

/** `metadata.user_data`, decoded. */
export const userDataFile = (folder: string): string => `${folder}/user-data`;

/** NUL ends a string in an environment; nothing else is forbidden there. */
const printable = (text: string): string => text.replaceAll("\0", "");

/** The answers a script gets as variables. A shipped script gets those it declares: any other name could be `LD_PRELOAD`. */
const fieldVariables = ({ script }: MachineSpec): Record<string, string> => {
  if (!script) return {};
  const declared = new Set(scriptFieldsOf(script.text).fields.map(({ name }) => name));
  const mayHave = (name: string): boolean => (script.shipped ? declared.has(name) : /^[A-Za-z_]\w*$/.test(name));
  return Object.fromEntries(Object.entries(script.data).flatMap(([name, value]) => (mayHave(name) ? [[name, printable(value)]] : [])));
};

/**
 * The whole environment of a machine: nothing is inherited from Backlot, whose own environment may hold tokens. The same names exist
 * in a guest of the Docker runtime, so that one script runs on both.
 */
export const machineEnvironment = (
  spec: MachineSpec,
  place: { owner: string; stateFolder: string; folder: string; bindAddresses: readonly string[]; scriptPatienceMs: number },
): Record<string, string> => ({
  ...fieldVariables(spec),
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
  LANG: "C.UTF-8",
  HOME: `${place.folder}/root`,
  BACKLOT_MACHINE: place.folder,
  BACKLOT_SERVICES: `${place.folder}/services`,
  BACKLOT_LABEL: printable(spec.label),
  BACKLOT_REGION: spec.region,
  BACKLOT_VOLUMES: (spec.volumes ?? []).map(({ label }) => label).join(" "),
  BACKLOT_PRIVATE_ADDRESS: spec.privateAddresses[0] ?? "",
  BACKLOT_PUBLIC_ADDRESS: spec.publicAddresses[0] ?? "",
  BACKLOT_MINIMAL: spec.minimal ? "1" : "",
  BACKLOT_USER_DATA: spec.userData ? userDataFile(place.folder) : "",
  /** The Node that runs Backlot: the one program a script can count on here. */
  BACKLOT_NODE: process.execPath,
  BACKLOT_SCRIPT_PATIENCE: String(place.scriptPatienceMs / 1000),
  BACKLOT_ROLE: "supervisor",
  ...markerEnvironment({ ...place, instance: spec.instance, fingerprint: spec.fingerprint, boots: spec.boots }),
});
