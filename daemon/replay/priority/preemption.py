"""Which jobs may take the place of which others, and what becomes of those, as the site has configured Slurm."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ....storage.records import Partition
from ....storage.rules import Qos, SchedulerRules

BY_QOS, BY_TIER = "qos", "partition_prio"
KEPT, REQUEUED, CANCELLED = 0, 1, 2
"""What becomes of a job whose place another wants: it stays, it starts over later, it is over."""
_BECOMES = {"REQUEUE": REQUEUED, "CANCEL": CANCELLED}
_ASIDE = {"GANG", "WITHIN"}
"""Words of PreemptMode that do not say what becomes of a job."""
MOST_PRIORITY = 0xFFFF
"""Slurm uses 16 bits of a QOS's priority when it orders whom to preempt, so that size decides among equals."""
RULES_UNKNOWN = "whether jobs preempt others is not known (PreemptType, PreemptMode): nobody does in the replay"
NO_QOS = "jobs preempt others by their quality of service, and none are known: nobody does in the replay"
SUSPENDS = ("what Slurm suspends keeps its GPUs and memory, so nobody starts in its place in the replay; in Slurm jobs "
            "without GPUs would")
TURNS = "gang scheduling, by which jobs take turns on the same cores, is not replayed"
WITHIN = "preemption within a quality of service (WITHIN) is not replayed"
NO_GROUPS = ("Slurm's settings say that jobs preempt others, and neither qualities of service nor tiers of partitions "
             "are known: nobody does in the replay")
GRACE = "GraceTime is not known: who is preempted goes at once in the replay"


@dataclass(frozen=True)
class Group:
    """Jobs of one quality of service, or of one partition."""

    weight: float = 0.0
    """Priority of the QOS or tier of the partition: those of the least go first."""
    becomes: int = KEPT
    over: frozenset[str] = frozenset()
    """Groups whose jobs its own may preempt."""


@dataclass(frozen=True)
class SchedulerPreemption:
    """Preemption as configured; where nothing is known nobody is preempted, which ``notes`` says."""

    by: str = ""
    """``qos`` or ``partition_prio``; '' for nobody."""
    groups: Mapping[str, Group] = field(default_factory=dict)
    exempt_s: Mapping[str, float] = field(default_factory=dict)
    """By quality of service how long a job runs before it may be preempted."""
    usual_exempt_s: float = 0.0
    """How long a job of any other quality of service runs before it may be preempted."""
    youngest_first: bool = False
    strict_order: bool = False
    reorders: int = 1
    """How often the order of jobs that go is changed so that fewer do."""
    returns_s: float = 121.0
    """How long after its end a requeued job may begin again: the life of a credential and a second."""
    again_s: float = 40.0
    """How long after it made room a job may make room again."""
    most_times: int = 1000
    """How often a job is preempted, so that every replay ends: where no job is first for the room that it made, jobs
    of an order that never changes can take it by turns for ever."""
    notes: tuple[str, ...] = ()
    """What of the configuration is not replayed, or not known, in words."""

    @classmethod
    def of(cls, rules: SchedulerRules, partitions: Sequence[Partition]) -> SchedulerPreemption:
        """Return what a scheduler's rules and partitions say."""
        site = rules.site
        if site.preempt_type == "none" or site.preempt_mode == ():
            return cls()
        if site.preempt_type not in (BY_QOS, BY_TIER) or site.preempt_mode is None:
            return cls(notes=(RULES_UNKNOWN,))
        if site.preempt_type == BY_QOS and rules.qos is None:
            return cls(notes=(NO_QOS,))
        groups = dict(_by_qos(rules.qos or (), site.preempt_mode) if site.preempt_type == BY_QOS
                      else _by_tier(partitions, site.preempt_mode))
        parameters = {parameter.split("=")[0]: parameter.partition("=")[2] for parameter in site.parameters}
        reorders = parameters.get("preempt_reorder_count", "1")
        return cls(
            site.preempt_type, groups, {qos.name: qos.exempt_s for qos in rules.qos or () if qos.exempt_s},
            site.exempt_s, "preempt_youngest_first" in parameters, "preempt_strict_order" in parameters,
            int(reorders) if reorders.isdecimal() else 1, site.returns_s, site.room_again_s,
            notes=tuple(_not_replayed(site.preempt_type, site.preempt_mode, rules.qos or (), partitions)))

    @classmethod
    def of_config_lines(cls, lines: Mapping[str, str]) -> SchedulerPreemption:
        """Return what lines of ``scontrol show config`` say by themselves: which jobs preempt which is not in them."""
        kind = lines.get("PreemptType", "").rpartition("/")[2].strip().lower()
        return cls(notes=(NO_GROUPS,)) if kind in (BY_QOS, BY_TIER) else cls()

    @property
    def takes_place(self) -> bool:
        """Tell whether anybody may be preempted."""
        becomes = {name: group.becomes for name, group in self.groups.items()}
        return any(becomes.get(name, KEPT) != KEPT for group in self.groups.values() for name in group.over)

    def level(self, names: Sequence[str]) -> NDArray[np.int64] | None:
        """Return how many steps of preemption each group stands above others; None where that tells no order.

        It does where a group that stands higher may preempt all that stand lower.
        """
        groups = [self.groups.get(name, Group()) for name in names]
        level = np.zeros(len(names), np.int64)
        for _ in names:
            for row, group in enumerate(groups):
                level[row] = max((level[other] + 1 for other, name in enumerate(names) if name in group.over),
                                 default=0)
        over = np.array([[name in group.over for name in names] for group in groups], bool).reshape(len(names), -1)
        return level if (over == (level[:, None] > level)).all() else None


def _by_qos(known: Iterable[Qos], usual: Sequence[str]) -> Iterator[tuple[str, Group]]:
    names = {qos.name for qos in known}
    for qos in known:
        yield qos.name, Group(min(MOST_PRIORITY, qos.priority), _becomes(qos.preempt_mode or usual),
                              frozenset(qos.preempts) & names - {qos.name})


def _by_tier(partitions: Sequence[Partition], usual: Sequence[str]) -> Iterator[tuple[str, Group]]:
    for partition in partitions:
        lower = frozenset(other.name for other in partitions if other.priority_tier < partition.priority_tier
                          and other.preempt_mode != ("OFF",))
        yield partition.name, Group(partition.priority_tier, _becomes(partition.preempt_mode or usual), lower)


def _becomes(mode: Sequence[str]) -> int:
    return next((_BECOMES[part] for part in mode if part in _BECOMES), KEPT)


def _not_replayed(by: str, usual: Sequence[str], known: Sequence[Qos], partitions: Sequence[Partition],
                  ) -> Iterator[str]:
    preempt_modes = [rule.preempt_mode for rule in (known if by == BY_QOS else partitions)]
    modes = {part for mode in (usual, *preempt_modes) for part in mode}
    if "SUSPEND" in modes:
        yield SUSPENDS
    if "GANG" in modes:
        yield TURNS
    if "WITHIN" in modes:
        yield WITHIN
    if modes - _ASIDE:
        yield GRACE


def in_turn(before: Callable[[int, int], bool], rows: list[int]) -> list[int]:
    """Return rows as Slurm sorts them when comparisons may go round in a circle: by merging halves, as glibc does.

    Slurm compares two jobs at a time, by preemption first and then by tier and priority. Where the first is no order by
    itself, what comes out is up to the way of sorting.
    """
    if len(rows) < 2:
        return rows
    half = len(rows) // 2
    left, right = in_turn(before, rows[:half]), in_turn(before, rows[half:])
    merged, first, second = list[int](), 0, 0
    while first < len(left) and second < len(right):
        if before(left[first], right[second]):
            merged.append(left[first])
            first += 1
        else:
            merged.append(right[second])
            second += 1
    return merged + left[first:] + right[second:]
