#!/usr/bin/env bash
# Makes the root file system of a Debian-family release as a tar file, for machines that reach no image registry.
# usage: base-tarball.sh SUITE OUT.tar [MIRROR]     needs root (debootstrap makes devices and changes root)
set -euo pipefail

suite=${1:?a suite such as bookworm}
out=${2:?a path for the tar file}
mirror=${3:-http://deb.debian.org/debian}

say() { echo "base $suite: $*" >&2; }
give_up() { say "$*"; exit 1; }

if [ "$(id -u)" != 0 ]; then give_up "debootstrap needs root; run 'sudo docker/ensure-guest.sh' once"; fi

if ! command -v debootstrap >/dev/null; then
  command -v apt-get >/dev/null || give_up "debootstrap is not installed and this machine has no apt-get to get it with"
  say "installing debootstrap"
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends debootstrap >&2
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/backlot-base.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "downloading from $mirror (one to three minutes)"
if ! debootstrap --variant=minbase "$suite" "$work/root" "$mirror" >"$work/log" 2>&1; then
  tail -n 5 "$work/log" >&2
  give_up "debootstrap failed"
fi

# The release's security updates, which debootstrap does not set up by itself.
case $mirror in
  *debian.org*) echo "deb http://deb.debian.org/debian-security $suite-security main" >>"$work/root/etc/apt/sources.list" ;;
esac
rm -rf "$work/root/var/cache/apt/archives/"*.deb "$work/root/var/lib/apt/lists/"* "$work/root/etc/machine-id"
find "$work/root/usr/share/doc" "$work/root/usr/share/man" "$work/root/usr/share/locale" -type f ! -name copyright -delete
# The engine gives every container its own.
rm -f "$work/root/etc/hostname" "$work/root/etc/resolv.conf"

say "packing"
tar -C "$work/root" --numeric-owner -cf "$out.partial" .
mv "$out.partial" "$out"
say "done ($(du -h "$out" | cut -f1))"
