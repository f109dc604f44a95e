"""Record what real Slurm says of a rich moment into tests/recorded/slurm: `python tests/stack/record.py` (root).

User names, paths and the kernel's build are replaced by neutral ones; nothing else is touched.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

import requests
from chain import Chain, running_chain

from idlewatt.exporters.slurm.parse_text import SACCT_FIELDS

RECORDED = Path(__file__).parents[1] / "recorded/slurm"
NEUTRAL = ((r"\bnobody\b", "alice"), (r"\bnogroup\b", "users"), (r"Linux [^\",\n]*", "Linux 6.1.0"))
COMMANDS = {
    "sinfo.json": ("sinfo", "--json"),
    "scontrol_show_job_d.txt": ("scontrol", "show", "job", "-d"),
    "scontrol_show_partition_o.txt": ("scontrol", "show", "partition", "-o"),
    "scontrol_show_reservation_o.txt": ("scontrol", "show", "reservation", "-o"),
    "scontrol_show_topology.txt": ("scontrol", "show", "topology"),
    "sinfo_N.txt": ("sinfo", "-N", "-o", "%N|%T|%G|%R"),
}
SACCT = ("sacct", "-a", "-D", "-P", "-X", "-S", "now-1hour", f"--format={','.join(SACCT_FIELDS)}")
REST = {
    "rest_jobs.json": "slurm/v0.0.38/jobs",
    "rest_nodes.json": "slurm/v0.0.38/nodes",
    "rest_partitions.json": "slurm/v0.0.38/partitions",
    "rest_reservations.json": "slurm/v0.0.38/reservations",
    "rest_ping.json": "slurm/v0.0.38/ping",
}


def submit_scenario(chain: Chain) -> None:
    """Fill the cluster so that every kind of job and of waiting is there at once."""
    first = chain.sbatch("-p", "A100", "-J", "bert-ft", "--gres=gpu:a100:2", "-c16", "-t10")
    chain.wait_for(lambda: chain.run("squeue", "-h", "-j", first, "-o", "%t").strip() == "R")
    chain.requeue(first)
    chain.sbatch("-p", "A100", "-J", "gpt-pretrain", "-N2", "--gres=gpu:a100:4", "-c32", "-t20")
    chain.sbatch("-p", "V100", "-J", "sweep", "--gres=gpu:v100:4", "-c8", "--array=0-7%2", "-t30")
    chain.wait_for(lambda: chain.run("squeue", "-h", "-t", "RUNNING").count("\n") == 4)
    chain.sbatch("-p", "A100", "-J", "llama-big", "-N2", "--gres=gpu:a100:8", "-c64", "-t5")
    chain.sbatch("-p", "A100", "-J", "resnet50", "--gpus=12", "-t30")
    chain.sbatch("-p", "A100", "-J", "after", "--gres=gpu:1", f"--dependency=afterok:{first}", "-t5")
    chain.sbatch("-p", "A100", "-J", "held", "--hold", "--gres=gpu:a100:1", "-t5")
    chain.sbatch("-p", "A100", "-J", "pinned", "--gres=gpu:a100:8", "-w", "dgx-a100-02", "-x", "dgx-a100-01",
                 "-C", "a100&nvswitch", "--exclusive", "-t5")
    chain.sbatch("-p", "A100", "-J", "per-task", "-n4", "--gpus-per-task=4", "-t5")
    chain.sbatch("-J", "mpmd", "-p", "V100", "-t5", "--gres=gpu:v100:8", ":", "-p", "A100", "--gres=gpu:a100:8")
    ends = [chain.sbatch("-p", "A100", "-J", "short", "--gres=gpu:a100:1", "-t5", script="sleep 1"),
            chain.sbatch("-p", "A100", "-J", "broken", "--gres=gpu:a100:1", "-t5", script="exit 3")]
    for job in ends:
        chain.wait_for(partial(_has_ended, chain, job))
    chain.wait_for(lambda: {"Resources", "Priority"} <= set(chain.run("squeue", "-h", "-o", "%r").split()))


def _has_ended(chain: Chain, job: str) -> bool:
    return re.search(r"\d", chain.run("sacct", "-n", "-X", "-o", "End", "-j", job)) is not None


def take_nodes_away(chain: Chain) -> None:
    chain.run("scontrol", "update", "nodename=dgx-v100-02", "state=drain", "reason=bad NVLink")
    chain.run("scontrol", "create", "reservation", "reservationname=maint", "starttime=now", "duration=60",
              "nodes=dgx-a100-02", "users=root", "flags=maint,ignore_jobs")
    chain.wait_for(lambda: "MAINT" in chain.run("scontrol", "show", "node", "dgx-a100-02"))


def neutral(text: str, chain: Chain) -> str:
    for pattern, replacement in (*NEUTRAL, (re.escape(str(chain.root)), "/srv")):
        text = re.sub(pattern, replacement, text)
    return text


def get(chain: Chain, path: str) -> str:
    headers = {"X-SLURM-USER-NAME": "root", "X-SLURM-USER-TOKEN": chain.token()}
    return requests.get(f"{chain.rest_url}/{path}", headers=headers, timeout=20).text


def keep(name: str, read: Callable[[], str], chain: Chain) -> None:
    (RECORDED / name).write_text(neutral(read(), chain))


def end_all(chain: Chain) -> None:
    chain.cancel_all()
    runs = ("sacct", "-n", "-D", "-X", "-P", "-S", "now-1hour", "-o", "JobName,End")
    chain.wait_for(lambda: len(re.findall(r"bert-ft\|\d", chain.run(*runs))) == 2)


def give_up(chain: Chain) -> None:
    """Cancel a job while it waits, and the one that it waited for."""
    wide = chain.sbatch("-p", "A100", "-J", "wide", "-N2", "--gres=gpu:a100:8", "-t20")
    chain.wait_for(lambda: chain.run("squeue", "-h", "-j", wide, "-t", "RUNNING"))
    waiting = chain.sbatch("-p", "A100", "-J", "given-up", "--gres=gpu:a100:2", "-t5")
    chain.wait_for(lambda: chain.run("squeue", "-h", "-j", waiting, "-o", "%r").strip() == "Resources")
    chain.run("scancel", waiting)
    chain.cancel_all()


def main() -> None:
    RECORDED.mkdir(parents=True, exist_ok=True)
    with running_chain() as chain:
        submit_scenario(chain)
        keep("squeue.json", lambda: chain.run("squeue", "--json"), chain)
        take_nodes_away(chain)
        for name, argv in COMMANDS.items():
            keep(name, partial(chain.run, *argv), chain)
        for name, path in REST.items():
            keep(name, partial(get, chain, path), chain)
        end_all(chain)
        keep("sacct.txt", lambda: chain.run("env", "TZ=UTC", *SACCT), chain)
        keep("rest_slurmdb_jobs.json", lambda: get(chain, "slurmdb/v0.0.38/jobs?skip_steps=true"), chain)
        give_up(chain)
        keep("rest_jobs_cancelled.json", lambda: get(chain, REST["rest_jobs.json"]), chain)


if __name__ == "__main__":
    main()
