"""Publish what idlewatt knows as Prometheus metrics: a stateless collector of the table in ``exporters/metrics``.

The daemon fills one ``Published`` at each cycle; every scrape builds its page from the latest, so what has vanished
leaves no stale series.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any

from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from . import exposition_lines
from .metrics import METRICS, Published
from .metrics.declared import (
    BUCKETS_S,
    BUILD,
    LONGEST_LABEL,
    PREFIX,
    Declared,
    Distribution,
    Distributions,
    Scalar,
    Series,
)

WORTH_KEEPING = 500
"""Series of a metric whose lines are kept until its value is another."""


def check(values: Mapping[str, Scalar | Series]) -> None:
    """Raise ValueError for a value that is none of a metric here, or has other labels: it would fail the whole page."""
    declared = {metric.name.removeprefix(PREFIX): metric for metric in METRICS}
    for name, value in values.items():
        if name not in declared:
            raise ValueError(f"there is no metric {PREFIX}{name}")
        _clean(declared[name], value)


@dataclass(frozen=True, slots=True)
class _Written:
    """Lines of one metric, and what they were written of."""

    value: Scalar | Series | Distributions
    partitions: tuple[str, ...]
    lines: bytes
    excess: int
    """Series above the cap."""


class PublishedCollector(Collector):
    """Builds the metric families at each scrape; of large ones whose value is still the same it keeps the lines."""

    def __init__(self, read: Callable[[], Published]) -> None:
        self._read = read
        self._kept: dict[str, _Written] = {}

    def describe(self) -> Iterator[Metric]:
        """Return the families without values, so that registering reads nothing."""
        return (_family(declared) for declared in METRICS)

    def collect(self) -> Iterator[Metric]:
        """Return the families as they are now; a metric without any value is left out."""
        published, dropped = self._read(), dict[str, float]()
        for declared, value in _values(published, dropped):
            rows, excess = _capped(declared, value, published.partitions)
            _note(dropped, declared, excess)
            if rows:
                yield _filled(declared, rows)

    def written(self, *, open_metrics: bool) -> list[bytes]:
        """Return the lines of all metric families as they are now, one piece for each family."""
        published, dropped = self._read(), dict[str, float]()
        pieces: list[bytes] = []
        for declared, value in _values(published, dropped):
            family = self._lines(declared, value, published.partitions)
            _note(dropped, declared, family.excess)
            if family.lines:
                pieces += (exposition_lines.head(declared, open_metrics=open_metrics).encode(), family.lines)
        return pieces

    def _lines(self, declared: Declared, value: Any, partitions: tuple[str, ...]) -> _Written:
        previous = self._kept.get(declared.name)
        if previous is not None and previous.value is value and previous.partitions == partitions:
            return previous
        rows, excess = _capped(declared, value, partitions)
        write = exposition_lines.histogram_lines if declared.kind == "histogram" else exposition_lines.lines
        written = _Written(value, partitions, write(declared, rows).encode() if rows else b"", excess)
        if len(rows) >= WORTH_KEEPING:
            self._kept[declared.name] = written
        else:
            self._kept.pop(declared.name, None)
        return written


def _values(published: Published, dropped: dict[str, float]) -> Iterator[tuple[Declared, Any]]:
    """Yield every metric with its value; ``dropped`` fills meanwhile."""
    given: dict[str, Any] = {"build_info": {tuple(BUILD.values()): 1.0}, "capped_series": dropped}
    for declared in METRICS:
        name = declared.name.removeprefix(PREFIX)
        yield declared, given.get(name, getattr(published, name))


def _capped(declared: Declared, value: Any, partitions: tuple[str, ...]) -> tuple[dict[tuple[str, ...], Any], int]:
    """Return as many series as the cap allows, and how many there are beyond it."""
    rows: dict[tuple[str, ...], Any] = _distributions(declared, value) if declared.kind == "histogram" \
        else _rows(declared, value, partitions)
    excess = len(rows) - declared.cap
    return (dict(islice(rows.items(), declared.cap)), excess) if excess > 0 else (rows, 0)


def _note(dropped: dict[str, float], declared: Declared, excess: int) -> None:
    if excess:
        dropped[declared.name] = excess


class _PageRegistry(CollectorRegistry):
    """Our metrics, and those of the process and its Python."""

    def __init__(self, read: Callable[[], Published]) -> None:
        super().__init__()
        self.own, self.process = PublishedCollector(read), CollectorRegistry()
        self.register(self.own)
        for collector in (ProcessCollector(registry=self.process), PlatformCollector(registry=self.process)):
            self.register(collector)


def registry(read: Callable[[], Published]) -> CollectorRegistry:
    """Return a registry of our metrics and those of the process and its Python."""
    return _PageRegistry(read)


_RENAMED = re.compile(r"escaping=(?!underscores|allow-utf-8)")
"""Of content types in which all names are written otherwise."""


def page(registry: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Return the page and its content type: OpenMetrics where ``accept`` asks for it, else the text format 0.0.4."""
    try:
        encode, content_type = choose_encoder(accept)
    except TypeError:  # a version that is no number
        encode, content_type = choose_encoder("")
    if not isinstance(registry, _PageRegistry) or _RENAMED.search(content_type):
        return encode(registry), content_type
    ours = registry.own.written(open_metrics=content_type.startswith("application/openmetrics-text"))
    return b"".join((*ours, encode(registry.process))), content_type


def prepare(registry: CollectorRegistry) -> None:
    """Write what is large before somebody asks: beside threads that read exporters it takes ten times as long."""
    if isinstance(registry, _PageRegistry):
        registry.own.written(open_metrics=True)


def _distributions(declared: Declared, value: Any) -> dict[tuple[str, ...], Distribution]:
    """Return distributions under labels that any scraper accepts; of two that become alike the first stays."""
    rows: dict[tuple[str, ...], Distribution] = {}
    for labels, distribution in value.items():
        if len(labels) != len(declared.labels):
            raise ValueError(f"{declared.name} has the labels {declared.labels}, not {labels!r}")
        rows.setdefault(tuple(map(_text, labels)), distribution)
    return rows


def _rows(declared: Declared, value: Scalar | Series, partitions: tuple[str, ...]) -> dict[tuple[str, ...], float]:
    """Return values by label set: known label values at 0 unless given, unmeasured ones absent."""
    given = _clean(declared, value)
    if not declared.known:
        return given
    places = dict.fromkeys(labels[:-1] for labels in given)
    if declared.labels[:-1] == ("partition",):
        places.update(dict.fromkeys((_text(partition),) for partition in partitions))
    zeros = {(*place, known): 0.0 for place in places for known in declared.known}
    return zeros | given


def _clean(declared: Declared, value: Scalar | Series) -> dict[tuple[str, ...], float]:
    """Return measured values only, under labels that any scraper accepts; of two that become alike the first stays."""
    values: Mapping[Any, float | None] = value if isinstance(value, Mapping) else {(): value}
    keys = [(key,) if isinstance(key, str) else key for key in values]
    if set(map(len, keys)) - {len(declared.labels)}:
        odd = next(labels for labels in keys if len(labels) != len(declared.labels))
        raise ValueError(f"{declared.name} has the labels {declared.labels}, not {odd!r}")
    measured = ((labels, number) for labels, number in zip(keys, values.values(), strict=True)
                if number is not None and not math.isnan(number))
    if all(map(_are_plain, zip(*keys, strict=True))):
        return dict(measured)
    rows: dict[tuple[str, ...], float] = {}
    for labels, number in measured:
        rows.setdefault(tuple(map(_text, labels)), number)
    return rows


def _are_plain(column: tuple[str, ...]) -> bool:
    """Tell whether these values of one label may stay as they are: nearly always, found out for all at once."""
    return set(map(type, column)) == {str} and max(map(len, column)) <= LONGEST_LABEL and "".join(column).isascii()


def _text(label: str) -> str:
    # A lone surrogate (a user's bytes that were no UTF-8) would fail the whole page.
    return str(label)[:LONGEST_LABEL].encode(errors="replace").decode()


FAMILIES: Mapping[str, Any] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily,
                               "histogram": HistogramMetricFamily}


def _family(declared: Declared) -> Any:
    return FAMILIES[declared.kind](declared.name, declared.help, labels=declared.labels)


def _filled(declared: Declared, rows: Mapping[tuple[str, ...], float | Distribution]) -> Metric:
    family: Any = _family(declared)
    for labels, value in rows.items():
        if isinstance(value, Distribution):
            bounds = (*map(str, BUCKETS_S), "+Inf")
            family.add_metric(labels, list(zip(bounds, value.counts, strict=True)), value.total)
        else:
            family.add_metric(labels, value)
    filled: Metric = family
    return filled
