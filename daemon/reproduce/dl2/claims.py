"""Reference figures of the DL2 report: the paper's claims, and the results of its authors' code."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from .agent import PAPER as DL2
from .agent import PUBLISHED
from .speeds import FIT_ERROR, MODELS
from .trial import BOUND, FITTED, OURS, PLAIN, TRACES, Contest

CLAIMED = 0.441
"""Reduction of mean completion time against DRF that the paper claims."""
EXPECTED: Mapping[str, float] = {"DRF": 10.033, "DRF, any node": 10.03, "FIFO": 15.46, "SRTF as coded": 15.46,
                                 "Optimus (oracle)": 6.870, "Optimus (oracle), any node": 6.35,
                                 "SRTF (oracle)": 8.51, "random-feasible": 6.22}
"""Mean completion times of the authors' own environment on these traces, slots."""
EXPECTED_FOR = 8
"""Largest number of workers of a job in ``EXPECTED``."""
PAPER = {"DRF": 10.246, "Tetris as coded": 8.955, "Optimus (oracle)": 7.318, OURS: 5.724}
"""Mean completion times in the paper, slots; its traces and its limit of workers differ from ours."""
HEURISTICS = ("DRF", "FIFO", "SRTF (oracle)", "Tetris (oracle)", "Tetris as coded", "Optimus (oracle), any node",
              "equal share", "max-relative-gain (oracle)")


def facts(contests: Sequence[Contest]) -> dict[str, object]:
    """Return the values of the report on the contests, by the names in its template."""
    return {"contests": contests, "differing": differing(contests), "DISCOUNT": DL2.discount, "CLAIMED": CLAIMED,
            "EXPECTED": EXPECTED, "EXPECTED_FOR": EXPECTED_FOR, "PAPER": PAPER, "HEURISTICS": HEURISTICS,
            "TRACES": TRACES, "OURS": OURS, "FITTED": FITTED, "PLAIN": PLAIN, "BOUND": BOUND, "FIT_ERROR": FIT_ERROR,
            "MODELS": MODELS, "HIDDEN": PUBLISHED.shape.hidden}


def differing(contests: Sequence[Contest]) -> float | None:
    """Return the largest relative difference to the authors' environment; None for another limit of workers."""
    differences = [abs(contest.mean(name) / known - 1.0) for contest in contests if contest.most == EXPECTED_FOR
                   for name, known in EXPECTED.items()]
    return max(differences) if differences else None
