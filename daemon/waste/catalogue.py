"""What is publicly known of boards and servers, for as long as nothing better is learned or configured.

Watts of an idle board are medians of public readings; there is no verified idle figure for a whole DGX, so there is
none here.
"""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from ...storage.records import Node
from ..settings.values import Watts


@dataclass(frozen=True, slots=True)
class BoardModel:
    """Idle draw without a context, and the usual power limit, in watts."""

    bare_watts: float | None
    limit_watts: float | None


BOARDS = {
    "A100-SXM4-40GB": BoardModel(51.0, 400.0),  # 49-52 W, miniWeather#12
    "A100-SXM4-80GB": BoardModel(60.0, 400.0),  # 55-67 W, a quarter of all samples of AcmeTrace
    "V100-SXM2": BoardModel(55.0, 300.0),       # 53-57 W, nvidia-docker#1076
    "P100": BoardModel(41.0, None),
    "H100 80GB HBM3": BoardModel(70.0, 700.0),  # 66-73 W with persistence on, slurm-job-exporter#30
    "H100 NVL": BoardModel(65.0, 400.0),
}
"""By a part of the vendor's name."""

RATED_WATTS_PER_GPU = {
    "a100": 6500.0 / 8,   # DGX A100 user guide
    "v100": 3500.0 / 8,   # DGX-1V
    "h100": 10200.0 / 8,  # DGX H100/H200
    "h200": 10200.0 / 8,
}
"""By a part of the scheduler's GPU type."""

UNKNOWN = BoardModel(None, None)


def board(model: str) -> BoardModel:
    """Return what is known of a board model, by the vendor's name."""
    return next((known for part, known in BOARDS.items() if part in model), UNKNOWN)


def rated_watts(node: Node, configured: dict[str, Watts]) -> float | None:
    """Return the rated draw of a node in watts, None when neither configuration nor catalogue tell."""
    watts = by_pattern(node.name, configured)
    if watts is not None:
        return watts
    model = node.gpu_model.lower()
    return next((rated * node.gpus for part, rated in RATED_WATTS_PER_GPU.items() if part in model), None)


def by_pattern(name: str, values: dict[str, Watts]) -> float | None:
    """Return the value of the first pattern that the name fits."""
    return next((value for pattern, value in values.items() if fnmatchcase(name, pattern)), None)
