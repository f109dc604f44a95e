"""The Prometheus that tells timelines of jobs, as the configuration in force names it."""

from __future__ import annotations

import threading
from collections.abc import Callable

from ..exporters.gpu_ranges import RangeClient
from ..exporters.prometheus_api import PrometheusConfig
from .config import Settings
from .efficiency.timelines import GpuTimelines


class RangesOfSettings:
    """Keeps one client for the first source `prometheus`, a new one when a reload changed it; used by many threads."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._change = threading.Lock()
        self._config: PrometheusConfig | None = None
        self._client: RangeClient | None = None
        self._timelines = GpuTimelines(None, now)

    def of(self, settings: Settings) -> GpuTimelines:
        """Return the timelines of GPUs."""
        config = next((source for source in settings.sources if isinstance(source, PrometheusConfig)), None)
        with self._change:
            if config != self._config:
                before, self._config = self._client, config
                self._client = None if config is None else RangeClient(config)
                self._timelines = GpuTimelines(self._client, self._now)
                if before is not None:
                    before.close()
            return self._timelines

    def close(self) -> None:
        """Release connections."""
        with self._change:
            if self._client is not None:
                self._client.close()
