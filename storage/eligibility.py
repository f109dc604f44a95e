"""Which job may start at all, and on which nodes: the one reading of what a request says, whoever asks."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass

from .records import Job, JobState, Request

NOT_ELIGIBLE = re.compile(r"Dependency|JobHeld|Licenses|Assoc|QOS|BeginTime|JobArrayTaskLimit|Invalid|Account"
                          r"|PartitionTimeLimit|PartitionNodeLimit|PartitionDown|PartitionInactive|Reservation$"
                          r"|DeadLine|Cleaning|Prolog|BadConstraints")
"""Words of the scheduler for jobs that would not start even if everything were free."""

_COUNT = re.compile(r"\*\d+|\s")
_DEEPEST = 50
_TOKEN = re.compile(r"[|&,()\[\]]|[^|&,()\[\]]+")


def eligible(job: Job, now_s: float) -> bool:
    """Tell whether a pending job could start now if only resources were free."""
    if job.state is not JobState.PENDING or (job.eligible_s is not None and job.eligible_s > now_s):
        return False
    return not NOT_ELIGIBLE.search(job.reason)


def has_features(features: Collection[str], expression: str) -> bool:
    """Tell whether a node meets a constraint such as ``a100&nvswitch``, ``(rack1|rack2)&ib`` or ``a100*2``.

    ``|`` binds weaker than ``&``. Counts concern the whole set of nodes, as does that brackets want all nodes alike:
    both are left out. What is nested deeper than anybody writes is met by no node.
    """
    if expression.count("(") + expression.count("[") > _DEEPEST:
        return False
    tokens = _TOKEN.findall(_COUNT.sub("", expression))
    met, _ = _any_of(tokens, 0, features)
    return met


def _any_of(tokens: list[str], place: int, features: Collection[str]) -> tuple[bool, int]:
    """Read alternatives up to a closing bracket; return whether one is met, and where reading goes on."""
    met, place = _all_of(tokens, place, features)
    while place < len(tokens) and tokens[place] == "|":
        also, place = _all_of(tokens, place + 1, features)
        met = met or also
    return met, place


def _all_of(tokens: list[str], place: int, features: Collection[str]) -> tuple[bool, int]:
    met = True
    while place < len(tokens) and tokens[place] not in "|)]":
        word, place = tokens[place], place + 1
        if word in "([":
            also, place = _any_of(tokens, place, features)
            place += 1
        elif word in "&,":
            also = True
        else:
            also = (word.removeprefix("!") in features) != word.startswith("!")
        met = met and also
    return met, place


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a request says of the nodes it wants, beside partition, GPU model and amounts."""

    features: str = ""
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    reservation: str = ""

    @classmethod
    def of(cls, request: Request) -> Constraint | None:
        """Return the constraint of a request; None when any node will do."""
        # With fewer nodes named than needed the job may use others too.
        required = request.required_nodes if len(request.required_nodes) >= request.nodes else ()
        if not (request.features or required or request.excluded_nodes or request.reservation):
            return None
        return cls(request.features, required, request.excluded_nodes, request.reservation)

    def admits(self, node: str, features: Collection[str]) -> bool:
        """Tell whether a node will do; of reservations, which come and go, it says nothing."""
        return (node not in self.excluded and (not self.required or node in self.required)
                and has_features(features, self.features))
