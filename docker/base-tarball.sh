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

needed=()
command -v debootstrap >/dev/null || needed+=(debootstrap)
options=(--variant=minbase)
recipe=()
case $mirror in
  *ubuntu*)
    keyring=/usr/share/keyrings/ubuntu-archive-keyring.gpg
    [ -e "$keyring" ] || give_up "Ubuntu's archive key ($keyring, package ubuntu-keyring) is not on this machine, so what comes from $mirror could not be trusted"
    options+=(--keyring="$keyring" --components=main,universe)
    ;;
esac
if [ ${#needed[@]} -gt 0 ]; then
  command -v apt-get >/dev/null || give_up "${needed[*]} is missing and this machine has no apt-get to get it with"
  say "installing ${needed[*]}"
  apt-get update -qq >&2
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${needed[@]}" >&2 </dev/null
fi
# Debian's debootstrap does not know the newest Ubuntu by name; every one of them is made like the first it knew.
if ! [ -e "/usr/share/debootstrap/scripts/$suite" ]; then
  case $mirror in *ubuntu*) recipe=(gutsy) ;; esac
fi

work=$(mktemp -d "${TMPDIR:-/var/tmp}/backlot-base.XXXXXX")
trap 'rm -rf "$work"' EXIT

say "downloading from $mirror (one to three minutes)"
if ! debootstrap "${options[@]}" "$suite" "$work/root" "$mirror" "${recipe[@]}" >"$work/log" 2>&1; then
  tail -n 5 "$work/log" >&2
  give_up "debootstrap failed"
fi

# The release's updates, which debootstrap does not set up by itself.
case $mirror in
  *ubuntu*) echo "deb $mirror $suite-updates main universe" >>"$work/root/etc/apt/sources.list" ;;
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
