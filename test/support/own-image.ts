import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { docker } from "./docker.js";

const shell = promisify(execFile);

/**
 * A container image that Backlot has not made: BusyBox from a guest, and nothing else, that serves `/www` on port 8080. No registry is needed.
 * Gives the way to remove it again.
 */
export const makeOwnImage = async (reference: string, guest: string): Promise<() => Promise<void>> => {
  const gather =
    "mkdir -p /out/bin /out/www && cp /bin/busybox /out/bin/ && cp -L --parents $(ldd /bin/busybox | grep -o '/[^ ]*') /out/ && echo own >/out/www/index.html && tar -c -C /out .";
  const entrypoint = 'ENTRYPOINT ["/bin/busybox", "httpd", "-f", "-p", "8080", "-h", "/www"]';
  const command = `set -o pipefail; docker run --rm --network none --entrypoint sh "$1" -c "$2" | docker import --change "$3" --change 'ENV WORD=own' - "$4"`;
  await shell("bash", ["-c", command, "bash", guest, gather, entrypoint, reference]);
  return async () => {
    await docker.getImage(reference).remove({ force: true });
  };
};
