"""Which job may start at all, and on which nodes: the one reading of what a request says, for all callers."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from .records import Job, JobState, Request
from .waiting import ONLY_ROOM

_SPACE = re.compile(r"\s")
_DEEPEST = 50
_TOKEN = re.compile(r"[|&,()\[\]]|[^|&,()\[\]]+")


def begins_later(job: Job, now_s: float) -> bool:
    """Tell whether the begin time of a job has not come."""
    return job.eligible_s is not None and job.eligible_s > now_s


def eligible(job: Job, now_s: float) -> bool:
    """Tell whether a pending job could start now if only resources were free."""
    if job.state is not JobState.PENDING or begins_later(job, now_s):
        return False
    return job.reason in ONLY_ROOM


def named_reason(job: Job) -> str:
    """Return why a job waits in the scheduler's own word, in ours where it gives none, and '' for no reason."""
    return job.reason_text or job.reason.replace("_", " ")


def same_model(wanted: str, has: str) -> bool:
    """Tell whether a node's GPUs will do; of a node that names no model nobody knows, so it is not ruled out."""
    return not wanted or not has or wanted.lower() == has.lower()


def has_features(features: Collection[str], expression: str, nodes: int = 1) -> bool:
    """Tell whether a node may be one of so many that meet ``a100&nvswitch``, ``(rack1|rack2)&ib`` or ``[a*2&b*1]``.

    ``|`` binds weaker than ``&``. A count smaller than the number of nodes is met by some of them: of ``[a*2&b*1]`` on
    three nodes each has one or the other, and of ``a*2`` on three a node may have neither. Without brackets a node may
    count for several terms, so that of ``a*2&b*1`` on three nodes one may have neither as well. That the counts add up,
    and that brackets want all nodes alike, concerns the set of nodes and is left out. What is nested deeper than
    anybody writes is met by no node.
    """
    if not expression:
        return True
    if expression.count("(") + expression.count("[") > _DEEPEST:
        return False
    tokens = _TOKEN.findall(_SPACE.sub("", expression))
    met, _ = _any_of(tokens, 0, features, nodes)
    return met


def _any_of(tokens: list[str], place: int, features: Collection[str], nodes: int) -> tuple[bool, int]:
    """Read alternatives up to a closing bracket; return whether one is met, and where reading goes on."""
    fewest = sum if tokens[place - 1:place] == ["["] else max
    met, place = _all_of(tokens, place, features, nodes, fewest)
    while place < len(tokens) and tokens[place] == "|":
        also, place = _all_of(tokens, place + 1, features, nodes, fewest)
        met = met or also
    return met, place


def _all_of(tokens: list[str], place: int, features: Collection[str], nodes: int,
            fewest: Callable[[Iterable[int]], int]) -> tuple[bool, int]:
    """Read terms that all have to be met, those with a small count by any of them unless nodes are left over.

    The terms with counts take as many nodes as ``fewest`` makes of the counts.
    """
    met, counted, numbers = True, list[bool](), [0]
    while place < len(tokens) and tokens[place] not in "|)]":
        word, place = tokens[place], place + 1
        if word in "&,":
            continue
        if word in "([":
            also, place = _any_of(tokens, place, features, nodes)
            word, place = _count_behind(tokens, place + 1)
        else:
            name = word.partition("*")[0]
            also = (name.removeprefix("!") in features) != name.startswith("!")
        count = word.partition("*")[2]
        if count.isdecimal() and int(count) < nodes:
            counted.append(also)
            numbers.append(int(count))
        else:
            met = met and also
    return met and (not counted or any(counted) or fewest(numbers) < nodes), place


def _count_behind(tokens: list[str], place: int) -> tuple[str, int]:
    """Return the count behind a bracket, '' for none, and where reading goes on."""
    if place < len(tokens) and tokens[place].startswith("*"):
        return tokens[place], place + 1
    return "", place


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a request says of the nodes it wants, beside partition, GPU model and amounts."""

    features: str = ""
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    reservation: str = ""
    nodes: int = 1
    """Requested, where ``features`` counts them."""

    @classmethod
    def of(cls, request: Request) -> Constraint | None:
        """Return the constraint of a request; None when any node will do."""
        # With fewer nodes named than needed the job may use others too.
        required = request.required_nodes if len(request.required_nodes) >= request.nodes else ()
        if not (request.features or required or request.excluded_nodes or request.reservation):
            return None
        nodes = request.nodes if "*" in request.features else 1
        return cls(request.features, required, request.excluded_nodes, request.reservation, nodes)

    def admits(self, node: str, features: Collection[str]) -> bool:
        """Tell whether a node will do; of reservations, which come and go, it says nothing."""
        return (node not in self.excluded and (not self.required or node in self.required)
                and has_features(features, self.features, self.nodes))
