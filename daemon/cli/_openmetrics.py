"""Samples with their times as OpenMetrics, which ``promtool tsdb create-blocks-from openmetrics`` makes into blocks.

The text has no TYPE lines: they require all samples of a metric in one place, but the past comes page by page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Metric

END = "# EOF\n"


class PageWriter:
    """Writes pages as if they were scraped with given labels; names of series are cached."""

    def __init__(self, labels: Mapping[str, str]) -> None:
        self._scraper = tuple(labels.items())
        self._known: dict[tuple[str, ...], str] = {}

    def lines(self, page: Iterable[Metric], time_s: float) -> Iterator[str]:
        """Yield a line for every sample of a page."""
        for sample in (sample for family in page for sample in family.samples):
            key = (sample.name, *sample.labels.values())
            name = self._known.get(key)
            if name is None:
                name = self._known[key] = series(sample.name, (*sample.labels.items(), *self._scraper))
            yield f"{name} {sample.value} {time_s:.0f}\n"


def series(name: str, labels: Iterable[tuple[str, str]]) -> str:
    """Return the name of a series with its labels."""
    return f"{name}{{{','.join(f'{label}={quoted(value)}' for label, value in labels)}}}"


def quoted(value: str) -> str:
    """Return a label value, escaped and in quotes."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'"{escaped}"'
