#!/bin/bash
# Boot a real systemd as PID 1 of private PID, mount, UTS, IPC and cgroup namespaces, on a writable overlay of this root
# in memory: nothing outside changes. The network is the host's, so that units reach servers on loopback; NETWORK=own is
# one of its own, for what listens at ports that others use too: loopback, with an address beside 127.0.0.1, without
# which Slurm listens nowhere.
# usage: sandbox.sh start DIR [SOURCE:PLACE...]    the sources are bound read-only at these places inside
#        sandbox.sh exec DIR COMMAND...
#        sandbox.sh stop DIR                       (root; packages systemd and dbus)
set -Eeuo pipefail
action=$1 dir=$(realpath -m "$2")
shift 2
name=idlewatt-$(basename "$dir")
hierarchy=/sys/fs/cgroup
[ -e $hierarchy/cgroup.procs ] || hierarchy=/sys/fs/cgroup/unified   # beside version 1
cgroup=$hierarchy/$name

inside() { nsenter --target "$(tr -d " " < "$dir/pid")" --mount --pid --uts --ipc --cgroup --net "$@"; }
running() { inside systemctl is-system-running 2> /dev/null | grep -qE 'running|degraded'; }

start() {
    mkdir -p "$dir" "$cgroup"
    printf '%s' "${@/%/$'\n'}" > "$dir/bound"
    local apart=(--pid --mount --uts --ipc --cgroup)
    [ "${NETWORK-}" != own ] || apart+=(--net)
    setsid bash -c 'echo $$ > "$1/cgroup.procs"; shift; exec unshare --fork "$@"' \
        - "$cgroup" "${apart[@]}" "$(realpath "$0")" boot "$dir" > "$dir/boot.log" 2>&1 < /dev/null &
    local outside=$!
    for _ in $(seq 3000); do
        if cat "/proc/$outside/task/$outside/children" > "$dir/pid" 2> /dev/null && [ -s "$dir/pid" ] && running; then
            [ "${NETWORK-}" != own ] || inside ip address add 192.0.2.1/32 dev lo
            return
        fi
        sleep 0.1
    done
    echo "systemd did not come up: see $dir/boot.log" >&2
    return 1
}

boot() {  # already PID 1
    local root=$dir/root/merged source place
    mount --make-rprivate /
    mkdir -p "$dir/root"
    mount -t tmpfs tmpfs "$dir/root"
    mkdir "$dir"/root/{changed,work,merged}
    mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/root/changed,workdir=$dir/root/work" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mount -t sysfs -o ro sysfs "$root/sys"
    mount -t tmpfs tmpfs "$root/sys/fs/cgroup" 2> /dev/null || true
    mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
    while IFS=: read -r source place; do
        mkdir -p "$root$place"
        mount --bind -o ro "$source" "$root$place"
    done < "$dir/bound"
    quiet "$root"
    cd "$root"
    mkdir -p mnt/outside
    pivot_root . mnt/outside
    umount -l /mnt/outside
    exec env -i container=sandbox PATH=/usr/sbin:/usr/bin:/sbin:/bin \
        /lib/systemd/systemd --system --unit=sandbox.target --log-target=journal
}

quiet() {  # nothing of the host's own services, no hardware, no network set-up
    local units=$1/etc/systemd/system unit
    rm -rf "$units"/*.wants
    echo 0123456789abcdef0123456789abcdef > "$1/etc/machine-id"
    : > "$1/etc/fstab"
    printf '[Unit]\nRequires=basic.target dbus.socket\nAfter=basic.target\n' > "$units/sandbox.target"
    for unit in kmod-static-nodes systemd-{logind,modules-load,networkd,remount-fs,resolved,sysctl,timesyncd,udev-trigger,udevd}; do
        ln -sf /dev/null "$units/$unit.service"
    done
}

stop() {
    kill -9 "$(tr -d " " < "$dir/pid")" 2> /dev/null || true    # its namespace dies with it
    for _ in $(seq 100); do
        find "$cgroup" -depth -type d -exec rmdir {} + 2> /dev/null || true
        [ -e "$cgroup" ] || break
        sleep 0.1
    done
    rm -rf "$dir"
}

case $action in
    start) start "$@" ;;
    boot) boot ;;
    exec) inside "$@" ;;
    stop) stop ;;
esac
