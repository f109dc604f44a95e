"""Writes series as lines of Prometheus' text formats, a whole family at once.

The client library writes line after line, five times as long: time in which readers of exporters take turns with the
page. It still writes what is not ours, and whatever has names that are not plain.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from prometheus_client.utils import floatToGoString

from .metrics.declared import BUCKETS_S, Declared, Distribution

_GO_EXPONENT = 1e6
"""From here on Go, and so everybody, writes numbers with an exponent."""
_BOUNDS = (*map(str, BUCKETS_S), "+Inf")

Labels = tuple[str, ...]


def head(declared: Declared, *, open_metrics: bool) -> str:
    """Return the lines that say what a family is."""
    name, help_text = declared.name, _escaped_text(declared.help)
    if open_metrics:
        name = name.removesuffix("_total") if declared.kind == "counter" else name
        help_text = help_text.replace('"', '\\"')
    return f"# HELP {name} {help_text}\n# TYPE {name} {declared.kind}\n"


def lines(declared: Declared, rows: Mapping[Labels, float]) -> str:
    """Return a line for each value of a gauge or a counter."""
    return _lines(declared.name, declared.labels, list(rows), _numbers(list(rows.values())))


def histogram_lines(declared: Declared, rows: Mapping[Labels, Distribution]) -> str:
    """Return the lines of distributions: buckets, count and sum of each."""
    name, labels = declared.name, declared.labels
    counts = list(_numbers(chain.from_iterable(distribution.counts for distribution in rows.values())))
    totals, each = list(_numbers([distribution.total for distribution in rows.values()])), len(_BOUNDS)
    written = []
    for place, (key, total) in enumerate(zip(rows, totals, strict=True)):
        row_counts = counts[place * each:(place + 1) * each]
        written += [_lines(f"{name}_bucket", (*labels, "le"), [(*key, bound) for bound in _BOUNDS], row_counts),
                    _lines(f"{name}_count", labels, [key], row_counts[-1:]),
                    _lines(f"{name}_sum", labels, [key], [total])]
    return "".join(written)


def _lines(name: str, labels: Sequence[str], keys: Sequence[Labels], numbers: Iterable[str]) -> str:
    if not labels:
        return "".join(f"{name} {number}\n" for number in numbers)
    columns = list(zip(*keys, strict=True))
    order = sorted(range(len(labels)), key=labels.__getitem__)
    inner = ",".join(f'{labels[place]}="%s"' for place in order)
    texts = (_escaped(columns[place]) for place in order)
    return "".join(map(f"{name}{{{inner}}} %s\n".__mod__, zip(*texts, numbers, strict=True)))


def _escaped(column: Sequence[str]) -> Sequence[str]:
    """Return label values as they stand between quotation marks."""
    together = "".join(column)
    if "\\" not in together and "\n" not in together and '"' not in together:
        return column  # nearly always, at the price of a look at all of them
    return [_escaped_text(value).replace('"', '\\"') for value in column]


def _escaped_text(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")


def _numbers(values: Iterable[float]) -> Iterator[str]:
    """Return numbers as Go writes them."""
    numbers = list(map(float, values))
    plain = bool(numbers) and math.isfinite(sum(numbers)) and max(numbers) < _GO_EXPONENT
    return map(repr if plain else floatToGoString, numbers)
