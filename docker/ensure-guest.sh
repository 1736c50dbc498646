#!/usr/bin/env bash
# Makes the guest image that instances of an image slug boot from; quick when it is there. The driver makes it by itself when it is
# first needed: this is for having it beforehand. One home for the facts: names, hash and build are in src/runtime/docker/guest-image.ts.
# usage: ensure-guest.sh [SLUG]      default cloud/debian12; prints the image's tag
set -euo pipefail

cd "$(dirname "$0")/.."
slug=${1:-cloud/debian12}
say() { echo "guest: $*" >&2; }

command -v node >/dev/null || { say "Node 20 or newer is needed"; exit 1; }
if ! [ -e dist/runtime/docker/guest-image.js ]; then
  say "Backlot is not built yet: npm ci"
  npm ci --no-audit --no-fund >&2 </dev/null
fi

exec node --input-type=module - "$slug" <<'NODE'
const { defaultImageMap, guestImages } = await import(`${process.cwd()}/dist/runtime/docker/guest-image.js`);
const onProgress = (line) => console.error(line);
try {
  const images = guestImages(undefined, { imageMap: await defaultImageMap(), imageFallback: undefined, owner: "", ownImages: {}, onProgress });
  console.log((await images.ensure(process.argv[2])).tag);
} catch (error) {
  console.error(error.message);
  process.exitCode = 1;
}
NODE
