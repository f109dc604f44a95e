"""Random clusters: nodes, features, partitions, switches, licences, QOS and accounts, and their configuration."""

from __future__ import annotations

import random
import re
import shutil
import socket
from dataclasses import dataclass
from pathlib import Path

USERS = ("games", "man", "news")
"""Users of every Debian, whose jobs root submits."""
ACCOUNTS = {"physics": "", "small": "GrpTRES=gres/gpu=5", "few": "GrpJobs=3"}
QOS = {
    "normal": "", "urgent": "Priority=1000", "capped": "GrpTRES=gres/gpu=6", "two": "MaxJobsPerUser=2",
    "mine": "MaxTRESPerUser=gres/gpu=4", "tiny": "MaxTRESPerJob=gres/gpu=2", "brief": "MaxWall=30",
}
"""Limits by name, as sacctmgr takes them."""
_TEMPLATES = Path(__file__).parents[1] / "slurm"


@dataclass(frozen=True)
class Kind:
    """One model of server."""

    model: str
    gpus: int
    sockets: int
    cores: int
    """Of each socket, with two threads each."""
    memory_mb: int
    features: tuple[str, ...]


KINDS = (Kind("a100", 8, 2, 32, 1_000_000, ("dgx", "nvswitch")), Kind("v100", 4, 2, 16, 500_000, ("volta",)),
         Kind("h100", 4, 2, 24, 1_500_000, ("dgx", "hopper")), Kind("", 0, 2, 16, 250_000, ("cpuonly",)))


@dataclass(frozen=True)
class Server:
    """One node."""

    name: str
    kind: Kind
    features: tuple[str, ...]
    leaf: str


@dataclass(frozen=True)
class Queue:
    """One partition and its words in slurm.conf."""

    name: str
    nodes: tuple[str, ...]
    words: str = ""


@dataclass(frozen=True)
class Cluster:
    """All that a configuration says."""

    seed: int
    servers: tuple[Server, ...]
    queues: tuple[Queue, ...]
    licences: dict[str, int]
    tree: bool
    multifactor: bool
    planning: bool
    """Slurm plans a start for jobs that have to wait, and lets none delay it; else whatever fits starts."""

    @property
    def models(self) -> tuple[str, ...]:
        """Return the models of GPU there are."""
        return tuple(sorted({server.kind.model for server in self.servers if server.kind.gpus}))

    def features(self) -> tuple[str, ...]:
        """Return the features there are."""
        return tuple(sorted({feature for server in self.servers for feature in server.features}))


def random_cluster(seed: int) -> Cluster:
    """Return the cluster of a seed: five to nine servers of two or three kinds."""
    chance = random.Random(seed)
    kinds = [KINDS[0], chance.choice(KINDS[1:3]), *([KINDS[3]] if chance.random() < 0.5 else [])]
    counts = [chance.randint(2, 4), chance.randint(2, 3), 1]
    servers = tuple(
        Server(f"{kind.model or 'cpu'}-{number}", kind, _features(chance, kind), f"leaf{chance.randint(1, 2)}")
        for kind, count in zip(kinds, counts, strict=False) for number in range(1, count + 1))
    return Cluster(seed, servers, _queues(chance, servers), {"matlab": 3, "ansys": 1}, chance.random() < 0.6,
                   chance.random() < 0.7, planning=seed % 2 == 0)


def _features(chance: random.Random, kind: Kind) -> tuple[str, ...]:
    more = [name for name, share in (("ib", 0.5), ("nvme", 0.3)) if chance.random() < share]
    return (*kind.features, *([kind.model] if kind.model else []), chance.choice(("rack1", "rack2")), *more)


def _queues(chance: random.Random, servers: tuple[Server, ...]) -> tuple[Queue, ...]:
    """Return one queue over all nodes, one for each model, and one that is special."""
    names = tuple(server.name for server in servers)
    # Without a default a job takes all the memory of its nodes.
    memory = chance.choice(("DefMemPerCPU=1000", "DefMemPerCPU=1000", "DefMemPerGPU=20000", ""))
    queues = [Queue("all", names, f"Default=YES MaxTime=2-0 {memory}")]
    for model in sorted({server.kind.model for server in servers if server.kind.gpus}):
        nodes = tuple(server.name for server in servers if server.kind.model == model)
        queues.append(Queue(model, nodes, f"MaxTime=1-0 {memory}"))
    special = chance.choice(("MaxTime=30", "MaxNodes=1", "PriorityTier=5", "OverSubscribe=EXCLUSIVE", "PriorityTier=3",
                             "MaxCPUsPerNode=16", "AllowQos=urgent,normal", "QOS=capped"))
    return (*queues, Queue("special", tuple(sorted(chance.sample(names, len(names) // 2 + 1))),
                           f"{'' if 'MaxTime' in special else 'MaxTime=1-0 '}{special} {memory}"))


def write_templates(cluster: Cluster, folder: Path) -> None:
    """Write what slurm-up.sh fills in: the files of the stack, with this cluster's nodes on ports of its own."""
    folder.mkdir()
    controller, database, *ports = free_ports(2 + len(cluster.servers))
    base = (_TEMPLATES / "slurm.conf.in").read_text()
    kept = [line for line in base.splitlines() if not re.match(
        r"NodeName|PartitionName|Prolog|Epilog|Topology|Scheduler(Type|Par)|Priority|MinJobAge|AccountingStorageTRES|"
        r"JobAcctGather|SlurmctldPort|AccountingStoragePort", line)]
    (folder / "slurm.conf.in").write_text("\n".join((*kept, *_lines(cluster, controller, database, ports))) + "\n")
    (folder / "gres.conf.in").write_text("AutoDetect=off\n" + "".join(
        f"NodeName={server.name} Name=gpu Type={server.kind.model} File=@ROOT@/dev/nvidia[0-{server.kind.gpus - 1}]\n"
        for server in cluster.servers if server.kind.gpus))
    shutil.copy(_TEMPLATES / "slurmdbd.conf.in", folder)
    dbd = folder / "slurmdbd.conf.in"
    dbd.write_text(re.sub(r"DbdPort=\d+", f"DbdPort={database}", dbd.read_text()))
    (folder / "topology.conf.in").write_text(_switches(cluster))
    # A partition's QOS has to be there when the controller starts, which then tells of GPUs for its limits.
    (folder / "accounts").write_text(f"sacctmgr -i add qos {','.join(name for name in QOS if name != 'normal')}\n")


def _switches(cluster: Cluster) -> str:
    leaves = sorted({server.leaf for server in cluster.servers})
    lines = [f"SwitchName={leaf} Nodes={','.join(server.name for server in cluster.servers if server.leaf == leaf)}"
             for leaf in leaves]
    return "\n".join((*lines, f"SwitchName=spine Switches={','.join(leaves)}")) + "\n" if cluster.tree else ""


def _lines(cluster: Cluster, controller: int, database: int, ports: list[int]) -> list[str]:
    models = ",".join(f"gres/gpu:{model}" for model in cluster.models)
    return [
        f"SlurmctldPort={controller}", f"AccountingStoragePort={database}",
        "SchedulerType=sched/backfill", "SchedulerParameters=defer,bf_interval=1,sched_interval=1",
        f"PriorityType=priority/{'multifactor' if cluster.multifactor else 'basic'}",
        *(["PriorityWeightQOS=100000", "PriorityWeightJobSize=1000"] if cluster.multifactor else []),
        f"TopologyPlugin=topology/{'tree' if cluster.tree else 'none'}",
        f"AccountingStorageTRES=gres/gpu,{models}", "AccountingStorageEnforce=associations,limits,qos",
        "JobAcctGatherType=jobacct_gather/none", "MinJobAge=300", "TreeWidth=100",
        "Licenses=" + ",".join(f"{name}:{count}" for name, count in cluster.licences.items()),
        *(f"NodeName={server.name} NodeHostname=@HOST@ NodeAddr=127.0.0.1 Port={port} Sockets={server.kind.sockets} "
          f"CoresPerSocket={server.kind.cores} ThreadsPerCore=2 RealMemory={server.kind.memory_mb} "
          f"{_gres(server)}Feature={','.join(server.features)}"
          for server, port in zip(cluster.servers, ports, strict=True)),
        *(f"PartitionName={queue.name} Nodes={','.join(queue.nodes)} {queue.words} State=UP"
          for queue in cluster.queues)]


def _gres(server: Server) -> str:
    return f"Gres=gpu:{server.kind.model}:{server.kind.gpus} " if server.kind.gpus else ""


def free_ports(count: int) -> list[int]:
    """Return ports on which nobody listens, below those that the kernel hands out to clients."""
    ports: list[int] = []
    start = random.SystemRandom().randrange(12_000, 30_000)
    for port in range(start, 32_000):
        with socket.socket() as listener:
            try:
                listener.bind(("127.0.0.1", port))
            except OSError:
                continue
            ports.append(port)
        if len(ports) == count:
            return ports
    raise RuntimeError("no free ports")
