"""Reading exporters' pages: every target of a source at once, each failing alone.

A page that does not show what its source is for fails as well, and the fault says what it shows instead.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal, NamedTuple

from pydantic import Field

from ..storage.telemetry import GpuReading, JobReading, NodeReading, Telemetry
from .errand import Lanes, Trip
from .exposition import Exposition, Look, PageError, PageLimits, Samples
from .fetch import Client, Displaced, HttpOptions, TimedOut
from .source import FAULTS, Clock, Role, SourceConfig, SourceError, TargetHealth
from .targets import Discovery, Target, TargetOptions, page_url
from .text import decode

_LOOKED_AT_BYTES = 262144
_SHOWN = 3
_NAME = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]{0,100})[{ \t]", re.MULTILINE)
_OWN = ("go", "process", "promhttp", "python", "scrape", "http")
"""What the libraries of exporters tell of themselves: no word on what the page is."""
_EXPORTERS = {"DCGM": "dcgm-exporter", "node": "node_exporter", "ipmi": "ipmi_exporter", "cgroup": "cgroup_exporter",
              "slurm": "an exporter of Slurm", "prometheus": "Prometheus itself",
              "redfish": "a Redfish exporter", "nvidia": "nvidia_gpu_exporter",
              "habanalabs": "Intel's Gaudi metric exporter", "amd": "an exporter of AMD GPUs",
              "gpu": "AMD's device-metrics-exporter"}


class SourcePurpose(NamedTuple):
    """What a source is for: its word, and how to tell that it is there."""

    word: str
    there: Callable[[Telemetry], bool]


GPU = SourcePurpose("GPU", lambda telemetry: bool(telemetry.gpus))
SERVER = SourcePurpose("server", lambda telemetry: bool(telemetry.nodes))
METER = SourcePurpose("power meter", lambda telemetry: any(node.power_watts is not None for node in telemetry.nodes))


def check_found(telemetry: Telemetry, wanted: SourcePurpose | None, page: bytes, look: Look, gpu_limit: int) -> None:
    """Raise ``PageError`` where a page shows nothing of what it is read for, or more GPUs than a target may have."""
    if len(telemetry.gpus) > gpu_limit:
        raise PageError(f"shows {len(telemetry.gpus)} GPUs, more than {gpu_limit} (gpu_limit)")
    if wanted and not wanted.there(telemetry):
        old = f" but {look.stale} samples whose own timestamps are too old (max_age)" if look.stale else ""
        raise PageError(f"no {wanted.word} on this page{old}: {found_instead(page)}")


def found_instead(page: bytes) -> str:
    """Return which metrics a page shows, and whose page that is where the names tell."""
    names = list(dict.fromkeys(decode(name) for name in _NAME.findall(page[:_LOOKED_AT_BYTES])))
    if not names:
        return "it is empty"
    telling = [name for name in names if name.partition("_")[0] not in _OWN] or names
    prefix = Counter(name.partition("_")[0] for name in telling).most_common(1)[0][0]
    whose = f" (is this {_EXPORTERS[prefix]}?)" if prefix in _EXPORTERS else ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"it shows {', '.join(telling[:_SHOWN])}{more}{whose}"


Parse = Callable[[Samples, Target, float], Telemetry]
"""Samples of one page, where they came from, and when (seconds since the epoch)."""

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 300.0
_JITTER = (0.75, 1.25)
_KEPT_S = 600.0
"""How long what a target told last is given on; whoever uses it judges by its age."""


class PageConfig(SourceConfig, TargetOptions, HttpOptions, PageLimits):
    """A source that reads pages of exporters."""

    finds: ClassVar[SourcePurpose | None] = None
    """What every page must show; None where a page may well show nothing."""
    scheme: Literal["http", "https"] = Field(default="http", description="Scheme for targets given as host:port.")
    metrics_path: str = Field(default="/metrics", description="Path of the page on targets given as host:port.")
    params: dict[str, str] = Field(default_factory=dict, description="Query parameters of every page.")
    concurrency: int = Field(default=16, ge=1, le=256,
                             description="How many targets are asked at once; raise it where exporters are slow. Up to "
                                         "eight times as many are waited for beside them while they hang.")

    def locate(self, address: str, labels: dict[str, str]) -> str:
        """Return the URL of a target's page."""
        return page_url(address, labels, self.scheme, self.metrics_path, self.params)


@dataclass(slots=True, eq=False)
class _Record:
    """What is remembered of a target between rounds."""

    target: Target
    facts: Telemetry = Telemetry()
    """What it told last, with the time at which it was asked."""
    health: TargetHealth | None = None
    """None until it has answered or failed for the first time."""
    last_success_s: float | None = None
    usual_s: float = 0.0
    """How long its last good answer took."""
    silent: int = 0
    """How many times in a row it ran into a time limit."""
    retry_at: float = 0.0
    under_way: bool = False


class PageSource:
    """Reads the pages of all targets and reduces them to records; the telemetry source behind dcgm, node and ipmi.

    Targets that run into a time limit (powered down, or hung) are asked ever more rarely, up to every five minutes, in
    a lane of their own, since each costs a thread its whole time limit; a refused connection costs nothing and is
    tried each round. What a target told last is kept for a while, with its own time, for whoever judges by age.
    """

    role: Role = "telemetry"

    def __init__(self, config: PageConfig, wanted: Iterable[str], parse: Parse, clock: Clock,
                 timer: Callable[[], float] = time.monotonic) -> None:
        self.name = config.name or config.kind
        self._config, self._parse, self._clock, self._timer = config, parse, clock, timer
        self._client = Client(config)
        self._discovery = Discovery(config, config.locate, clock)
        self._exposition = Exposition(wanted, config)
        self._lanes = Lanes(self.name, config.concurrency)
        self._records: dict[str, _Record] = {}
        self._random = random.Random()  # noqa: S311 - spreads retries, keeps no secret

    def read(self) -> Telemetry:
        """Ask every target that is due; return what all have told by then.

        A target that takes long is not waited for: ``facts`` has what it tells later. SourceError only when there are
        targets, each was asked, and none could be read.
        """
        self._renew(self._discovery.targets())
        self._ask([record for record in self._records.values()
                   if not record.under_way and self._timer() >= record.retry_at])
        self._exposition.next_round()
        asked = (*self._discovery.faults(), *(record.health for record in self._records.values()))
        if asked and not any(health is None or health.up for health in asked):
            first = next(health for health in asked if health is not None)
            raise SourceError(f"none of {len(asked)} targets could be read; {first.target}: {first.error}")
        return self.facts()

    def facts(self) -> Telemetry:
        """Return what each target told last, unless that was long ago."""
        now = self._clock()
        return _joined(record.facts for record in tuple(self._records.values())
                       if record.last_success_s is not None and abs(now - record.last_success_s) <= _KEPT_S)

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each target fared when it was asked last, discoveries that failed first."""
        return (*self._discovery.faults(), *(record.health or _told(record, up=False, error="has not answered yet")
                                             for record in tuple(self._records.values())))

    def close(self) -> None:
        """End what is under way, release threads and connections."""
        self._lanes.close()
        self._client.close()
        self._discovery.close()

    def _renew(self, targets: list[Target]) -> None:
        """Remember each target that there is, forget the others."""
        before = self._records
        self._records = {target.url: self._known(target, before.get(target.url)) for target in targets}
        for url in before.keys() - self._records.keys():
            self._client.forget(url)

    @staticmethod
    def _known(target: Target, record: _Record | None) -> _Record:
        if record is None:
            return _Record(target)
        record.target = target
        return record

    def _ask(self, due: list[_Record]) -> None:
        """Send each record on its trip; those for which there was no room are due again at the next round."""
        for record in due:
            record.under_way = True
        trips = [Trip(partial(self._scrape, record), record.silent > 0, record.usual_s) for record in due]
        try:
            self._lanes.round(trips)
        finally:
            for record, trip in zip(due, trips, strict=True):
                if not trip.began:
                    record.under_way = False

    def _scrape(self, record: _Record) -> None:
        """Read one target and note how it went; nothing is raised, as one target's fault must not cost another."""
        started, time_s, error = self._timer(), self._clock(), ""
        try:
            look = Look(time_s, time.monotonic() + self._config.timeout)
            record.facts = self.fetch(record.target, look)
            record.last_success_s, record.silent = time_s, 0
            record.usual_s = self._timer() - started
            record.retry_at = started + self.pause_s()
        except (SourceError, PageError) as fault:
            error = str(fault)
            self._pause(record, fault)
        except FAULTS:
            error = "a fault in idlewatt itself, which its log describes"
            log.exception("%s: a fault in idlewatt itself while reading %s", self.name, record.target.instance)
        record.health = _told(record, up=not error, error=error, duration_s=self._timer() - started)
        record.under_way = False

    def fetch(self, target: Target, look: Look) -> Telemetry:
        """Return what one target tells; raise ``SourceError`` or ``PageError`` where it cannot be had."""
        return self._read_page(self._client.get(target.url), target, look)

    def pause_s(self) -> float:
        """Return how long a target that answered is left alone; 0 asks it each round."""
        return 0.0

    def _read_page(self, page: bytes, target: Target, look: Look) -> Telemetry:
        """Return what a page shows; raise ``PageError`` where it is none, beyond its limits or not what it should."""
        if page[:256].lstrip().startswith(b"<"):
            raise PageError("answers with HTML or XML, not with metrics: is the path right?")
        samples = self._exposition.samples(page, look)
        look.check()
        telemetry = self._parse(samples, target, look.read_s)
        check_found(telemetry, self._config.finds, page, look, self._config.gpu_limit)
        return telemetry

    def _pause(self, record: _Record, fault: Exception) -> None:
        """Ask a target that ran into a time limit more rarely; chance keeps those that hang together apart."""
        if not isinstance(fault, TimedOut | Displaced):
            record.silent = 0
        # Who had to make room may be well: it has its next turn at once, unless it was silent before.
        record.silent += isinstance(fault, TimedOut)
        if not record.silent:
            return
        pause = min(self._config.connect_timeout * 2 ** min(record.silent, 16), _LONGEST_PAUSE_S)
        record.retry_at = self._timer() + pause * self._random.uniform(*_JITTER)


def _told(record: _Record, *, up: bool, error: str, duration_s: float = 0.0) -> TargetHealth:
    target = record.target
    return TargetHealth(target.instance, up, duration_s, error, record.last_success_s, target.url,
                        target.labels.get("node", ""))


def _joined(found: Iterable[Telemetry]) -> Telemetry:
    """Return all readings; a GPU, server or job that two targets show is kept once, as seen last."""
    parts = list(found)
    gpus: dict[str, GpuReading] = {}
    nodes: dict[str, NodeReading] = {}
    jobs: dict[tuple[str, str], JobReading] = {}
    for part in parts:
        for gpu in part.gpus:
            if gpu.time_s > gpus.setdefault(gpu.uuid, gpu).time_s:
                gpus[gpu.uuid] = gpu
        for node in part.nodes:
            if node.time_s > nodes.setdefault(node.node, node).time_s:
                nodes[node.node] = node
        for job in part.jobs:
            if job.time_s > jobs.setdefault((job.job_id, job.node), job).time_s:
                jobs[job.job_id, job.node] = job
    enclosures = {(one.enclosure, one.meter): one for part in parts for one in part.enclosures}
    return Telemetry(tuple(gpus.values()), tuple(nodes.values()), tuple(jobs.values()), tuple(enclosures.values()))
