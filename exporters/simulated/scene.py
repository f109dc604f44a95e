"""The opening scene: what runs and waits at the first moment, so that every kind of waste is there to be seen.

A100-01  four GPUs productive; two held by a job that took all other CPUs: the last two GPUs are stranded
A100-02  two idle, two spinning, two starved of data by their CPUs; two free, too few for anything that waits
V100-01  as A100-01, but two wait for one thread each
V100-02  empty: its host burns for nothing while a small job waits behind one that needs both servers
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from .hardware import A100, V100, Model, Server
from .jobs import USERS, Behaviour, SimulatedJob, Submissions
from .scheduler import Capacity
from .shortfalls import Shortfall, first_visible

SMALL, MEDIUM, LARGE, FULL = range(4)
ELAPSED_S = (960.0, 2700.0, 0.0, 0.0)
"""How long jobs of each size have run: just past the fifteen minutes of grace that a young job is given."""
_USER = {user.name: user for user in USERS}

Script = tuple[tuple[str, int, Behaviour | tuple[Shortfall, ...], int], ...]
"""User, size, behaviour, and how many times the CPUs of the size are requested.

In place of a behaviour stands why GPUs are underused: the first that a server's pages can tell.
"""
_RUNNING: dict[str, Script] = {
    "dgx-a100-01": (("alice", MEDIUM, Behaviour.PRODUCTIVE, 1), ("dave", SMALL, Behaviour.PRODUCTIVE, 2)),
    "dgx-a100-02": (("carol", SMALL, Behaviour.IDLE, 1), ("erin", SMALL, Behaviour.HUNG, 1),
                    ("carol", SMALL, (Shortfall.LOADERS,), 1)),
    "dgx-v100-01": (("alice", MEDIUM, Behaviour.PRODUCTIVE, 1), ("dave", SMALL, (Shortfall.ONE_THREAD,), 2)),
    "dgx-v100-02": (),
}
_NONE: tuple[Shortfall, ...] = ()
# Bob's large jobs end long before their limits: the show must not be one job's for hours.
_PENDING = {"A100": (("bob", LARGE, 0.25, (Shortfall.FILES,)), ("alice", MEDIUM, 0.6, _NONE)),
            "V100": (("bob", FULL, 0.12, (Shortfall.LOADERS,)), ("alice", SMALL, 0.8, _NONE))}
"""User, size, share of the limit that it runs, and why its GPUs will be underused."""
_OTHERS: dict[int, Script] = {
    0: (("carol", SMALL, Behaviour.IDLE, 1), ("erin", SMALL, Behaviour.HUNG, 1),
        ("carol", SMALL, (Shortfall.SMALL_BATCH, Shortfall.ONE_THREAD), 1)),
    1: (("alice", MEDIUM, Behaviour.PRODUCTIVE, 1),
        ("dave", SMALL, (Shortfall.LINKS, Shortfall.HEAT, Shortfall.ONE_GPU), 2)),
    2: (("dave", SMALL, (Shortfall.HEAT, Shortfall.ONE_GPU), 1), ("alice", SMALL, (Shortfall.LOADERS,), 1),
        ("carol", SMALL, (Shortfall.ONE_GPU,), 1)), 3: ()}
"""Of other servers, by their place among those of their model; a tray of four GPUs takes the first jobs of these."""
_WAITING = (("bob", FULL, 0.1, (Shortfall.LINKS, Shortfall.FILES)), ("alice", LARGE, 0.4, (Shortfall.FILES,)),
            ("dave", MEDIUM, 0.6, (Shortfall.MEMORY, Shortfall.POWER_BRAKE, Shortfall.ONE_GPU)))


class Stage(Protocol):
    """The cluster on which the scene is opened."""

    servers: tuple[Server, ...]
    partitions: tuple[str, ...]
    capacity: Capacity
    submissions: Submissions
    now_s: float

    def start(self, job: SimulatedJob, numbers: Iterable[int], start_s: float) -> None:
        """Start a job on the servers of these numbers."""

    def submit(self, job: SimulatedJob) -> None:
        """Queue a job."""

    def schedule(self) -> None:
        """Start what can be started."""


def open_scene(cluster: Stage) -> None:
    """Start and queue the scene's jobs; fill the servers of a larger cluster with drawn ones."""
    for number, server in enumerate(cluster.servers):
        script = _script(server)
        if script is None:
            _fill(cluster, number)
            continue
        for user, size, does, cpu_factor in script:
            job = _make(cluster, user, server.model, size, does, cpu_factor=cpu_factor)
            if job.cpus_per_node <= cluster.capacity.free_cpus[number]:
                cluster.start(job, [number], job.submit_s)
    for model in {server.model.partition: server.model for server in cluster.servers}.values():
        for user, size, run_share, does in _PENDING.get(model.partition, _WAITING):
            cluster.submit(_make(cluster, user, model, size, does or Behaviour.PRODUCTIVE, run_share=run_share))
    cluster.schedule()


def _script(server: Server) -> Script | None:
    """Return the jobs that run on a server at first; None fills it with drawn jobs."""
    if server.model in (A100, V100):
        return _RUNNING.get(_short(server.name))
    # Room in every rack: domains that are free, broken and full are there to be seen.
    return _OTHERS.get(server.place, () if server.place % 5 == 4 else None)


def _short(name: str) -> str:
    """Return the name as a cluster of fewer than a hundred servers would write it."""
    prefix, _, number = name.rpartition("-")
    return f"{prefix}-{int(number):02}"


def _make(cluster: Stage, user: str, model: Model, size: int, does: Behaviour | tuple[Shortfall, ...], *,
          run_share: float = 0.95, cpu_factor: int = 1) -> SimulatedJob:
    behaviour = does if isinstance(does, Behaviour) else Behaviour.UNDERUSED
    job = cluster.submissions.make(_USER[user], model.partition, size, behaviour, run_share,
                                   cluster.now_s - ELAPSED_S[size], cpu_factor=cpu_factor)
    if not isinstance(does, Behaviour):
        job.shortfall = first_visible(does, model, job.gpus_per_node == model.gpus)
    return job


def _fill(cluster: Stage, number: int) -> None:
    """Start drawn jobs on a server until one no longer fits."""
    server = cluster.servers[number]
    for _ in range(server.model.gpus):
        job = cluster.submissions.draw(server.model.partition, cluster.now_s - ELAPSED_S[MEDIUM])
        job.required_nodes = (server.name,)
        placed = cluster.capacity.place(job)
        job.required_nodes = ()
        if placed is None:
            return
        cluster.start(job, placed, job.submit_s)
