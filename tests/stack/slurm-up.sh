#!/bin/bash
# Start a whole Slurm under ROOT on loopback: munge, MariaDB, slurmdbd, slurmctld, its slurmds, slurmrestd on a socket and TCP.
# usage: slurm-up.sh ROOT [TEMPLATES]   (root; Debian 12 with debian-packages.txt; nothing outside ROOT is touched)
# TEMPLATES, a folder like slurm/, tells the nodes and ports; REST_PORT is that of slurmrestd, '' leaves TCP away.
# CGROUP_CONF is what cgroup.conf says; nothing by default.
set -Eeuo pipefail
trap 'echo "$0: failed at line $LINENO; logs are under $1" >&2' ERR
here=$(dirname "$(realpath "$0")")
root=$(realpath -m "${1:?usage: slurm-up.sh ROOT [TEMPLATES]}")
templates=$(realpath "${2:-$here/slurm}")
rest_port=${REST_PORT-16820}
setting() { sed -n "s|^$1=\([^ ]*\).*|\1|p" "$templates/$2"; }
nodes=$(setting NodeName slurm.conf.in)
dbd_port=$(setting DbdPort slurmdbd.conf.in)

until_ok() {  # seconds, command...: try until it succeeds
    local deadline=$((SECONDS + $1)); shift
    until "$@" > /dev/null 2>&1; do
        if [ "$SECONDS" -ge "$deadline" ]; then echo "gave up waiting for: $*" >&2; return 1; fi
        sleep 0.1
    done
}
start() {  # name, command...: in its own session, holding none of our file descriptors
    local name=$1; shift
    setsid "$@" > "$root/log/$name.out" 2>&1 < /dev/null &
    echo $! > "$root/run/$name.pid"
}

mkdir -p "$root"/{etc,log,run,spool,state,mysql,dev,munge,restd,jobmap}
chmod 755 "$root" "$root/etc"
for template in "$templates"/*; do
    sed -e "s|@ROOT@|$root|g" -e "s|@HOST@|$(hostname -s)|g" "$template" > "$root/etc/$(basename "$template" .in)"
done
printf "%s\n" "${CGROUP_CONF-}" > "$root/etc/cgroup.conf"
chmod 600 "$root/etc/slurmdbd.conf"   # slurmdbd insists
for program in gpu-map oci-runtime; do [ ! -e "$root/etc/$program" ] || chmod 755 "$root/etc/$program"; done
head -c 32 /dev/urandom > "$root/etc/jwt.key"
chmod 600 "$root/etc/jwt.key"
for gpu in 0 1 2 3 4 5 6 7; do mknod -m 666 "$root/dev/nvidia$gpu" c 1 3; done
export SLURM_CONF=$root/etc/slurm.conf

head -c 128 /dev/urandom > "$root/munge/key"
chown -R munge:munge "$root/munge"
chmod 700 "$root/munge/key"
chmod 711 "$root/munge"
runuser -u munge -- /usr/sbin/munged --force --key-file="$root/munge/key" --socket="$root/munge/sock" \
    --pid-file="$root/munge/pid" --log-file="$root/munge/log" --seed-file="$root/munge/seed"

mkdir "$root/mysql/data"
chown -R mysql:mysql "$root/mysql"
# Now and then it fails beside others of its kind.
flock "${TMPDIR:-/tmp}/idlewatt-mariadb.lock" mariadb-install-db --no-defaults --user=mysql --datadir="$root/mysql/data" \
    --auth-root-authentication-method=normal --skip-test-db > "$root/log/mysql-install.log" 2>&1
start mariadbd mariadbd --no-defaults --user=mysql --datadir="$root/mysql/data" --socket="$root/mysql/sock" \
    --skip-networking --innodb-buffer-pool-size=128M --innodb-lock-wait-timeout=900
until_ok 30 mariadb-admin --no-defaults -S "$root/mysql/sock" -uroot ping

# libmariadb takes its socket from MYSQL_UNIX_PORT when StorageHost=localhost.
MYSQL_UNIX_PORT=$root/mysql/sock start slurmdbd slurmdbd -D
until_ok 30 bash -c 'exec 3<> /dev/tcp/127.0.0.1/"$0"' "$dbd_port"
sacctmgr -i add cluster "$(setting ClusterName slurm.conf.in)" > "$root/log/sacctmgr.out" 2>&1
# Accounts that are there when the controller starts are in its first reckoning of fair-share.
[ ! -e "$root/etc/accounts" ] || bash "$root/etc/accounts" >> "$root/log/sacctmgr.out" 2>&1
# The daemons look at argv[0]: under their Debian names (slurmctld-wlm) they crash.
start slurmctld slurmctld -D
for node in $nodes; do
    mkdir -p "$root/spool/$node"
    start "slurmd-$node" slurmd -N "$node" -D
done

# slurmrestd refuses root. On the socket the peer's uid authenticates; on TCP a JWT does.
chown nobody "$root/restd"
chmod 755 "$root/restd"
as_nobody="setpriv --reuid nobody --regid nogroup --clear-groups"
start restd-socket $as_nobody slurmrestd -a rest_auth/local -s openapi/v0.0.38,openapi/dbv0.0.38 "unix:$root/restd/sock"
# SLURM_JWT=daemon makes slurmrestd's own plugin jwt; otherwise munge rejects the user's token.
[ -z "$rest_port" ] || SLURM_JWT=daemon start restd-tcp $as_nobody slurmrestd -a rest_auth/jwt \
    -s openapi/v0.0.38,openapi/dbv0.0.38 "127.0.0.1:$rest_port"

all_idle() { [ "$(sinfo -h -N -t idle -o %N | sort -u | wc -l)" -eq "$(wc -w <<< "$nodes")" ]; }
until_ok 60 all_idle
until_ok 30 test -S "$root/restd/sock"
[ -z "$rest_port" ] || until_ok 30 bash -c 'exec 3<> /dev/tcp/127.0.0.1/"$0"' "$rest_port"
