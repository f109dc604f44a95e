"""Reading exporters' pages: every target of a source at once, each failing alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar, Literal

from pydantic import Field

from ..storage.telemetry import GpuReading, JobReading, NodeReading, Telemetry
from .exposition import Exposition, Samples
from .fetch import Client, HttpOptions, Unreachable
from .findings import Wanted, check_found
from .limits import Look, PageError, PageLimits
from .source import Clock, Role, SourceConfig, SourceError, TargetHealth
from .targets import Discovery, Target, TargetOptions, page_url

Parse = Callable[[Samples, Target, float], Telemetry]
"""Samples of one page, where they came from, and when (seconds since the epoch)."""

_LONGEST_PAUSE_S = 300.0


class PageConfig(SourceConfig, TargetOptions, HttpOptions, PageLimits):
    """A source that reads pages of exporters."""

    finds: ClassVar[Wanted | None] = None
    """What every page must show; None where a page may well show nothing."""
    scheme: Literal["http", "https"] = Field(default="http", description="Scheme for targets given as host:port.")
    metrics_path: str = Field(default="/metrics", description="Path of the page on targets given as host:port.")
    params: dict[str, str] = Field(default_factory=dict, description="Query parameters of every page.")
    concurrency: int = Field(default=16, ge=1, le=256,
                             description="How many targets are asked at once; raise it where exporters are slow.")

    def locate(self, address: str, labels: dict[str, str]) -> str:
        """Return the URL of a target's page."""
        return page_url(address, labels, self.scheme, self.metrics_path, self.params)


@dataclass(slots=True)
class _Record:
    """What is remembered of a target between rounds."""

    last_success_s: float | None = None
    unreachable: int = 0
    """How many times in a row connecting ran into its time limit."""
    retry_at: float = 0.0
    error: str = ""


class PageSource:
    """Reads the pages of all targets and reduces them to records; the telemetry source behind dcgm, node and ipmi.

    Targets that do not even answer a connection (powered down) are asked ever more rarely, up to every five minutes,
    since each costs a thread its whole time limit; a refused connection costs nothing and is tried each round.
    """

    role: Role = "telemetry"

    def __init__(self, config: PageConfig, wanted: Iterable[str], parse: Parse, clock: Clock,
                 timer: Callable[[], float] = time.monotonic) -> None:
        self.name = config.name or config.kind
        self._config, self._parse, self._clock, self._timer = config, parse, clock, timer
        self._client = Client(config)
        self._discovery = Discovery(config, config.locate, clock)
        self._exposition = Exposition(wanted, config)
        self._threads = ThreadPoolExecutor(config.concurrency, thread_name_prefix=self.name)
        self._records: dict[str, _Record] = {}
        self._health: tuple[TargetHealth, ...] = ()

    def read(self) -> Telemetry:
        """Read every target once; raise ``SourceError`` only when there are targets and none of them answered."""
        targets = self._discovery.targets()
        self._records = {target.url: self._records.get(target.url, _Record()) for target in targets}
        results = list(self._threads.map(self._scrape, targets))
        self._exposition.next_round()
        self._health = (*self._discovery.faults(), *(health for _, health in results))
        down = [health for health in self._health if not health.up]
        if down and len(down) == len(self._health):
            raise SourceError(f"none of {len(down)} targets could be read; {down[0].target}: {down[0].error}")
        return _joined(telemetry for telemetry, _ in results)

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how each target fared at the last read, discoveries that failed first."""
        return self._health

    def close(self) -> None:
        """Release threads and connections."""
        self._threads.shutdown(wait=False, cancel_futures=True)
        self._client.close()
        self._discovery.close()

    def _scrape(self, target: Target) -> tuple[Telemetry, TargetHealth]:
        record, started = self._records[target.url], self._timer()
        telemetry = Telemetry()
        if started >= record.retry_at:
            time_s = self._clock()
            try:
                look = Look(time_s, time.monotonic() + self._config.timeout)
                page = self._client.get(target.url)
                telemetry = self._read_page(page, target, look)
                record.error, record.unreachable, record.last_success_s = "", 0, time_s
            except (SourceError, PageError) as error:
                record.error = str(error)
                self._pause(record, error)
        return telemetry, TargetHealth(target.instance, not record.error, self._timer() - started, record.error,
                                       record.last_success_s, target.url, target.labels.get("node", ""))

    def _read_page(self, page: bytes, target: Target, look: Look) -> Telemetry:
        """Return what a page shows; raise ``PageError`` where it is none, beyond its limits or not what it should."""
        if page[:256].lstrip().startswith(b"<"):
            raise PageError("answers with HTML or XML, not with metrics: is the path right?")
        samples = self._exposition.samples(page, look)
        look.check()
        telemetry = self._parse(samples, target, look.read_s)
        check_found(telemetry, self._config.finds, page, look, self._config.gpu_limit)
        return telemetry

    def _pause(self, record: _Record, error: Exception) -> None:
        if not isinstance(error, Unreachable):
            record.unreachable = 0
            return
        record.unreachable += 1
        pause = self._config.connect_timeout * 2 ** min(record.unreachable, 16)
        record.retry_at = self._timer() + min(pause, _LONGEST_PAUSE_S)


def _joined(parts: Iterable[Telemetry]) -> Telemetry:
    """Return all readings; a board, server or job that two targets show is kept once, as first seen."""
    gpus: dict[str, GpuReading] = {}
    nodes: dict[str, NodeReading] = {}
    jobs: dict[tuple[str, str], JobReading] = {}
    for part in parts:
        for gpu in part.gpus:
            gpus.setdefault(gpu.uuid, gpu)
        for node in part.nodes:
            nodes.setdefault(node.node, node)
        for job in part.jobs:
            jobs.setdefault((job.job_id, job.node), job)
    return Telemetry(tuple(gpus.values()), tuple(nodes.values()), tuple(jobs.values()))
