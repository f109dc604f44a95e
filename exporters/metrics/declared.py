"""How a metric is declared: its kind, help and labels, and how many series of it one page may hold."""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Literal

from ...storage.power_classes import PowerClass

PREFIX = "idlewatt_"

Scalar = float | None
Labelled = Mapping[tuple[str, ...], float | None]
Series = Mapping[str, float | None] | Labelled
"""Values by label: a string for one label, a tuple in the declared order for several. None is not published."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """How often a value was at most each of ``BUCKETS_S``, and how often in all, with the sum of the values."""

    counts: tuple[int, ...]
    total: float


BUCKETS_S = (10.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0, 28800.0, 86400.0, 259200.0, 604800.0)
"""Upper bounds of waits in seconds; the last count of a distribution has none."""
Distributions = Mapping[tuple[str, ...], Distribution]

DEGRADED = ("scheduler_unread", "database_behind", "source_down", "source_slow", "targets_down", "targets_slow",
            "cycle_overrun", "cycle_failing", "unmeasured", "clock_step", "notices_behind")
"""What may be wrong with what the daemon knows, what an operator should see first first."""

LONGEST_LABEL = 256
"""Characters of a label value that are kept: job names and reasons come from users."""

BUILD = {"version": version("idlewatt"), "revision": "", "branch": "", "python_version": platform.python_version()}


@dataclass(frozen=True, slots=True)
class Declared:
    """What a metric is: its kind, help and labels, and how many series of it may ever be on one page."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    help: str
    labels: tuple[str, ...]
    cap: int
    known: tuple[str, ...]
    """Values of the last label that are always there, 0 where nothing is given."""


def metric(kind: Literal["gauge", "counter"], text: str, *labels: str, cap: int = 1,
           known: Iterable[str] = ()) -> object:
    """Return the field of a metric; one without labels is a single value, None while it is not known."""
    return field(default_factory=dict if labels else _nothing,
                 metadata={"kind": kind, "help": text, "labels": labels, "cap": cap, "known": tuple(known)})


def _nothing() -> None:
    """Return the value of a metric that is not known (yet)."""


def gauge(text: str, *labels: str, cap: int = 1, known: Iterable[str] = ()) -> Any:
    """Return the field of a value that goes up and down."""
    return metric("gauge", text, *labels, cap=cap, known=known)


def counter(text: str, *labels: str, cap: int = 1, known: Iterable[str] = ()) -> Any:
    """Return the field of a value that only grows."""
    return metric("counter", text, *labels, cap=cap, known=known)


def histogram(text: str, *labels: str, cap: int) -> Any:
    """Return the field of distributions over ``BUCKETS_S``."""
    return field(default_factory=dict, metadata={"kind": "histogram", "help": text, "labels": labels, "cap": cap,
                                                 "known": ()})


def rows_in_words(rows: Iterable[PowerClass]) -> str:
    """Return power classes with their names for people, for the help of a metric."""
    return ", ".join(f"{row} ({row.label})" for row in rows)


# Caps: a site of 100 partitions and 10,000 nodes fits; beyond that something upstream is lying.
PARTITIONS, NODES, POLICIES, COLLECTORS = 100, 10_000, 50, 500
ADVICE = 50
SUBJECTS = 20
USERS = 200
JOBS = 100
WAITS = 500
FLAVOURS, QUEUES = 500, 50
"""Flavours of partitions, and users whose queues are published."""
NOTICES = 500
