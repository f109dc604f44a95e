"""What closeness is worth to a job: its speed on one placement against another, from measured tables by application."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ...storage.recommendations import Placement
from ..replay import locality

APPLICATIONS = locality.APPLICATIONS
"""What was measured: the models of Pollux's artifact, on nodes of four GPUs."""
SOURCE = f"Pollux's tables (OSDI'21, nodes of {locality.GPUS} GPUs)"
"""As it is told beside every speed."""

_SLOW = locality.slow()


def application_of(name: str, names: Mapping[str, str]) -> str:
    """Return the application of a job by its name, whatever its case, the first pattern that fits; '' where none does.

    What is not known stays so: a guess would be taken for a measurement.
    """
    return next((application for pattern, application in names.items() if fnmatchcase(name.lower(), pattern.lower())),
                "")


def relative_speed(application: str, placement: Placement, other: Placement) -> float:
    """Return the speed on a placement over that on another with as many GPUs.

    By the number of nodes and the GPUs on the fullest one; more than four of either count as four, which is all that
    was measured. Nobody measured what leaf switches cost.
    """
    return _slow(application, other) / _slow(application, placement)


def _slow(application: str, placement: Placement) -> float:
    nodes = sum(gpus > 0 for gpus in placement.gpus)
    measured = _SLOW[APPLICATIONS.index(application)]
    return float(measured[min(nodes, len(measured)) - 1, min(max(placement.gpus), locality.GPUS) - 1])
