"""What a model has learned from, its ancestors' days included, so that none of these days counts as held out."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from pydantic import FiniteFloat

EPOCH_S = 10 * 365 * 86400.0
"""Times before this count from the beginning of a trace, and say nothing of which days they are."""


@dataclass(frozen=True, slots=True)
class LearnedSpan:
    """The part of one source that a model has learned from, or an ancestor that its training started from."""

    source: str
    since_s: FiniteFloat | None
    until_s: FiniteFloat | None

    @property
    def dated(self) -> bool:
        """Tell whether the span's times are dates, which mean the same days under every name of a source."""
        return max(_told(self.since_s, self.until_s), default=0.0) >= EPOCH_S


def joined(spans: Iterable[LearnedSpan]) -> tuple[LearnedSpan, ...]:
    """Return one span for each source, from its first beginning to its last end.

    A file may have been replaced by another one under its name: what has dates stays apart from what has none.
    """
    by_source: dict[tuple[str, bool], LearnedSpan] = {}
    for span in spans:
        key = span.source, span.dated or not _told(span.since_s, span.until_s)
        before = by_source.get(key, span)
        by_source[key] = LearnedSpan(span.source, min(_told(before.since_s, span.since_s), default=None),
                                      max(_told(before.until_s, span.until_s), default=None))
    return tuple(by_source.values())


def known_until(spans: Iterable[LearnedSpan], same: Callable[[str], bool]) -> float | None:
    """Return until when a history was seen; None where none of it was.

    Spans of the same source count, and dated ones of every source: a trace may be an export of these very days.
    """
    return max(_told(*(span.until_s for span in spans if span.dated or same(span.source))), default=None)


def undated(spans: Iterable[LearnedSpan], same: Callable[[str], bool]) -> tuple[str, ...]:
    """Return a note on each other source whose times are no dates: whether its days are held out cannot be told."""
    return tuple(f"the model, or one that its training started from, learned on {span.source}, whose times are no "
                 "dates; make sure that it holds no jobs of this history: its days would not be held out"
                 for span in spans if not span.dated and not same(span.source))


def _told(*times_s: float | None) -> list[float]:
    return [time_s for time_s in times_s if time_s is not None]
