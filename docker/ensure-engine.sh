#!/usr/bin/env bash
# Gives a bare Debian machine a Docker engine: does nothing when one answers, else installs Debian's and starts the daemon,
# by systemd where that is PID 1, else by itself. Run it as often as you like. Needs root unless an engine answers already.
set -euo pipefail

wait_seconds=60
log=/var/log/backlot-dockerd.log
socket=/var/run/docker.sock
pid_file=/var/run/docker.pid

say() { echo "engine: $*" >&2; }
give_up() { say "$*"; exit 1; }

# Asks the socket itself: the `docker` command need not be there, and an engine elsewhere (DOCKER_HOST) counts as well.
answers() {
  if command -v docker >/dev/null; then timeout 5 docker version --format '{{.Server.Version}}' >/dev/null 2>&1; else
    command -v curl >/dev/null && [ "$(timeout 5 curl -fs --unix-socket "$socket" http://engine/_ping 2>/dev/null)" = OK ]
  fi
}

# True when the pid in file $1 is a live process called $2.
lives() {
  local pid
  pid=$(cat "$1" 2>/dev/null) && [ -n "$pid" ] && [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = "$2" ]
}

if answers; then
  say "an engine answers"
  exit 0
fi
[ "$(id -u)" = 0 ] || give_up "no engine answers, and installing or starting one needs root: sudo $0"

if ! command -v dockerd >/dev/null; then
  command -v apt-get >/dev/null || give_up "no dockerd here and no apt-get to get one with; install a Docker engine by hand"
  say "installing docker.io"
  apt-get update -qq >&2
  # A machine without an init system must not have its packages start daemons: we do that below.
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends docker.io iptables >&2 </dev/null
fi

if [ "$(cat /proc/1/comm)" = systemd ]; then
  say "starting docker by systemd"
  systemctl start docker >&2 </dev/null
  log="the journal (journalctl -u docker)"
elif lives "$pid_file" dockerd; then
  say "dockerd runs (pid $(cat "$pid_file")) but does not answer yet"
else
  # What a killed engine leaves behind. A pid file whose number another program has now stops dockerd from starting.
  rm -f "$pid_file"
  if ! lives /var/run/docker/containerd/containerd.pid containerd; then
    rm -f /var/run/docker/containerd/containerd.pid /var/run/docker/containerd/containerd.sock*
  fi
  mkdir -p /var/log
  if ! mountpoint -q /sys/fs/cgroup && [ -e /proc/cgroups ]; then
    say "mounting cgroups"
    mount -t cgroup2 none /sys/fs/cgroup >&2 || say "cgroups could not be mounted; the engine may not start"
  fi
  say "starting dockerd (log: $log)"
  # A daemon that keeps a descriptor of ours open makes whoever waits for the end of our output wait for ever.
  (
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      if [ "$fd" -gt 2 ]; then eval "exec $fd>&-"; fi
    done 2>/dev/null
    exec setsid dockerd --host "unix://$socket" </dev/null >>"$log" 2>&1
  ) </dev/null >/dev/null 2>&1 &
  disown
fi

for _ in $(seq $((wait_seconds * 4))); do
  if answers; then
    say "ready"
    exit 0
  fi
  sleep 0.25
done
[ -f "$log" ] && tail -n 20 "$log" >&2
give_up "no answer within $wait_seconds s; see $log"
