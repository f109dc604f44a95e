"""The site: four nodes of four GPUs, an account tree, three qualities of service, two partitions."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from judge.clusters import free_ports
from judge.slurm import Rejected, Slurm, booted, wait_for

NODES, GPUS, CPUS, MEMORY_MB = 4, 4, 32, 128_000
ACCOUNTS = {"science": ("root", 3), "physics": ("science", 2), "biology": ("science", 1), "guests": ("root", 1)}
"""Account: the one above and its shares."""
USERS = {("physics", "games"): "2", ("physics", "man"): "1", ("biology", "news"): "5", ("biology", "man"): "parent",
         ("guests", "news"): "1", ("guests", "lp"): "1"}
PRIORITIES = {"science": 40, "biology": 100, ("guests", "lp"): 7}
"""Of accounts and users; what is below one inherits its."""
QOS = {"normal": 0, "high": 400, "urgent": 1000}
WEIGHTS = ("PriorityWeightAge=100000", "PriorityWeightFairShare=50000", "PriorityWeightJobSize=20000",
           "PriorityWeightPartition=8000", "PriorityWeightQOS=30000",
           "PriorityWeightTRES=CPU=3000,Mem=500,GRES/gpu=7000")
_TEMPLATES = Path(__file__).parents[1] / "slurm"
_DROPPED = (r"AuthInfo|NodeName|PartitionName|Prolog|Epilog|Topology|Scheduler(Type|Par)|Priority|MinJobAge|"
            r"AccountingStorageTRES|JobAcctGather|SlurmctldPort|AccountingStoragePort")


@dataclass(frozen=True)
class Preempting:
    """Who preempts whom at a site; as it stands nobody."""

    lines: tuple[str, ...] = ()
    """Of slurm.conf."""
    qos: tuple[str, ...] = ()
    """What is set of qualities of service: ``urgent Preempt=normal``."""
    fast: str = ""
    """What is said of the partition ``fast``."""
    slow: str = ""
    """What is said of the partition ``all``."""
    credential_s: int = 120
    """How long a credential lives, and so a requeued job waits."""


@contextmanager
def site(parameters: str, *priority: str, weights: tuple[str, ...] = WEIGHTS,
         preempting: Preempting = Preempting()) -> Iterator[Slurm]:
    """Start the site with these SchedulerParameters and lines about priorities; stop it at the end."""
    with booted(lambda folder: _write(folder, parameters, (*weights, *priority), preempting)) as slurm:
        yield slurm


def restart(slurm: Slurm) -> None:
    """Stop and start the controller: it then reckons shares and priorities at once, not after PriorityCalcPeriod."""
    root, old = slurm.conf.parents[1], int((slurm.conf.parents[1] / "run/slurmctld.pid").read_text())
    slurm.run("scontrol", "shutdown", "slurmctld")
    wait_for(lambda: not _runs(old))
    with (root / "log/slurmctld.out").open("a") as log:
        again = subprocess.Popen(["slurmctld", "-D"], env=os.environ | {"SLURM_CONF": str(slurm.conf)}, stdout=log,
                                 stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    (root / "run/slurmctld.pid").write_text(f"{again.pid}\n")
    wait_for(lambda: _answers(slurm))


def _answers(slurm: Slurm) -> bool:
    try:
        return "UP" in slurm.run("scontrol", "ping")
    except Rejected:
        return False


def _runs(pid: int) -> bool:
    """Tell whether a process lives; one that has ended and waits for its parent does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def _write(folder: Path, parameters: str, priority: tuple[str, ...], preempting: Preempting) -> None:
    folder.mkdir()
    controller, database, *ports = free_ports(2 + NODES)
    kept = [line for line in (_TEMPLATES / "slurm.conf.in").read_text().splitlines() if not re.match(_DROPPED, line)]
    lines = [
        f"SlurmctldPort={controller}", f"AccountingStoragePort={database}", "SchedulerType=sched/backfill",
        f"SchedulerParameters={parameters}", "PriorityType=priority/multifactor", *priority, *preempting.lines,
        f"AuthInfo=socket=@ROOT@/munge/sock,cred_expire={preempting.credential_s}",
        "TopologyPlugin=topology/none", "AccountingStorageTRES=gres/gpu",
        "AccountingStorageEnforce=associations,limits,qos", "JobAcctGatherType=jobacct_gather/none",
        "MinJobAge=100000", "TreeWidth=100",
        *(f"NodeName=n{number} NodeHostname=@HOST@ NodeAddr=127.0.0.1 Port={port} Sockets=2 CoresPerSocket={CPUS // 2} "
          f"ThreadsPerCore=1 RealMemory={MEMORY_MB} Gres=gpu:{GPUS}" for number, port in enumerate(ports)),
        f"PartitionName=all Nodes=n[0-{NODES - 1}] Default=YES MaxTime=2:00:00 DefMemPerCPU=100 PriorityJobFactor=1 "
        f"{preempting.slow}",
        f"PartitionName=fast Nodes=n[0-{NODES - 1}] MaxTime=2:00:00 DefMemPerCPU=100 PriorityJobFactor=4 "
        f"{preempting.fast}"]
    (folder / "slurm.conf.in").write_text("\n".join((*kept, *lines)) + "\n")
    (folder / "gres.conf.in").write_text(
        f"AutoDetect=off\nNodeName=n[0-{NODES - 1}] Name=gpu File=@ROOT@/dev/nvidia[0-{GPUS - 1}]\n")
    shutil.copy(_TEMPLATES / "slurmdbd.conf.in", folder)
    dbd = folder / "slurmdbd.conf.in"
    dbd.write_text(re.sub(r"DbdPort=\d+", f"DbdPort={database}", dbd.read_text()))
    (folder / "topology.conf.in").write_text("")
    (folder / "accounts.in").write_text("\n".join((*_accounts(), *(
        f"sacctmgr -i modify qos {words.replace(' ', ' set ', 1)}" for words in preempting.qos))) + "\n")


def _accounts() -> list[str]:
    """Return the commands that tell slurmdbd of users, accounts and QOS."""
    allowed = f"qos={','.join(QOS)} defaultqos=normal"
    return [
        "set -e",
        *(f"sacctmgr -i add qos {name} Priority={priority}" for name, priority in QOS.items() if name != "normal"),
        *(f"sacctmgr -i add account {name} parent={above} fairshare={shares} {allowed}"
          for name, (above, shares) in ACCOUNTS.items()),
        *(f"sacctmgr -i add user {user} account={account} fairshare={shares} {allowed}"
          for (account, user), shares in USERS.items()),
        *(f"sacctmgr -i modify account {name} set priority={priority}" if isinstance(name, str)
          else f"sacctmgr -i modify user {name[1]} where account={name[0]} set priority={priority}"
          for name, priority in PRIORITIES.items())]
