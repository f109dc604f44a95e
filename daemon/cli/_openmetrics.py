"""Samples with their times as OpenMetrics, which ``promtool tsdb create-blocks-from openmetrics`` makes into blocks.

Without TYPE lines: those would have all samples of a metric stand together, and a past comes page after page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from prometheus_client import Metric

END = "# EOF\n"


class PageWriter:
    """Writes page after page as scraped with these labels; the name of a series is put together once."""

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
    """Return a series' name with its labels."""
    return f"{name}{{{','.join(f'{label}={quoted(value)}' for label, value in labels)}}}"


def quoted(value: str) -> str:
    """Return a label value in quotes."""
    escaped = value.replace("\\", r"\\").replace("\n", r"\n").replace('"', r"\"")
    return f'"{escaped}"'
