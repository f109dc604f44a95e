"""Prometheus' text format, read fast: only the wanted metrics, and label sets are parsed once per series.

A scrape repeats the same series with other values, so what stands before the value is looked up, not parsed: labels
alone, as one GPU's metrics all repeat them. Whole series as keys took six times the memory. Where all lines of a page
are known, it is put together column by column, which takes half the time of line by line. How such a page is laid out
is remembered, too: of the next of its kind what stands before the values is compared, all at once, not taken apart.
A line in the plain form is read by one regular expression when first met; whatever is unusual (timestamps, escapes,
quoted names, odd spaces) goes, line by line, to prometheus_client's own parser.

What one page may cost is bounded, as in Prometheus' scrape configuration.
"""

from __future__ import annotations

import math
import re
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from prometheus_client.parser import text_string_to_metric_families

from .page_checks import PageError, PageLimits, no_exposition
from .text import clean, decode, quoted


@dataclass(slots=True)
class Look:
    """One page being read: when, until when, and what the samples' own timestamps say."""

    time_s: float
    """Seconds since the epoch at which the page was requested."""
    due: float = math.inf
    """When it must have been read, on the monotonic clock."""
    oldest_s: float = math.inf
    """The oldest timestamp that a sample bears and that is taken."""
    stale: int = 0
    """Samples left out for their own timestamp."""

    @property
    def read_s(self) -> float:
        """Return the time that readings of this page bear: no sample is younger than it says itself."""
        return min(self.time_s, self.oldest_s)

    def takes(self, timestamp_s: float | None, max_age_s: float) -> bool:
        """Tell whether a sample is fresh by its own timestamp; one without a timestamp counts as fresh."""
        if timestamp_s is None:
            return True
        # A clock that runs ahead says nothing of a sample's age; NaN compares false.
        if not abs(self.time_s - timestamp_s) <= max_age_s:
            self.stale += 1
            return False
        self.oldest_s = min(self.oldest_s, timestamp_s)
        return True

    def check(self) -> None:
        """Raise ``PageError`` once the time for reading the page has passed."""
        if time.monotonic() > self.due:
            raise PageError("took too long to be read (timeout)")


class Series(NamedTuple):
    """The identity of a series: its metric name and its labels.

    Series of one page with equally written labels share one dict, and ``id`` finds those that belong together.
    """

    name: str
    labels: dict[str, str]


Samples = list[tuple[Series, float]]
"""Series with their values; NaN and infinities as they came."""
Row = tuple[bytes, bytes, bytes, bytes]
"""Name, labels with their braces and value of a plain line, or all of another."""
_SERIES = partial(tuple.__new__, Series)
"""As Series(), of a pair, in a third of the time."""

_LABEL = rb'[a-zA-Z_][a-zA-Z0-9_]*="[^"\\\n]*"'
_PLAIN = re.compile(rb"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{((?:" + _LABEL + rb"(?:," + _LABEL + rb")*,?)?)\})?")
_PAIRS = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="([^"]*)"')
_LONGEST_LINE = 65536
_ROUNDS_KEPT = 200
_GROWTH, _SLACK = 1.25, 5_000
"""How far the known labels may outgrow what one round shows, before those that are gone are forgotten."""
_COUNTED_BYTES = 4 * 2**20
"""Pages beyond this have their lines counted before they are taken apart."""
_END = b"\n# EOF\n"
_NEWLINE, _WORD, _WORDS = 10, 8, np.dtype("<u8")
_NAMED = re.compile(rb"# EOF|#(?! EOF)[^\n]{6}|([a-zA-Z_:][a-zA-Z0-9_:]*)[{ ]")
"""How the lines of a page begin whose layout is remembered: a comment that is no end, or a name and what ends it."""
_LEAST_LAID_OUT, _LONGEST_LAID_OUT = 2048, 512 * 1024
"""Bytes of a page whose layout is remembered."""
_MOST_LAYOUTS, _MOST_WORDS = 256, 150_000
"""Layouts of a source, and words of them together from which on none is added: 4 MB."""


class _Layout:
    """How pages of one kind are laid out: what stands before each value, compared in words of eight bytes.

    Of lines whose labels are not those of every page of the kind (``varied``, by their number) only the name is
    compared, and the labels are looked up. Of lines of other metrics only as much is as tells them from wanted ones.
    """

    def __init__(self, starts: Sequence[bytes], series: Mapping[int, Series], varied: frozenset[int]) -> None:
        self.rows, self.varied = frozenset(series), varied
        self._series = list(series.values())
        self._rows = np.array(list(series), np.intp)
        self._lengths = np.array([len(starts[row]) for row in series], np.intp)
        self._looked_up = [place for place, row in enumerate(series) if row in varied]
        word_counts = [-(-len(start) // _WORD) for start in starts]
        self._lines = np.repeat(np.arange(len(starts)), word_counts).astype(np.int32)
        self._places = np.concatenate([np.arange(0, _WORD * count, _WORD) for count in word_counts]).astype(np.int32)
        padded = b"".join(start.ljust(_WORD * count, b"\0") for start, count in zip(starts, word_counts, strict=True))
        self._words = np.frombuffer(padded, _WORDS)
        mask = b"".join(b"\xff" * len(start) + bytes(-len(start) % _WORD) for start in starts)
        self._masks = np.frombuffer(mask, _WORDS)

    @property
    def size(self) -> int:
        """Return how many words it compares."""
        return len(self._words)

    def others(self, page: bytes, ends: npt.NDArray[np.intp]) -> frozenset[int]:
        """Return the lines of a page of as many lines that do not begin as they should; eight bytes follow the page."""
        page_words = np.ndarray(len(page) - _WORD + 1, _WORDS, page, strides=(1,))
        # Behind a page that is too short stand zeros, which no line has.
        places = np.minimum(ends[self._lines] + 1 + self._places, len(page) - _WORD)
        differ = (page_words[places] ^ self._words) & self._masks
        return frozenset(self._lines[differ != 0].tolist()) if differ.any() else frozenset()

    def samples(self, page: bytes, ends: npt.NDArray[np.intp], known: Mapping[bytes, dict[str, str]]) -> Samples | None:
        """Return the samples of a page whose lines all begin as they should; None where a value or label is unusual."""
        begin, end = ends[self._rows] + 1 + self._lengths, ends[self._rows + 1]
        values = [page[first:last] for first, last in zip(begin.tolist(), end.tolist(), strict=True)]
        series = self._series.copy()
        try:
            for place in self._looked_up:
                written, space, values[place] = values[place].rpartition(b" ")
                if not space:
                    return None
                series[place] = _SERIES((series[place][0], known[written]))
            written = b"".join(values)
            # A space stands before a timestamp; float() would take 1_000.
            return None if b" " in written or b"_" in written else list(zip(series, map(float, values), strict=True))
        except (KeyError, ValueError):
            return None


class _Layouts:
    """The layouts of a source's pages, by how many lines a page has; of two kinds with as many lines the first."""

    def __init__(self, names: Mapping[bytes, str]) -> None:
        self._names = names
        self._known: dict[int, _Layout | None] = {}
        """None: such a page has lines that are not plain."""

    def samples(self, page: bytes, known: Mapping[bytes, dict[str, str]]) -> Samples | None:
        """Return the samples of a page that is laid out as one before; None of any other."""
        if not self._known or not _LEAST_LAID_OUT <= len(page) <= _LONGEST_LAID_OUT or page[-1:] != b"\n":
            return None
        page = b"".join((b"\n", page, bytes(_WORD)))
        ends = _ends(page)
        layout = self._known.get(len(ends))
        return layout.samples(page, ends, known) if layout and not layout.others(page, ends) else None

    def learn(self, page: bytes, samples: Samples) -> None:
        """Remember how a page is laid out of which all lines are known, and which labels vary among such pages."""
        if not _LEAST_LAID_OUT <= len(page) <= _LONGEST_LAID_OUT:
            return
        ends, varied = _ends(page), frozenset[int]()
        before = self._known.get(len(ends))
        if before:
            varied = before.others(page + bytes(_WORD), ends)
            if not varied or not varied <= before.rows:
                return  # it differs in other ways
            varied |= before.varied
        elif len(ends) in self._known or len(self._known) >= _MOST_LAYOUTS:
            return
        if sum(layout.size for layout in self._known.values() if layout) < _MOST_WORDS:
            self._known[len(ends)] = self._layout(page[1:-1].split(b"\n"), samples, varied)

    def _layout(self, lines: Sequence[bytes], samples: Samples, varied: frozenset[int]) -> _Layout | None:
        """Return the layout of a page that shows these samples; None where a line is not plain."""
        series: dict[int, Series] = {}
        starts: list[bytes] = []
        for row, line in enumerate(lines):
            match = _NAMED.match(line)
            if match is None or (line.startswith(b"# EOF") and row < len(lines) - 1):
                return None
            if match[1] in self._names:
                series[row] = samples[len(series)][0]
                starts.append(match[1] if row in varied else line[:line.rindex(b" ") + 1])
            else:
                starts.append(self._telling(match[0]))
        return _Layout(starts, series, varied)

    def _telling(self, start: bytes) -> bytes:
        """Return as much of the start of a line as tells it from the lines of wanted metrics."""
        for size in range(_WORD, len(start), _WORD):
            if not any(name.startswith(start[:size]) for name in self._names):
                return start[:size]
        return start


def _ends(page: bytes) -> npt.NDArray[np.intp]:
    """Return where the lines of a page end."""
    return np.flatnonzero(np.frombuffer(page, np.uint8) == _NEWLINE)


class Exposition:
    """Reads the samples of ``wanted`` metrics from pages; one instance serves all targets of a source.

    Two generations of known labels bound the memory: what no page has shown for ``_ROUNDS_KEPT`` rounds is forgotten,
    earlier where labels change so fast that they pile up.
    """

    def __init__(self, wanted: Iterable[str], limits: PageLimits | None = None) -> None:
        self._names = {name.encode(): name for name in wanted}
        self._limits = limits or PageLimits()
        names = b"|".join(map(re.escape, sorted(self._names, key=len, reverse=True)))
        # Name, labels and value of a plain line, or all of another. Lines that start with a space or a brace may hold
        # a wanted name too; the stock parser knows. One that only begins with a wanted name is of another metric.
        self._lines = re.compile(rb"\n(?:(" + names + rb")(\{[^\n]*\})? ([^ \n]*)(?=\n)"
                                 rb"|((?:[ \t{]|(?:" + names + rb")(?![a-zA-Z0-9_:]))[^\n]*))")
        self._known: dict[bytes, dict[str, str]] = {}
        """Labels as they were read, by how they are written, braces included."""
        self._before: dict[bytes, dict[str, str]] = {}
        self._layouts = _Layouts(self._names)
        """Forgotten with the known labels, which they rest on."""
        self._rounds = 0
        self._shown = 0
        """Labels that the first round of this generation showed."""

    def next_round(self) -> None:
        """Note that all targets were read once more; age what is remembered."""
        self._rounds += 1
        if self._rounds == 1:
            self._shown = len(self._known)
        if self._rounds >= _ROUNDS_KEPT or len(self._known) > self._shown * _GROWTH + _SLACK:
            self._before, self._known, self._rounds = self._known, {}, 0
            self._layouts = _Layouts(self._names)

    def samples(self, page: bytes, look: Look | None = None) -> Samples:
        """Return the wanted samples of a page in their order, without those that are old by their own timestamp.

        Raises:
            PageError: the page is malformed, cut off, beyond its limits, or not read in time.
        """
        look, layouts = look or Look(0.0), self._layouts
        samples = layouts.samples(page, self._known)
        if samples is None:
            page = b"\n" + page
            _check_end(page)
            rows = self._wanted_rows(page)
            samples = self._all_known(rows)
            if samples:
                layouts.learn(page, samples)
            elif samples is None:
                samples = self._one_by_one(rows, look)
        if not samples and (fault := no_exposition(page)):
            raise PageError(fault)
        return samples

    def _wanted_rows(self, page: bytes) -> list[Row]:
        """Return the lines that may hold wanted samples; raise ``PageError`` where there are too many."""
        limit = self._limits.sample_limit
        if len(page) > _COUNTED_BYTES and next(islice(self._lines.finditer(page), limit, None), None):
            raise _too_many(limit)
        rows: list[Row] = self._lines.findall(page)
        if len(rows) > limit:
            raise _too_many(limit)
        return rows

    def _all_known(self, rows: list[Row]) -> Samples | None:
        """Return the samples of lines that are all plain and known by now; None where one of them is not."""
        names, written, values, others = zip(*rows, strict=True) if rows else ((), (), (), ())
        if any(others) or b"_" in b"".join(values):  # float() would take 1_000
            return None
        labels = map(self._known.__getitem__, written)
        try:
            return list(zip(map(_SERIES, zip(map(self._names.__getitem__, names), labels, strict=True)),
                            map(float, values), strict=True))
        except (KeyError, ValueError):
            return None

    def _one_by_one(self, rows: list[Row], look: Look) -> Samples:
        """Return the samples of lines some of which are not known yet, or unusual."""
        names, known = self._names, self._known
        samples: Samples = []
        for name, written, value, other in rows:
            try:
                if not other and b"_" not in value:
                    samples.append((_SERIES((names[name], known[written])), float(value)))
                    continue
            except (KeyError, ValueError):
                pass
            look.check()
            text, _, value = other.rpartition(b" ") if other else (name + written, b" ", value)
            sample = self._first_seen(other or b"%b %b" % (text, value), text, value, look)
            if sample[0].name.encode() in names:
                samples.append(sample)
        return samples

    def _first_seen(self, line: bytes, text: bytes, value: bytes, look: Look) -> tuple[Series, float]:
        """Read a line whose labels are not known yet; remember them where the line is plain."""
        try:
            number = float(value) if b"_" not in value else None
            series = self._plain_series(text)
        except ValueError:
            number = series = None
        return self._stock_sample(line, look) if series is None or number is None else (series, number)

    def _plain_series(self, text: bytes) -> Series | None:
        """Return the series written in ``text``, None where it needs the stock parser."""
        match = _PLAIN.fullmatch(text)
        if match is None or len(text) > _LONGEST_LINE:
            return None
        written = text[match.end(1):]
        labels = self._known.get(written)
        if labels is None:
            labels = self._before.pop(written, None)
        if labels is None:
            labels = self._plain_labels(match[2] or b"")
        if labels is not None and match[1] in self._names:
            self._known[written] = labels
        return None if labels is None else Series(match[1].decode(), labels)

    def _plain_labels(self, written: bytes) -> dict[str, str] | None:
        """Return the labels, None where they need the stock parser."""
        pairs = _PAIRS.findall(decode(written))
        # The same few names and values come from every target: each is kept once.
        labels = {sys.intern(name): sys.intern(clean(value)) for name, value in pairs}
        if len(labels) < len(pairs) or any(label.startswith("__") for label in labels):
            return None
        self._limits.check_labels(labels)
        return labels

    def _stock_sample(self, line: bytes, look: Look) -> tuple[Series, float]:
        if len(line) > _LONGEST_LINE:
            raise PageError(f"a line of {len(line)} bytes: {quoted(line)}")
        try:
            samples = [sample for family in text_string_to_metric_families(decode(line)) for sample in family.samples]
        except (ValueError, OverflowError, IndexError) as error:
            raise PageError(f"not a sample: {quoted(line)}") from error
        stamp = samples[0].timestamp if samples else None
        if not samples or not look.takes(None if stamp is None else float(stamp), self._limits.max_age):
            return Series("", {}), 0.0  # a line of spaces, an indented comment, or what is old
        self._limits.check_labels(samples[0].labels)
        labels = {name: clean(value) for name, value in samples[0].labels.items()}
        return Series(samples[0].name, labels), float(samples[0].value)


def _too_many(limit: int) -> PageError:
    return PageError(f"shows more than {limit} samples of the metrics that are read (sample_limit)")


def _check_end(page: bytes) -> None:
    """Raise ``PageError`` where a page is cut within a line, or goes on after its end."""
    if not page.endswith(b"\n"):
        raise PageError("the page is cut off: its last line does not end")
    if page.rfind(_END, 0, -1) >= 0:  # backwards, which is many times as fast
        raise PageError("text follows after # EOF")
