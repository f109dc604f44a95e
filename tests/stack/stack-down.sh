#!/bin/bash
# Stop what stack-up.sh started under ROOT, by recorded pids, and delete ROOT.
# usage: stack-down.sh ROOT
root=$(realpath -m "${1:?usage: stack-down.sh ROOT}")
export SLURM_CONF=$root/slurm/etc/slurm.conf

# A pid of a file is ours only while that process still names ROOT or was started by it: never kill a stranger.
ours() { [ -r "/proc/$1/stat" ] && ! grep -q ') Z ' "/proc/$1/stat" && grep -qs "$root" "/proc/$1/environ" "/proc/$1/cmdline"; }
stop() {
    local file pid
    for file in "$@"; do
        [ -s "$file" ] || continue
        pid=$(cat "$file")
        ours "$pid" || continue
        kill "$pid"
        for _ in $(seq 100); do ours "$pid" || continue 2; sleep 0.05; done
        kill -9 "$pid"
    done
}

# Running jobs first: a killed slurmd leaves its slurmstepd behind.
if [ -s "$root/slurm/run/slurmctld.pid" ]; then
    timeout 5 scancel --quiet --state=PENDING
    timeout 5 scancel --quiet --state=SUSPENDED
    timeout 5 scancel --quiet --state=RUNNING
    for _ in $(seq 100); do [ -z "$(timeout 2 squeue -h 2> /dev/null)" ] && break; sleep 0.1; done
fi
stop "$root"/run/*.pid
stop "$root"/slurm/run/restd-*.pid "$root"/slurm/run/slurmd-*.pid
stop "$root/slurm/run/slurmctld.pid"
stop "$root/slurm/run/slurmdbd.pid"
stop "$root/slurm/run/mariadbd.pid" "$root/slurm/munge/pid"
rm -rf "$root"
