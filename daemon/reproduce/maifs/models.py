"""Models of fungible jobs for traces without them, and the cost of neighbours and leaf switches.

Where the numbers come from:

* ``SHARES``: Synergy's default split into tasks, for traces that do not tell what their jobs train.
* ``MEASURED_AS``: Pollux' step times (``speed_priors.slow``), for jobs on several nodes.
* ``LEFT``, by task: what DeepShare measured (shared_thp_ratio, mean over the runs on the fewest nodes) of jobs that
  *share nodes and both span several*: MobileNetV3 for image, Transformer-XL for language; nobody measured speech. For
  jobs within one node that is an upper estimate of the harm; what CPUs and memory do to them is in ``PRIORS``.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ...replay.arrays import Floats, Longs
from ...replay.speed import together
from ...replay.speed_priors import APPLICATIONS, PER_CROSSING, PRIORS, TASKS, slow

MODELS = tuple(PRIORS)
TASK_OF: Mapping[str, str] = {model: task for task, models in TASKS.items() for model in models}
SHARES: Mapping[str, float] = {"image": 0.2, "language": 0.7, "speech": 0.1}
"""Shares of jobs, by task."""
LEFT: Mapping[tuple[str, str], float] = {("image", "image"): 0.97, ("image", "language"): 0.85,
                                         ("language", "image"): 0.85, ("language", "language"): 0.65}
"""Part of its speed that the first task keeps beside the second; unmeasured pairs are omitted."""
MEASURED_AS: Mapping[str, str] = {"image": "imagenet", "language": "bert", "speech": "deepspeech2"}
"""The application of Pollux that represents a task on several nodes."""
MOST_LEAVES = 8
"""Number of leaf switches from which on further ones have no effect."""


def drawn(count: int, draw: np.random.Generator, shares: Mapping[str, float] = SHARES) -> Longs:
    """Return drawn models of jobs, as indexes of ``MODELS``: a task by its share, then any of its models."""
    chance = np.zeros(len(MODELS))
    for task, share in shares.items():
        for model in TASKS[task]:
            chance[MODELS.index(model)] = share / len(TASKS[task])
    return draw.choice(len(MODELS), count, p=chance / chance.sum())


def interference() -> Floats:
    """Return the part of its speed that a model keeps beside another, [model, neighbour's]; 1 if unmeasured."""
    left = {(model, other): LEFT.get((TASK_OF[model], TASK_OF[other]), 1.0) for model in MODELS for other in MODELS}
    return together(MODELS, left)


def crossing() -> Floats:
    """Return the part of its speed that a model on whole nodes keeps, [model, leaf switches less 1]; 1 at one switch.

    Its steps take as long as Pollux measured for its task (``MEASURED_AS``) on four nodes, and each further switch
    prolongs their communication by ``PER_CROSSING``, which is an assumption.
    """
    step = {task: slow()[APPLICATIONS.index(name), -1, -1] for task, name in MEASURED_AS.items()}
    longer = 1.0 + PER_CROSSING * np.arange(MOST_LEAVES)
    return np.array([step[TASK_OF[model]] / (1.0 + (step[TASK_OF[model]] - 1.0) * longer) for model in MODELS])
