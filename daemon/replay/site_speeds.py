"""What is known of the speeds of a site's jobs, by groups of like jobs, each figure with its source and interval.

A group is the jobs of one user whose names differ only in what varies from run to run: numbers and hashes
(:func:`.runtime_prediction.template`). Both are patterns (``*`` and ``?``, whatever the case), tried on the name as it
is and without what varies; of several groups that fit a job the first counts. A job that fits none has unknown speeds:
its factors are 1, and its GPU time is counted as such wherever a replay is reported.

Where figures come from (``SOURCES``): *measured* on this site by at least ``ENOUGH`` runs on either side;
*fitted*, read off between measured points; *prior*, somebody else's measurement (a published profile, or a file); all
else is *unknown*. A placement further apart than any that is known counts as the furthest that is, and as unknown.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .runtime_prediction import template
from .speed import FLAT, LEVELS, SpeedError, SpeedTable, measured

Source = Literal["measured", "fitted", "prior", "unknown"]
SOURCES: tuple[Source, ...] = ("measured", "fitted", "prior", "unknown")
MEASURED, FITTED, PRIOR, UNKNOWN = range(len(SOURCES))
"""The less is known the higher: what ran on several figures ran on the worst of them."""
ENOUGH = 3
"""Runs on either side of a comparison that make it a measurement."""
MOST_GPUS = 1024
"""Sizes beyond it are as fast as it."""
MOST_MEMORY = 32
"""Steps of memory in ``SpeedTable.grants``."""
OTHERS = ""
"""Label of all jobs of no group."""

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class SpeedCell:
    """One figure with its interval and its source; SpeedError for figures that are wrong."""

    factor: float
    """Relative speed."""
    low: float
    high: float
    """The upper end of the 95 % interval; ``low`` is its lower end."""
    source: Source
    runs: int = 0
    """The number of this site's runs on which the figure rests."""

    def __post_init__(self) -> None:
        """Refuse what no job can run at."""
        if not all(math.isfinite(value) and value > 0 for value in (self.factor, self.low, self.high)):
            raise SpeedError(f"a speed must be a positive number, not {self.factor!r} ({self.low!r} to {self.high!r})")
        if not self.low <= self.factor <= self.high:
            raise SpeedError(f"a speed of {self.factor:g} lies outside of its interval, {self.low:g} to {self.high:g}")


@dataclass(frozen=True)
class SpeedGroup:
    """Like jobs and their speeds."""

    user: str
    """Pattern, as is ``name``."""
    name: str
    runs: int = 0
    """The number of this site's runs that were watched."""
    follows: str = ""
    """The published application whose profile is its prior; '' where there is none."""
    size: Mapping[int, SpeedCell] = field(default_factory=dict)
    """By number of GPUs, in any unit."""
    spread: Mapping[str, SpeedCell] = field(default_factory=dict)
    """By level of ``LEVELS``, over the speed on one island."""
    company: Mapping[str, SpeedCell] = field(default_factory=dict)
    """By label of the neighbours' group, ``OTHERS`` for all others: what is left of its speed beside one of them."""
    cpus: Mapping[float, SpeedCell] = field(default_factory=dict)
    """By CPUs per GPU."""
    memory: Mapping[float, SpeedCell] = field(default_factory=dict)
    """By bytes per GPU."""

    def __post_init__(self) -> None:
        """Refuse levels and sizes that there are not."""
        unknown = set(self.spread) - set(LEVELS)
        if unknown:
            raise SpeedError(f"{self.label}: unknown levels: {', '.join(sorted(unknown))}; "
                             f"known are {', '.join(LEVELS)}")
        if any(not 1 <= gpus <= MOST_GPUS for gpus in self.size):
            raise SpeedError(f"{self.label}: sizes are 1 to {MOST_GPUS} GPUs")
        if any(not (math.isfinite(point) and point > 0) for point in (*self.cpus, *self.memory)):
            raise SpeedError(f"{self.label}: CPUs and memory per GPU are positive numbers")

    @property
    def label(self) -> str:
        """Return the label by which other groups name this group."""
        return f"{self.user}/{self.name}"

    @property
    def only_used(self) -> bool:
        """Tell whether none of the group's speeds is known, but only the CPUs and memory that it uses."""
        return not (self.runs or self.follows or self.size or self.spread or self.company)

    def contradictions(self) -> list[str]:
        """Return where the group was surely faster on GPUs further apart: both figures are kept and reported."""
        messages, nearer = list[str](), SpeedCell(1.0, 1.0, 1.0, "measured")
        for level in LEVELS:
            cell = self.spread.get(level)
            if cell is not None and cell.low > nearer.high:
                messages.append(f"{self.label} was faster on GPUs further apart ({level}: {cell.factor:.2f}, "
                                f"{cell.low:.2f} to {cell.high:.2f}) than on closer ones ({nearer.factor:.2f}); "
                                "both are kept as they are")
            nearer = cell or nearer
        return messages

    def fits(self, user: str, name: str) -> bool:
        """Tell whether a job belongs here."""
        pattern = self.name.lower()
        return fnmatchcase(user.lower(), self.user.lower()) and (
            fnmatchcase(template(name).lower(), pattern) or fnmatchcase(name.lower(), pattern))


@dataclass(frozen=True)
class SiteSpeeds:
    """The speeds that replays go by."""

    origin: str
    """``flat``, ``site``, or the file that they were read from."""
    groups: tuple[SpeedGroup, ...] = ()
    notes: tuple[str, ...] = ()
    """What is to be known of them, one sentence each: contradictions, what was left out."""
    topology: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    """Leaf and spine switch by node, when they were put together."""

    def __post_init__(self) -> None:
        """Refuse groups with equal labels, and unknown neighbours."""
        labels = [group.label for group in self.groups]
        if len(set(labels)) < len(labels):
            raise SpeedError(f"two groups are {next(label for label in labels if labels.count(label) > 1)}")
        known = {*labels, OTHERS}
        for group in self.groups:
            strangers = set(group.company) - known
            if strangers:
                raise SpeedError(f"{group.label}: there is no group {sorted(strangers)[0]!r} to run beside")

    @cached_property
    def table(self) -> SpeedTable:
        """Return the table for policies that give jobs the CPUs and memory they ask for; row 0 is of no group.

        Without any figure but 1 it is ``FLAT`` itself.
        """
        return FLAT if self._rigid else self._table()

    def table_for(self, policy: object) -> SpeedTable:
        """Return the table that a policy is replayed with: with CPUs and memory for those that have ``grants``.

        For all others it is the same without, and the engine is faster.
        """
        return self.fungible if getattr(policy, "grants", False) else self.table

    @cached_property
    def fungible(self) -> SpeedTable:
        """Return the table for policies that grant CPUs and memory as they see fit; the engine is slower with it."""
        most_cpus = math.ceil(max((point for group in self.groups for point in group.cpus), default=0))
        most_bytes = max((point for group in self.groups for point in group.memory), default=0.0)
        if not most_cpus and not most_bytes:
            return self.table
        step = max(1.0, most_bytes / MOST_MEMORY)
        steps = MOST_MEMORY if most_bytes else 0
        grants = np.ones((len(self.groups) + 1, most_cpus + 1, steps + 1))
        for row, group in enumerate(self.groups, 1):
            grants[row] = np.outer(_along(group.cpus, np.arange(most_cpus + 1.0)),
                                   _along(group.memory, step * np.arange(steps + 1.0)))
        table = self._table()
        return SpeedTable(table.size, table.spread, table.company, grants, step)

    def _table(self) -> SpeedTable:
        sizes: list[Mapping[int, float]] = [{1: 1.0}]
        sizes += [{gpus: cell.factor for gpus, cell in group.size.items()} or {1: 1.0} for group in self.groups]
        spread: list[Mapping[str, float]] = [{}]
        spread += [{level: cell.factor for level, cell in group.spread.items()} for group in self.groups]
        factors = {(group.label, other): cell.factor for group in self.groups for other, cell in group.company.items()}
        labels = {label: row for row, label in enumerate(self.labels)}
        most = max(max(size) for size in sizes)
        if all(factor == 1 for factor in factors.values()):
            return measured(sizes, most, spread)
        company = np.ones((len(labels), len(labels)))
        for (label, other), factor in factors.items():
            company[labels[label], labels[other]] = factor
        return measured(sizes, most, spread, company=company)

    @property
    def labels(self) -> tuple[str, ...]:
        """Return what the rows of the table are called."""
        return (OTHERS, *(group.label for group in self.groups))

    @property
    def flat(self) -> bool:
        """Tell whether no speed depends on anything."""
        return self._rigid and not any(group.cpus or group.memory for group in self.groups)

    @cached_property
    def _rigid(self) -> bool:
        """Tell whether nothing depends on size, place or neighbours."""
        if not self.groups:
            return True
        table = self._table()
        return all((part == 1).all() for part in (table.size[:, 1:], table.spread, table.company))

    @cached_property
    def digest(self) -> str:
        """Return a digest of these figures; '' for flat ones."""
        contents = [asdict(group) for group in self.groups]
        return "" if self.flat else hashlib.sha256(repr(contents).encode()).hexdigest()[:12]

    @property
    def identity(self) -> str:
        """Return what identifies these speeds on the card of a model that was trained with them; '' for flat ones."""
        return f"{self.origin} {self.digest}" if self.digest else ""

    @property
    def summary(self) -> str:
        """Return a summary in one sentence."""
        if self.origin == "flat":
            return "flat: speed depends on nothing"
        watched = [group.runs for group in self.groups if group.runs]
        text = f"{self.origin}: {len(watched)} groups of like jobs from {sum(watched)} runs"
        used = sum(group.only_used for group in self.groups)
        published = len(self.groups) - len(watched) - used
        text += f", {published} by what others measured" if published else ""
        text += f", of {used} only what CPUs and memory they use" if used else ""
        return f"{text}, where nothing is known, so they are as flat ones" if self.flat else text

    def rows(self, user: NDArray[np.integer], users: Sequence[str], name: NDArray[np.integer],
             names: Sequence[str]) -> Rows:
        """Return the row of each job in the table; codes of -1 have no name."""
        if self.flat or not len(user):
            return np.zeros(len(user), np.int32)
        pairs = (np.asarray(user, np.int64) + 1) * (len(names) + 1) + np.asarray(name, np.int64) + 1
        unique, which = np.unique(pairs, return_inverse=True)
        every_user, every_name = ("", *users), ("", *names)
        group_rows = [self.row(every_user[pair // (len(names) + 1)], every_name[pair % (len(names) + 1)])
                      for pair in unique.tolist()]
        return np.array(group_rows, np.int32)[which]

    def sizes(self, row: Rows, gpus: NDArray[np.integer]) -> tuple[Rows, Rows]:
        """Return the fewest and the most GPUs that each job can use: those that its group really came with here.

        A group that came in one size, or was never measured, is rigid.
        """
        least, most = np.full(len(self.groups) + 1, MOST_GPUS, np.int32), np.zeros(len(self.groups) + 1, np.int32)
        for number, group in enumerate(self.groups, 1):
            measured_sizes = [size for size, cell in group.size.items() if cell.source == "measured"]
            if len(measured_sizes) > 1:
                least[number], most[number] = min(measured_sizes), max(measured_sizes)
        requested = np.asarray(gpus, np.int32)
        return np.where(requested > 0, np.minimum(requested, least[row]), requested), np.maximum(
            requested, np.where(requested > 0, most[row], requested))

    def row(self, user: str, name: str) -> int:
        """Return the row of one job; 0 for one of no group."""
        known = self._exact.get((user.lower(), template(name).lower()))
        within = self._patterns if known is None else [row for row in self._patterns if row < known]
        return next((row for row in within if self.groups[row - 1].fits(user, name)), known or 0)

    @cached_property
    def _exact(self) -> dict[tuple[str, str], int]:
        """Return the groups that are no patterns: a site has thousands, and each is looked up at once."""
        row_by_name: dict[tuple[str, str], int] = {}
        for row, group in enumerate(self.groups, 1):
            if row not in self._patterns:
                row_by_name.setdefault((unescaped(group.user).lower(), unescaped(group.name).lower()), row)
        return row_by_name

    @cached_property
    def _patterns(self) -> list[int]:
        """Return the groups that are found by trying: what fits more than one name, or names with what varies."""
        texts = [(unescaped(group.user), unescaped(group.name)) for group in self.groups]
        return [row for row, (group, (user, name)) in enumerate(zip(self.groups, texts, strict=True), 1)
                if (escaped(user), escaped(name)) != (group.user, group.name) or template(name) != name]

    def sources(self, level: NDArray[np.integer], held: NDArray[np.integer], wanted: NDArray[np.integer],
                row: Rows) -> NDArray[np.int8]:
        """Return on what each job ran, numbers of ``SOURCES``: the worst of what its size and its spread rest on."""
        spread, size = self._sources
        last = size.shape[1] - 1
        known = np.where(held == wanted, MEASURED, np.maximum(size[row, np.clip(held, 0, last)],
                                                              size[row, np.clip(wanted, 0, last)]))
        return np.maximum(spread[row, level], known).astype(np.int8)

    @cached_property
    def _sources(self) -> tuple[NDArray[np.int8], NDArray[np.int8]]:
        """Return what the cells of the table rest on: [row, level] and [row, GPUs]."""
        most = max((gpus for group in self.groups for gpus in group.size), default=0)
        spread = np.full((len(self.groups) + 1, len(LEVELS)), UNKNOWN, np.int8)
        size = np.full((len(self.groups) + 1, most + 2), UNKNOWN, np.int8)  # the last column: larger than any known
        for row, group in enumerate(self.groups, 1):
            # One on a node of its own is what all others are compared with.
            without_runs = PRIOR if group.follows or not (group.runs or group.only_used) else UNKNOWN
            spread[row, :2] = MEASURED if group.runs >= ENOUGH else without_runs
            for level, cell in group.spread.items():
                spread[row, LEVELS.index(level)] = SOURCES.index(cell.source)
            known = sorted(group.size)
            size[row, known[0] if known else 0:(known[-1] if known else 0) + 1] = FITTED if known else UNKNOWN
            for gpus, cell in group.size.items():
                size[row, gpus] = SOURCES.index(cell.source)
        return spread, size


FLAT_SPEEDS = SiteSpeeds("flat")
"""Speed depends on nothing."""


def _along(cells: Mapping[float, SpeedCell], grid: Floats) -> Floats:
    """Return what cells say at points of a grid: interpolated, 0 at nothing, never falling; 1 without cells."""
    if not cells:
        return np.ones(len(grid))
    points = sorted(cells)
    read = np.interp(grid, [0.0, *points], [0.0, *(cells[point].factor for point in points)])
    return np.asarray(np.maximum.accumulate(read))


def escaped(text: str) -> str:
    """Return the pattern that fits this text alone."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)


def unescaped(pattern: str) -> str:
    """Return the text that an escaped pattern was made from."""
    for sign in "*?[":
        pattern = pattern.replace(f"[{sign}]", sign)
    return pattern


def moved(before: Mapping[str, tuple[str, str]], now: Mapping[str, tuple[str, str]]) -> list[str]:
    """Return the nodes that hang together with others than before, of those known then and now.

    Switches may be called otherwise: only which nodes share one counts.
    """
    common = sorted(set(before) & set(now))
    return [node for place in (0, 1) for node in _regrouped(common, before, now, place)] if common else []


def _regrouped(nodes: Sequence[str], before: Mapping[str, tuple[str, str]], now: Mapping[str, tuple[str, str]],
               place: int) -> list[str]:
    """Return the nodes whose switches, leaves or spines by ``place``, hold others together than they did."""
    def together(known: Mapping[str, tuple[str, str]]) -> dict[str, frozenset[str]]:
        switches: dict[tuple[str, ...], set[str]] = {}
        for node in nodes:
            leaf, spine = known[node]
            switches.setdefault((spine, leaf) if place == 0 else (spine,), set()).add(node)
        return {node: frozenset(members) for members in switches.values() for node in members}

    then, today = together(before), together(now)
    return [node for node in nodes if then[node] != today[node]]
