"""A GPU in shards on the first server of a mixed site: one job holds a quarter of it, another half, nobody the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from ...storage.flavor import Flavor
from ...storage.records import JobState
from .gpus import GpuPhysics
from .hardware import GIB, Server
from .jobs import HOUR_S, USERS, Behaviour, SimulatedJob
from .scheduler import Capacity

PER_GPU = 4
"""Shards of each GPU, as ``gres.conf`` would have them."""
_FIRST_ID = 900_001
_SHARING = (("carol", "notebook", 1, Behaviour.UNDERUSED), ("alice", "reranker", 2, Behaviour.PRODUCTIVE))
"""User, name, shards and behaviour of each job that shares a GPU."""


class Sharing(Protocol):
    """The cluster on which GPUs are shared."""

    servers: tuple[Server, ...]
    capacity: Capacity
    gpus: GpuPhysics
    running: dict[int, SimulatedJob]
    now_s: float

    @property
    def shards(self) -> Mapping[int, int]:
        """Shards of a GPU by job id, of jobs that hold no whole one."""


def sharded(server: Server) -> bool:
    """Tell whether the GPUs of a server may be shared: those of HGX H100 in a mixed site."""
    return server.model.partition == "H100"


def share_a_gpu(cluster: Sharing) -> dict[int, int]:
    """Let jobs that never end share the last GPU of the first server that allows it; return their shards by id."""
    number = next((place for place, server in enumerate(cluster.servers) if sharded(server)), None)
    if number is None:
        return {}
    gpu, shards = cluster.servers[number].model.gpus - 1, dict[int, int]()
    cluster.capacity.taken[number, gpu] = True
    cluster.capacity.free_gpus[number] -= 1
    for job_id, (user, name, units, behaviour) in enumerate(_SHARING, _FIRST_ID):
        job = _job(cluster, job_id, user, name, units, behaviour, cluster.servers[number].model.partition)
        cluster.capacity.free_cpus[number] -= job.cpus
        cluster.capacity.free_memory[number] -= job.memory_bytes
        cluster.gpus.occupy(job, number, (gpu,))
        job.allocation.append((number, (gpu,)))
        cluster.running[job_id], shards[job_id] = job, units
    return shards


def _job(cluster: Sharing, job_id: int, user: str, name: str, units: int, behaviour: Behaviour,
         partition: str) -> SimulatedJob:
    flavor = Flavor(f"shard-{units}", 0, 4 * units, 32 * GIB * units, 720 * HOUR_S, 0.0)
    return SimulatedJob(job_id, next(person for person in USERS if person.name == user), name, partition, flavor, 1,
                        flavor.cpus, flavor.memory_bytes, behaviour, 0.3 * units, flavor.limit_s, False,
                        cluster.now_s - 1800.0, cluster.now_s - 1800.0, state=JobState.RUNNING)


def job_answer(job: SimulatedJob, units: int) -> dict[str, str | list[str]]:
    """Return what Slurm reports otherwise of a job that holds shards."""
    requested = f"cpu={job.cpus},mem={job.memory_bytes // GIB}G,node=1,billing={job.cpus},gres/shard={units}"
    gpu = job.allocation[0][1][0]
    return {"gres_detail": [f"shard:{units}(IDX:{gpu})"], "tres_per_node": f"gres:shard:{units}",
            "tres_req_str": requested, "tres_alloc_str": requested}


class NodeShards(NamedTuple):
    """What a node reports of shards, each with a comma before it, and the GPUs that are in use by them."""

    gres: str = ""
    gres_used: str = ""
    tres: str = ""
    tres_used: str = ""
    gpus: frozenset[int] = frozenset()


def node_shards(cluster: Sharing, number: int) -> NodeShards:
    """Return what Slurm reports of the shards of a node."""
    server = cluster.servers[number]
    if not cluster.shards or not sharded(server):
        return NodeShards()
    held = [(gpu, units) for job_id, units in cluster.shards.items()
            for place, some in cluster.running[job_id].allocation for gpu in some if place == number]
    kind, whole = f",shard:{server.model.gres_type}", PER_GPU * server.model.gpus
    gpus, used = frozenset(gpu for gpu, _ in held), sum(units for _, units in held)
    taken = f"{len(gpus)}(IDX:{','.join(map(str, sorted(gpus)))})" if gpus else "0(IDX:N/A)"
    return NodeShards(f"{kind}:{whole}(S:0-1)", f"{kind}:{taken}", f",gres/shard={whole}",
                      f",gres/shard={used}" if used else "", gpus)
