"""Publish what idlewatt knows as Prometheus metrics: a stateless collector of the table in ``exporters/metrics``.

The daemon fills one ``Published`` at each cycle; every scrape builds its page anew from the latest, so what has
vanished leaves no stale series.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from prometheus_client import PlatformCollector, ProcessCollector
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector, CollectorRegistry

from .metrics import METRICS, Published
from .metrics.declared import BUCKETS_S, BUILD, LONGEST_LABEL, PREFIX, Declared, Distribution, Scalar, Series


def check(values: Mapping[str, Scalar | Series]) -> None:
    """Raise ValueError for a value that is none of a metric here, or has other labels: it would fail the whole page."""
    declared = {metric.name.removeprefix(PREFIX): metric for metric in METRICS}
    for name, value in values.items():
        if name not in declared:
            raise ValueError(f"there is no metric {PREFIX}{name}")
        _clean(declared[name], value)


class PublishedCollector(Collector):
    """Builds the metric families anew at each scrape; it keeps nothing."""

    def __init__(self, read: Callable[[], Published]) -> None:
        self._read = read

    def describe(self) -> Iterator[Metric]:
        """Return the families without values, so that registering reads nothing."""
        return (_family(declared) for declared in METRICS)

    def collect(self) -> Iterator[Metric]:
        """Return the families as they are now; a metric without any value is left out."""
        published, dropped = self._read(), dict[str, float]()
        given: dict[str, Any] = {"build_info": {tuple(BUILD.values()): 1.0}, "capped_series": dropped}
        for declared in METRICS:
            name = declared.name.removeprefix(PREFIX)
            value = given.get(name, getattr(published, name))
            rows: Mapping[tuple[str, ...], Any] = _distributions(declared, value) if declared.kind == "histogram" \
                else _rows(declared, value, published.partitions)
            excess = len(rows) - declared.cap
            if excess > 0:
                dropped[declared.name] = excess
            if rows:
                yield _filled(declared, list(rows.items())[:declared.cap])


def registry(read: Callable[[], Published]) -> CollectorRegistry:
    """Return a registry of our metrics and those of the process and its Python."""
    own = CollectorRegistry()
    own.register(PublishedCollector(read))
    ProcessCollector(registry=own)
    PlatformCollector(registry=own)
    return own


def page(own: CollectorRegistry, accept: str = "") -> tuple[bytes, str]:
    """Return the page and its content type: OpenMetrics where ``accept`` asks for it, else the text format 0.0.4."""
    encode, content_type = choose_encoder(accept)
    return encode(own), content_type


def _distributions(declared: Declared, value: Any) -> dict[tuple[str, ...], Distribution]:
    """Return distributions under labels that any scraper accepts; of two that become alike the first stays."""
    rows: dict[tuple[str, ...], Distribution] = {}
    for labels, found in value.items():
        if len(labels) != len(declared.labels):
            raise ValueError(f"{declared.name} has the labels {declared.labels}, not {labels!r}")
        rows.setdefault(tuple(map(_text, labels)), found)
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
    rows: dict[tuple[str, ...], float] = {}
    for key, number in values.items():
        labels = (key,) if isinstance(key, str) else key
        if len(labels) != len(declared.labels):
            raise ValueError(f"{declared.name} has the labels {declared.labels}, not {labels!r}")
        if number is not None and not math.isnan(number):
            rows.setdefault(tuple(map(_text, labels)), number)
    return rows


def _text(label: str) -> str:
    if type(label) is str and label.isascii() and len(label) <= LONGEST_LABEL:
        return label  # nearly all of them, at the price of a look
    # A lone surrogate (a user's bytes that were no UTF-8) would fail the whole page.
    return str(label)[:LONGEST_LABEL].encode(errors="replace").decode()


FAMILIES: Mapping[str, Any] = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily,
                               "histogram": HistogramMetricFamily}


def _family(declared: Declared) -> Any:
    return FAMILIES[declared.kind](declared.name, declared.help, labels=declared.labels)


def _filled(declared: Declared, rows: Iterable[tuple[tuple[str, ...], float | Distribution]]) -> Metric:
    family: Any = _family(declared)
    for labels, value in rows:
        if isinstance(value, Distribution):
            bounds = (*map(str, BUCKETS_S), "+Inf")
            family.add_metric(labels, list(zip(bounds, value.counts, strict=True)), value.total)
        else:
            family.add_metric(labels, value)
    filled: Metric = family
    return filled
