#!/bin/bash
# Start the whole chain under ROOT: Slurm, a stand-in for dcgm-exporter and BMCs, and the real ipmi_exporter, node_exporter, Prometheus.
# usage: stack-up.sh ROOT [PYTHON with pyghmi]
set -Eeuo pipefail
trap 'echo "$0: failed at line $LINENO; logs are under $1" >&2' ERR
here=$(dirname "$(realpath "$0")")
root=$(realpath -m "${1:?usage: stack-up.sh ROOT [PYTHON]}")
python=${2:-python3}
export IDLEWATT_STACK=$root   # stack-down.sh knows our processes by it
mkdir -p "$root"/{log,run,watts,rules}
cp "$here/prometheus.yml" "$root/"

start() {
    local name=$1; shift
    setsid "$@" > "$root/log/$name.out" 2>&1 < /dev/null &
    echo $! > "$root/run/$name.pid"
}

bash "$here/slurm-up.sh" "$root/slurm"
start dcgm "$python" "$here/fake_dcgm.py" "$root/slurm/jobmap" "$root/watts"
number=0
for node in dgx-a100-01 dgx-a100-02 dgx-v100-01 dgx-v100-02; do
    number=$((number + 1))
    start "bmc-$node" "$python" "$here/fake_bmc.py" "::ffff:127.0.1.$number" 6230 "$root/watts/$node"
done
start ipmi prometheus-ipmi-exporter --config.file="$here/ipmi_exporter.yml" --web.listen-address=127.0.0.1:19290
start node prometheus-node-exporter --web.listen-address=127.0.0.1:19100
start prometheus prometheus --config.file="$root/prometheus.yml" --storage.tsdb.path="$root/tsdb" \
    --web.enable-lifecycle --web.listen-address=127.0.0.1:19090
ready() { "$python" -c 'import sys, urllib.request; [urllib.request.urlopen(url, timeout=20) for url in sys.argv[1:]]' "$@"; }
for _ in $(seq 1000); do
    ready http://127.0.0.1:19090/-/ready http://127.0.1.4:9400/metrics 2> "$root/log/ready.out" && exit 0
    sleep 0.1
done
echo "Prometheus or the dcgm stand-in did not come up: see $root/log" >&2
exit 1
