#!/usr/bin/env bash
# Does a volume grow while a process writes to it? The kernel lets those do it who have SYS_RESOURCE, and an engine in a sandbox has it not to
# give. So the helper's own program is run where it is there: in an emulated machine (QEMU, no KVM needed) with Debian's kernel and the guest
# image as its root, in memory. Needs a Docker engine with the guest image, root, and Debian's archive (100 MB, once a run). About a minute.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
say() { printf 'grow-in-use: %s\n' "$*" >&2; }
give_up() {
  say "$*"
  exit 1
}
[ "$(dpkg --print-architecture)" = amd64 ] || give_up "this machine is no amd64"

say "fetching the emulator and a kernel"
mkdir -p "$work/debs/partial" "$work/x"
apt-get -o Acquire::Retries=3 update -qq
kernel=$(apt-cache depends linux-image-cloud-amd64 | awk '/Depends: linux-image/ { print $2; exit }')
[ -n "$kernel" ] || give_up "the archive has no linux-image-cloud-amd64"
emulator=$(command -v qemu-system-x86_64 || true)
wanted=("$kernel")
[ -n "$emulator" ] || wanted+=(qemu-system-x86)
# Nothing is installed: what is downloaded is unpacked beside the system.
apt-get -o Acquire::Retries=3 install -y -qq --no-install-recommends --download-only -o Dir::Cache::archives="$work/debs" "${wanted[@]}" >/dev/null 2>&1 ||
  give_up "apt-get could not download ${wanted[*]}"
for deb in "$work"/debs/*.deb; do dpkg -x "$deb" "$work/x"; done
[ -n "$emulator" ] || emulator=$work/x/usr/bin/qemu-system-x86_64
libraries=$(find "$work/x" -name '*.so*' -printf '%h\n' | sort -u | tr '\n' ':')

image=$(docker images --filter label=io.backlot.guest=debian12 --format '{{.Repository}}:{{.Tag}}' | head -n 1)
[ -n "$image" ] || give_up "there is no guest image; docker/ensure-guest.sh makes it"
say "making its root of $image"
mkdir "$work/root"
box=$(docker create --network none "$image")
docker export "$box" | tar -x -C "$work/root" --exclude=usr/share/doc --exclude=usr/share/locale --exclude=usr/share/man
docker rm "$box" >/dev/null
find "$work/x" -name loop.ko -exec cp {} "$work/root/" \;
cp "$here/../../docker/volumes/backlot-volume.py" "$here/grow-in-use.init" "$work/root/"
chmod 0755 "$work/root/grow-in-use.init"
chroot "$work/root" sh -c 'find . -xdev -print | busybox cpio -o -H newc 2>/dev/null' >"$work/initrd"

say "booting $kernel"
LD_LIBRARY_PATH=$libraries timeout 240 "$emulator" -L "$work/x/usr/share/seabios" -L "$work/x/usr/share/qemu" -accel tcg,thread=multi -cpu max \
  -m 1400 -nographic -no-reboot -net none -kernel "$work"/x/boot/vmlinuz-* -initrd "$work/initrd" \
  -append "console=ttyS0 rdinit=/grow-in-use.init panic=-1 quiet" </dev/null >"$work/out" 2>&1 || say "the emulator ended with $?"
tr -d '\r' <"$work/out" | sed -n '/== begin/,/== end/p'
grep -q '^== good' "$work/out" || { tail -n 20 "$work/out" >&2; give_up "it did not grow as it should"; }
