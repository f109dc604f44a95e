"""Prometheus' text format, read fast: only the wanted metrics, and label sets are parsed once per series.

A scrape repeats the same series with other values, so what stands before the value is looked up, not parsed.
A line in the plain form is read by one regular expression when first met; whatever is unusual (timestamps, escapes,
quoted names, odd spaces) goes, line by line, to prometheus_client's own parser.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from typing import NamedTuple

from prometheus_client.parser import text_string_to_metric_families


class Series(NamedTuple):
    """The identity of a series: its metric name and its labels.

    Series of one page with equally written labels share one dict, and ``id`` finds those that belong together.
    """

    name: str
    labels: dict[str, str]


Samples = list[tuple[Series, float]]
"""Series with their values; NaN and infinities as they came."""

_LABEL = rb'[a-zA-Z_][a-zA-Z0-9_]*="[^"\\\n]*"'
_PLAIN = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:" + _LABEL + rb"(?:," + _LABEL + rb")*,?)?)\})?")
_PAIRS = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"')
_LONGEST_LINE = 65536
_CHECKED_BYTES = 262144
_ROUNDS_KEPT = 200


class PageError(ValueError):
    """A page is not Prometheus' text format; the message says where."""


class Exposition:
    """Reads the samples of ``wanted`` metrics from pages; one instance serves all targets of a source.

    Two generations of known series bound the memory: what no page has shown for ``_ROUNDS_KEPT`` rounds is forgotten,
    so labels that change with every job do not pile up.
    """

    def __init__(self, wanted: Iterable[str]) -> None:
        self._wanted = frozenset(wanted)
        names = b"|".join(re.escape(name).encode() for name in sorted(self._wanted))
        # Lines that start with a space or a brace may hold a wanted name too; the stock parser knows.
        self._lines = re.compile(rb"\n((?:[ \t{]|" + names + rb")[^\n]*)")
        self._known: dict[bytes, Series] = {}
        self._before: dict[bytes, Series] = {}
        self._labels: dict[bytes, dict[str, str]] = {}
        self._rounds = 0

    def next_round(self) -> None:
        """Note that all targets were read once more; age what is remembered."""
        self._rounds += 1
        if self._rounds % _ROUNDS_KEPT == 0:
            self._before, self._known, self._labels = self._known, {}, {}

    def samples(self, page: bytes) -> Samples:
        """Return the wanted samples of a page in their order; raise ``PageError`` where it is malformed."""
        if page and not page.endswith(b"\n"):
            raise PageError("the page is cut off: its last line does not end")
        known = self._known
        found: Samples = []
        for line in self._lines.findall(b"\n" + page):
            text, _, value = line.rpartition(b" ")
            try:
                if b"_" not in value:  # float() would take 1_000
                    found.append((known[text], float(value)))
                    continue
            except (KeyError, ValueError):
                pass
            sample = self._first_seen(line, text, value)
            if sample[0].name in self._wanted:
                found.append(sample)
        if not found:
            _check(page)
        return found

    def _first_seen(self, line: bytes, text: bytes, value: bytes) -> tuple[Series, float]:
        """Read a line whose series is not known yet; remember the series where the line is plain."""
        try:
            number = float(value) if b"_" not in value else None
            series = self._before.get(text) or self._plain_series(text)
        except ValueError:
            number = series = None
        if series is None or number is None:
            return _stock_sample(line)
        if series.name in self._wanted:
            self._known[text] = series
        return series, number

    def _plain_series(self, text: bytes) -> Series | None:
        """Return the series written in ``text``, None where it needs the stock parser."""
        match = _PLAIN.fullmatch(text)
        if match is None or len(text) > _LONGEST_LINE:
            return None
        written = match[2] or b""
        labels = self._labels.get(written)
        if labels is None:
            pairs = _PAIRS.findall(written.decode())
            # The same few names and values come from every target: each is kept once.
            labels = {sys.intern(label): sys.intern(value) for label, value in pairs}
            if len(labels) < len(pairs) or any(label.startswith("__") for label in labels):
                return None
            self._labels[written] = labels
        return Series(match[1].decode(), labels)


def _stock_sample(line: bytes) -> tuple[Series, float]:
    if len(line) > _LONGEST_LINE:
        raise PageError(f"a line of {len(line)} bytes: {_shown(line)}")
    try:
        for family in text_string_to_metric_families(line.decode()):
            for sample in family.samples:
                return Series(sample.name, sample.labels), float(sample.value)
    except (ValueError, OverflowError, IndexError) as error:
        raise PageError(f"not a sample: {_shown(line)}") from error
    return Series("", {}), 0.0  # a line of spaces, or an indented comment


def _check(page: bytes) -> None:
    """Tell a page without our metrics from one that is no exposition at all."""
    start = page[:_CHECKED_BYTES].rpartition(b"\n")[0]
    try:
        for _ in text_string_to_metric_families(start.decode()):
            pass
    except (ValueError, OverflowError, IndexError) as error:
        raise PageError(f"not Prometheus' text format: {_shown(page)}") from error


def _shown(text: bytes) -> str:
    """Return the start of hostile bytes in a form that is safe in one log line."""
    return ascii(text[:60].decode(errors="replace"))
