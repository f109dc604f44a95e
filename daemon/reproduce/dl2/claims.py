"""What the report of DL2 has beside our figures: the paper's claims, and what its authors' code gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .agent import PAPER as DL2
from .agent import PUBLISHED
from .speeds import FIT_ERROR, MODELS
from .trial import BOUND, FITTED, OURS, PLAIN, TRACES, Contest

CLAIMED = 0.441
"""Mean completion time below DRF's that the paper claims."""
EXPECTED: Mapping[str, float] = {"DRF": 10.033, "DRF, any node": 10.03, "FIFO": 15.46, "SRTF as coded": 15.46,
                                 "Optimus (oracle)": 6.870, "Optimus (oracle), any node": 6.35,
                                 "SRTF (oracle)": 8.51, "random-feasible": 6.22}
"""Slots: what the authors' own environment gives on these traces when it is run."""
EXPECTED_FOR = 8
"""Most workers of a job there."""
PAPER = {"DRF": 10.246, "Tetris as coded": 8.955, "Optimus (oracle)": 7.318, OURS: 5.724}
"""Slots, as in the paper; its traces and its limit of workers are others."""
HEURISTICS = ("DRF", "FIFO", "SRTF (oracle)", "Tetris (oracle)", "Tetris as coded", "Optimus (oracle), any node",
              "equal share", "max-relative-gain (oracle)")


def facts(contests: Sequence[Contest]) -> dict[str, object]:
    """Return all that the report says of the contests, by the names of its template."""
    return {"contests": contests, "differing": differing(contests), "DISCOUNT": DL2.discount, "CLAIMED": CLAIMED,
            "EXPECTED": EXPECTED, "EXPECTED_FOR": EXPECTED_FOR, "PAPER": PAPER, "HEURISTICS": HEURISTICS,
            "TRACES": TRACES, "OURS": OURS, "FITTED": FITTED, "PLAIN": PLAIN, "BOUND": BOUND, "FIT_ERROR": FIT_ERROR,
            "MODELS": MODELS, "HIDDEN": PUBLISHED.shape.hidden}


def differing(contests: Sequence[Contest]) -> float | None:
    """Return how far figures are from the authors' environment; None where it was not run with as many workers."""
    found = [abs(contest.mean(name) / known - 1.0) for contest in contests if contest.most == EXPECTED_FOR
             for name, known in EXPECTED.items()]
    return max(found) if found else None
