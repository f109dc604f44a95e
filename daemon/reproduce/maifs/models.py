"""The models that fungible jobs train, for traces that do not tell, and what neighbours and leaf switches cost them.

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
"""Of jobs, by task."""
LEFT: Mapping[tuple[str, str], float] = {("image", "image"): 0.97, ("image", "language"): 0.85,
                                         ("language", "image"): 0.85, ("language", "language"): 0.65}
"""Part of its speed that the first task keeps beside the second; pairs that nobody measured are left out."""
MEASURED_AS: Mapping[str, str] = {"image": "imagenet", "language": "bert", "speech": "deepspeech2"}
"""The application of Pollux that stands for a task where nodes communicate."""
MOST_LEAVES = 8
"""Leaf switches from which on more of them change nothing."""


def drawn(count: int, draw: np.random.Generator, shares: Mapping[str, float] = SHARES) -> Longs:
    """Return the models, as indexes of ``MODELS``, of jobs whose trace does not tell: a task by its share, then any."""
    chance = np.zeros(len(MODELS))
    for task, share in shares.items():
        for model in TASKS[task]:
            chance[MODELS.index(model)] = share / len(TASKS[task])
    return draw.choice(len(MODELS), count, p=chance / chance.sum())


def interference() -> Floats:
    """Return what a model keeps of its speed beside another, [model, neighbour's]; 1 where nobody measured."""
    left = {(one, other): LEFT.get((TASK_OF[one], TASK_OF[other]), 1.0) for one in MODELS for other in MODELS}
    return together(MODELS, left)


def crossing() -> Floats:
    """Return what a model on whole nodes keeps of its speed, [model, leaf switches less 1]; at one it keeps all.

    Its steps take as long as Pollux measured for its task (``MEASURED_AS``) on four nodes, and each further switch
    prolongs their communication by ``PER_CROSSING``, which is an assumption.
    """
    step = {task: slow()[APPLICATIONS.index(name), -1, -1] for task, name in MEASURED_AS.items()}
    longer = 1.0 + PER_CROSSING * np.arange(MOST_LEAVES)
    return np.array([step[TASK_OF[model]] / (1.0 + (step[TASK_OF[model]] - 1.0) * longer) for model in MODELS])
