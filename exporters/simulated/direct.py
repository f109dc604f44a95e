"""The simulated cluster as sources without HTTP: the same pages through the same parsers, in the cluster's process.

For histories that nobody can wait for: weeks are thousands of looks, and a look over HTTP takes longer than all else.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from ...storage.records import Job, Node, Partition
from ...storage.rules import Association, CountedUsage, License, Qos, Reservation
from ...storage.speeds import Throughput
from ...storage.telemetry import Telemetry
from .. import cgroup, dcgm, ipmi
from ..exposition import Exposition
from ..scrape import Parse
from ..slurm.fields import Fields
from ..slurm.parse_json import Parsed, parse_accounted, parse_job, parse_list
from ..slurm.parse_node import parse_node
from ..slurm.parse_rules import parse_partition, parse_reservation
from ..slurm.source import SlurmSource
from ..source import Clock, Role, Source, SourceConfig, SourceError, TargetHealth
from ..targets import Target
from ..throughput import parse
from . import slurm
from .cluster import SimulatedCluster
from .pages import Pages
from .slurm_shapes import SETTINGS
from .throughput import rates


class DirectConfig(SourceConfig):
    """A source that is already there; no configuration file can name it."""

    source: Any

    def build(self, clock: Clock) -> Source:
        """Return the source that this configuration holds."""
        source: Source = self.source
        return source


def sources(cluster: SimulatedCluster, clock: Clock) -> tuple[SourceConfig, ...]:
    """Return GPUs, wall meters, uses, speeds and Slurm of a cluster; each read first moves it to the clock's time."""
    near, pages = _Near(cluster, clock), Pages(cluster)
    return (
        DirectConfig(kind="dcgm", source=_PageSource(
            "dcgm", near, pages.dcgm, dcgm.parse, dcgm.METRICS, cluster.exporter_answers)),
        DirectConfig(kind="ipmi", source=_PageSource("ipmi", near, pages.ipmi, ipmi.parse, ipmi.METRICS)),
        DirectConfig(kind="cgroup", source=_PageSource("cgroup", near, pages.cgroup, cgroup.parse, cgroup.METRICS)),
        DirectConfig(kind="throughput", source=_Speeds(near)),
        DirectConfig(kind="slurm_rest", source=SlurmSource("slurm_rest", _Slurm(near), clock)))


class _Near:
    """The cluster, moved to the clock's time for one reader at a time."""

    def __init__(self, cluster: SimulatedCluster, clock: Clock) -> None:
        self._cluster, self._clock, self._lock = cluster, clock, threading.Lock()

    @contextmanager
    def now(self) -> Iterator[SimulatedCluster]:
        with self._lock:
            self._cluster.advance(self._clock())
            yield self._cluster


class _PageSource:
    """The pages of one kind of exporter on every server."""

    role: Role = "telemetry"

    def __init__(self, name: str, near: _Near, page: Callable[[int], str], parse: Parse, wanted: Iterable[str],
                 answers: Callable[[int], bool] = lambda _number: True) -> None:
        self.name = name
        self._near, self._page, self._parse, self._answers = near, page, parse, answers
        self._exposition = Exposition(wanted)
        self._health: dict[str, TargetHealth] = {}

    def read(self) -> Telemetry:
        """Read every server once."""
        with self._near.now() as cluster:
            parts = [self._read(cluster, number) for number in range(len(cluster.servers))]
        self._exposition.next_round()
        return Telemetry(tuple(gpu for part in parts for gpu in part.gpus),
                         tuple(node for part in parts for node in part.nodes),
                         tuple(job for part in parts for job in part.jobs))

    def _read(self, cluster: SimulatedCluster, number: int) -> Telemetry:
        name, now_s = cluster.servers[number].name, cluster.now_s
        if not self._answers(number):
            last_s = self._health[name].last_success_s if name in self._health else None
            self._health[name] = TargetHealth(name, False, 0.0, "the hostengine is gone", last_s, node=name)
            return Telemetry()
        self._health[name] = TargetHealth(name, True, 0.0, last_success_s=now_s, node=name)
        samples = self._exposition.samples(self._page(number).encode())
        return self._parse(samples, Target(name, name, {"node": name}), now_s)

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each server fared at the last read."""
        return tuple(self._health.values())

    def close(self) -> None:
        """Release nothing."""


class _Speeds:
    """How fast jobs are, as a Prometheus would tell."""

    role: Role = "throughput"
    name = "throughput"

    def __init__(self, near: _Near) -> None:
        self._near = near

    def read(self) -> Throughput:
        """Read all jobs once."""
        with self._near.now() as cluster:
            series = [({"job_id": job_id}, rate) for job_id, rate in rates(cluster).items()]
            return Throughput(cluster.now_s, parse(series, "job_id")[0])

    def health(self) -> tuple[TargetHealth, ...]:
        """Tell of no target: there is none."""
        return ()

    def close(self) -> None:
        """Release nothing."""


class _Slurm:
    """Answers as slurmrestd does, but for writing JSON and reading it again."""

    def licenses(self) -> Parsed[License]:
        """Refuse: it knows no licence."""
        raise SourceError("it is not simulated")

    def qos(self) -> Parsed[Qos]:
        """Refuse: it knows no quality of service."""
        raise SourceError("it is not simulated")

    def associations(self) -> Parsed[Association]:
        """Refuse: it knows no account."""
        raise SourceError("it is not simulated")

    def usage(self, now_s: float) -> Parsed[CountedUsage]:
        """Refuse: it counts no usage."""
        raise SourceError("it is not simulated")

    def settings(self) -> dict[str, str]:
        """Return what the simulated scheduler does."""
        return SETTINGS

    def topology(self) -> str:
        """Return nothing: it has no switches."""
        return ""

    def switches(self) -> dict[int, tuple[int, float | None]]:
        """Return that nobody asks for few switches."""
        return {}

    def __init__(self, near: _Near) -> None:
        self._near = near

    def nodes(self) -> Parsed[Node]:
        """Return all nodes."""
        return parse_list(self._ask(slurm.nodes), "nodes", parse_node)

    def jobs(self) -> Parsed[Job]:
        """Return pending, running and just finished jobs."""
        return parse_list(self._ask(slurm.jobs), "jobs", parse_job)

    def partitions(self) -> Parsed[Partition]:
        """Return the partitions of the simulated cluster."""
        return parse_list(self._ask(slurm.partitions), "partitions", parse_partition)

    def reservations(self) -> Parsed[Reservation]:
        """Return no reservation."""
        return parse_list(self._ask(slurm.reservations), "reservations", parse_reservation)

    def finished(self, since_s: float) -> Parsed[Job]:
        """Return the runs that ended since a time."""
        return parse_list(self._ask(lambda cluster: slurm.accounted(cluster, since_s)), "jobs", parse_accounted)

    def close(self) -> None:
        """Release nothing."""

    def _ask(self, answer: Callable[[SimulatedCluster], slurm.Answer]) -> Fields:
        with self._near.now() as cluster:
            return Fields(answer(cluster), "answer")
