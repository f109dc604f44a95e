#!/bin/bash
# Make a booted sandbox a site as a stranger has it: a real Slurm with four fake DGX servers whose exporters listen at
# their usual ports, and slurm.conf where Slurm's commands look for it.
# usage: site.sh ROOT PYTHON    (inside the sandbox; PYTHON with pyghmi)
set -Eeuo pipefail
here=$(dirname "$(realpath "$0")")
root=$1 python=$2
nodes=(dgx-a100-01 dgx-a100-02 dgx-v100-01 dgx-v100-02)
mkdir -p "$root"
for number in 1 2 3 4; do echo "127.0.1.$number ${nodes[number - 1]}" >> /etc/hosts; done
# Slurm refuses the mix of control groups that a sandbox on an older kernel shows; nothing here uses them.
REST_PORT=6820 CGROUP_CONF=CgroupPlugin=cgroup/v1 bash "$here/../stack/stack-up.sh" "$root" "$python"
mkdir -p /etc/slurm
ln -sfn "$root/slurm/etc/slurm.conf" /etc/slurm/slurm.conf

start() {
    local name=$1; shift
    setsid "$@" > "$root/log/$name.out" 2>&1 < /dev/null &
}
for number in 1 2 3 4; do
    # As on a server of its own: the exporter asks "the local" controller, which here listens on loopback.
    printf '    custom_args: {dcmi: ["-h", "127.0.1.%s:6230"]}\n' "$number" \
        | cat <(sed 's/collectors: .*/collectors: [dcmi]/' "$here/../stack/ipmi_exporter.yml") - > "$root/ipmi-$number.yml"
    start "ipmi-$number" prometheus-ipmi-exporter --config.file="$root/ipmi-$number.yml" --web.listen-address="127.0.1.$number:9290"
    start "node-$number" prometheus-node-exporter --web.listen-address="127.0.1.$number:9100"
done
until curl -fsS http://127.0.1.4:9290/metrics http://127.0.1.4:9100/metrics > /dev/null 2>&1; do sleep 0.1; done
