"""How fast jobs really run, where a site measures it: one PromQL query that gives a series for each job.

Whatever trains can count its samples, tokens or steps, and a push gateway or a scrape of the job brings them into
Prometheus. ``sum by (job_id) (rate(training_samples_total[5m]))`` is then what this source asks.
"""

from __future__ import annotations

import logging
import math
import time
from collections import Counter
from collections.abc import Iterable
from typing import ClassVar, Literal

from pydantic import Field

from ..storage.speeds import JobRate, Throughput
from .fetch import Client
from .http_options import HttpOptions
from .prometheus_api import decode
from .source import Clock, Role, Source, SourceConfig, SourceError, TargetHealth, register
from .text import without_login

log = logging.getLogger(__name__)

SHOWN = 5


@register("throughput")
class ThroughputConfig(SourceConfig, HttpOptions):
    """A Prometheus (Thanos, Mimir, VictoriaMetrics) that knows how fast jobs are."""

    role: ClassVar[Role] = "throughput"
    kind: Literal["throughput"] = "throughput"
    url: str = Field(description="Base URL, e.g. http://prometheus:9090 or http://mimir/prometheus.")
    query: str = Field(default="job_throughput",
                       description="PromQL with one series for each job: its samples, tokens or steps per second.")
    label: str = Field(default="job_id", description="Label that names the job as the scheduler does.")

    def build(self, clock: Clock) -> Source:
        """Return the source that asks this server."""
        return ThroughputSource(self, clock)


class ThroughputSource:
    """Asks how fast jobs are."""

    role: Role = "throughput"

    def __init__(self, config: ThroughputConfig, clock: Clock) -> None:
        self.name = config.name or config.kind
        self._config, self._clock = config, clock
        self._client = Client(config, accept="application/json")
        self._shown = without_login(config.url)
        self._health = TargetHealth(self._shown, up=False, duration_s=0.0)
        self._logged: tuple[str, ...] = ()

    def read(self) -> Throughput:
        """Ask once; SourceError when there is no answer, or none that can be read."""
        began, last = time.perf_counter(), self._health.last_success_s
        url = f"{self._config.url.rstrip('/')}/api/v1/query"
        try:
            series = decode(self._client.get(url, {"query": self._config.query}))
        except (SourceError, ValueError) as error:
            self._health = TargetHealth(self._shown, False, time.perf_counter() - began, str(error), last)
            raise SourceError(f"{self._shown}: {error} (query {self._config.query})") from error
        now_s = self._clock()
        self._health = TargetHealth(self._shown, True, time.perf_counter() - began, "", now_s)
        rates, ambiguous = parse(series, self._config.label)
        self._tell(ambiguous)
        return Throughput(now_s, rates)

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how the last read went."""
        return (self._health,)

    def close(self) -> None:
        """Release the connection."""
        self._client.close()

    def _tell(self, ambiguous: tuple[str, ...]) -> None:
        """Say once for which jobs the query gives several series."""
        if ambiguous and ambiguous != self._logged:
            log.warning("%s: several series for each of %d jobs, which are left out (sum by (%s) in the query?): %s",
                        self.name, len(ambiguous), self._config.label, ", ".join(ambiguous[:SHOWN]))
        self._logged = ambiguous


def parse(series: Iterable[tuple[dict[str, str], float]], label: str) -> tuple[tuple[JobRate, ...], tuple[str, ...]]:
    """Return the rate of each job, and the jobs that have several series: nobody knows which is meant.

    What names no job, or is none of a number that can be, is left out; 0 is a job that makes no progress.
    """
    named = [(labels[label], value) for labels, value in series if labels.get(label)]
    counts = Counter(job_id for job_id, _ in named)
    rates = tuple(JobRate(job_id, value) for job_id, value in named
                  if counts[job_id] == 1 and math.isfinite(value) and value >= 0)
    return rates, tuple(sorted(job_id for job_id, count in counts.items() if count > 1))
