"""What a source is: one place that facts are read from, and how it says that it could not.

A source splits *read* (I/O) from *parse* (text to records). To add one, write one file in this folder with a
``SourceConfig`` subclass under ``@register("its kind")``; the configuration file then accepts its ``kind``. What not
every source can do is a protocol of its own, which a source has if it has the methods: ``Gradual``, ``Accounting``.
"""

from __future__ import annotations

import importlib
import logging
import pkgutil
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, Protocol, TypeVar, runtime_checkable

from pydantic import BaseModel, ConfigDict, Field

from ..storage.energy_prices import GridReading
from ..storage.records import Job, SchedulerSnapshot
from ..storage.speeds import Throughput
from ..storage.telemetry import GpuReading, JobReading, NodeReading, Telemetry
from ..storage.topology import Topology

log = logging.getLogger(__name__)

FAULTS = (OSError, ArithmeticError, AttributeError, LookupError, RuntimeError, TypeError, ValueError)
"""What code that meets hostile data may raise in spite of all care; one source's fault must not stop the others."""
_SHOWN_TARGETS = 3
_OVERDUE_S = 60.0
"""Seconds after which a read that has not ended counts as failed."""

Clock = Callable[[], float]
"""Returns seconds since the epoch; simulations pass an accelerated one."""

Facts = Telemetry | SchedulerSnapshot | Topology | Throughput | GridReading
"""What a source gives, by its role."""
Role = Literal["telemetry", "scheduler", "topology", "throughput", "grid"]


class SourcePurpose(NamedTuple):
    """What a source is for: its word, and how to tell that it is there."""

    word: str
    there: Callable[[Telemetry], bool]


GPU = SourcePurpose("GPU", lambda telemetry: bool(telemetry.gpus))
SERVER = SourcePurpose("server", lambda telemetry: bool(telemetry.nodes))
METER = SourcePurpose("power meter", lambda telemetry: any(node.power_watts is not None for node in telemetry.nodes))


class SourceError(Exception):
    """A source could not be read; the message says what, where and what to do."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent
        """True when trying again cannot help until somebody changes something (bad password, unknown host)."""


@dataclass(frozen=True, slots=True)
class TargetHealth:
    """How one target of a source fared at its last read."""

    target: str
    up: bool
    duration_s: float
    error: str = ""
    last_success_s: float | None = None
    url: str = ""
    """The page that was read, where the target is a page."""
    node: str = ""
    """The server it speaks for, where the configuration says so."""
    skipped: int = 0
    """Records in its answer that could not be understood, and were left out."""
    beat_s: float = 0.0
    """Least time between two reads of it, where its source reads it less often than the others."""


class Source(Protocol):
    """Something that can be read again and again.

    ``read`` returns what it could get: one target down never hides the others. It raises ``SourceError`` only when
    nothing could be had. ``health`` tells how each target fared at the last read.
    """

    name: str
    role: Role

    def read(self) -> Facts:
        """Read everything once."""

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each target fared at the last read."""

    def close(self) -> None:
        """Release connections."""


@runtime_checkable
class Gradual(Protocol):
    """A source of many targets, some of which answer after ``read`` has returned."""

    def facts(self) -> Facts:
        """Return what is known now, each fact with the time at which it was requested."""


@runtime_checkable
class Accounting(Protocol):
    """A scheduler's source that also tells of jobs after they have left its queue."""

    def completed(self, since_s: float) -> Sequence[Job]:
        """Return the runs that ended at or after a time (seconds since the epoch), each run of a job on its own.

        Raises ``SourceError`` where the records cannot be read. A run that is returned twice does no harm.
        """


class SourceConfig(BaseModel):
    """The configuration of one source; each kind adds its own keys. Unknown keys are errors."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    role: ClassVar[Role] = "telemetry"
    kind: str
    name: str = Field(default="", description="How the source is called in metrics and logs; its kind by default.")

    def build(self, clock: Clock) -> Source:
        """Return the source that this configuration describes."""
        raise NotImplementedError


Config = TypeVar("Config", bound=type[SourceConfig])
_KINDS: dict[str, type[SourceConfig]] = {}


def register(kind: str) -> Callable[[Config], Config]:
    """Make the decorated configuration known under its ``kind``."""

    def keep(config: Config) -> Config:
        if kind in _KINDS and _KINDS[kind].__qualname__ != config.__qualname__:
            raise ValueError(f"two sources call themselves {kind!r}")
        _KINDS[kind] = config
        return config

    return keep


def kinds() -> dict[str, type[SourceConfig]]:
    """Return every source kind in this folder, by name."""
    package = __name__.rpartition(".")[0]
    for module in pkgutil.iter_modules(importlib.import_module(package).__path__):
        importlib.import_module(f"{package}.{module.name}")
    return dict(_KINDS)


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """How a source fares: what is published of it, and what the landing page shows."""

    name: str
    role: Role
    success: bool
    duration_s: float
    error: str = ""
    last_success_s: float | None = None
    reads: int = 0
    failures: int = 0
    skipped: int = 0
    """Records that the last read could not understand, and left out."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The last good read of a source: data, when it was read, and whether the newest read gave it."""

    data: Facts | None
    """None until the first success."""
    read_s: float | None
    fresh: bool


class Watched:
    """A source whose ``read`` never raises: it is timed, its last good snapshot is kept, its faults are logged once.

    The log gets one line when the source or one of its targets fails in a new way, then one per ``remind_s``, and one
    when all is well again.
    """

    def __init__(self, source: Source, clock: Clock, kind: str = "", *, timer: Clock = time.monotonic,
                 remind_s: float = 600.0) -> None:
        self._source, self._clock, self._timer, self._remind_s = source, clock, timer, remind_s
        self.kind = kind
        """What the configuration calls such a source."""
        self._status = SourceStatus(source.name, source.role, success=False, duration_s=0.0)
        self._snapshot = Snapshot(None, None, fresh=False)
        self._began: float | None = None
        self._closed = False
        self._logged: tuple[str, ...] = ()
        self._logged_at = float("-inf")

    @property
    def name(self) -> str:
        """Return the source's name."""
        return self._source.name

    @property
    def role(self) -> Role:
        """Return what kind of facts the source gives."""
        return self._source.role

    @property
    def source(self) -> Source:
        """Return the source itself, for what only its kind can do."""
        return self._source

    @property
    def status(self) -> SourceStatus:
        """Return how the last read went; one that does not end has failed."""
        began, status = self._began, self._status
        lasts = self._timer() - began if began is not None else 0.0
        if lasts <= _OVERDUE_S:
            return status
        return replace(status, success=False, duration_s=lasts, reads=max(status.reads, 1),
                       error=f"the present read has not ended for {lasts:.0f} s")

    @property
    def snapshot(self) -> Snapshot:
        """Return the last good data."""
        return self._snapshot

    def facts(self) -> Facts | None:
        """Return the newest good data, with what came in since the last read of a source that goes on reading."""
        return self._source.facts() if isinstance(self._source, Gradual) else self._snapshot.data

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each target fared at the last read."""
        return self._source.health()

    def read(self) -> Snapshot:
        """Read the source once; return its data, or the last good data marked as not fresh."""
        started, now, error = self._timer(), self._clock(), ""
        self._began = started
        try:
            self._snapshot = Snapshot(self._source.read(), now, fresh=True)
        except SourceError as fault:
            error = str(fault)
        except FAULTS:
            error = "a fault in idlewatt itself, which its log describes"
            log.exception("%s: a fault in idlewatt itself while reading", self.name)
        if error:
            self._snapshot = replace(self._snapshot, fresh=False)
        before = self._status
        self._status = SourceStatus(
            self.name, self.role, not error, self._timer() - started, error, self._snapshot.read_s,
            before.reads + 1, before.failures + bool(error), sum(health.skipped for health in self._source.health()))
        self._began = None
        if not self._closed:
            self._tell(error)
        return self._snapshot

    def close(self) -> None:
        """Release what the source holds; what a read under way says then is of no interest."""
        self._closed = True
        self._source.close()

    def _tell(self, error: str) -> None:
        """Log what is wrong when it changes or has not been logged for long; say once when it is over."""
        down = [health for health in self._source.health() if not health.up]
        wrong = (error,) if error else tuple(health.target for health in down)
        if wrong == self._logged and (not wrong or self._timer() - self._logged_at < self._remind_s):
            return
        if not wrong:
            log.info("%s: everything can be read again", self.name)
        elif error:
            log.warning("%s cannot be read: %s", self.name, error, extra={"source": self.name})
        else:
            shown = "; ".join(f"{health.target}: {health.error}" for health in down[:_SHOWN_TARGETS])
            log.warning("%s: %d targets are down: %s", self.name, len(down), shown, extra={"source": self.name})
        self._logged, self._logged_at = wrong, self._timer()


def joined(telemetries: Iterable[Telemetry]) -> Telemetry:
    """Return all readings; a GPU of a server, a server or job that two targets show is kept once, as seen last."""
    parts = list(telemetries)
    gpus: dict[tuple[str, str], GpuReading] = {}
    nodes: dict[str, NodeReading] = {}
    jobs: dict[tuple[str, str], JobReading] = {}
    for part in parts:
        for gpu in part.gpus:
            if gpu.time_s > gpus.setdefault((gpu.uuid, gpu.node), gpu).time_s:
                gpus[gpu.uuid, gpu.node] = gpu
        for node in part.nodes:
            if node.time_s > nodes.setdefault(node.node, node).time_s:
                nodes[node.node] = node
        for job in part.jobs:
            if job.time_s > jobs.setdefault((job.job_id, job.node), job).time_s:
                jobs[job.job_id, job.node] = job
    enclosures = {(enclosure.enclosure, enclosure.meter): enclosure for part in parts for enclosure in part.enclosures}
    return Telemetry(tuple(gpus.values()), tuple(nodes.values()), tuple(jobs.values()), tuple(enclosures.values()),
                     tuple({name for part in parts for name in part.left}))
