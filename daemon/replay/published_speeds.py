"""Published profiles as what to expect of a group before its own runs tell: Pollux' step times, Synergy's matrices.

They were measured on other machines, so each is one draw of what a site may see: the deviation of its logarithm stands
beside it. Nobody published what neighbours cost jobs that hold GPUs of their own on a node (Gavel's pairs share a GPU,
DeepShare's span several nodes both), so company has no profile: until the site's own runs tell, it is unknown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from . import fungible, locality

BETWEEN_SITES = 0.3
"""Deviation of the logarithm of a speed between a published profile and a site: our assumption, for want of several
sites that measured the same. It is what the site's own runs are weighed against."""
_TASKS = {"bert": "language", "ncf": "language", "yolov3": "image", "cifar10": "image", "imagenet": "image",
          "deepspeech2": "speech"}
"""Whose sensitivity to CPUs and memory an application of Pollux has, by task of Synergy."""


@dataclass(frozen=True, slots=True)
class Expected:
    """A logarithm of a factor, and how far it may be off."""

    mean: float
    deviation: float


@dataclass(frozen=True)
class Profile:
    """What was published of an application."""

    size: Mapping[int, float] = field(default_factory=dict)
    """Throughput by number of GPUs, in any unit."""
    spread: Mapping[str, Expected] = field(default_factory=dict)
    cpus: Mapping[float, float] = field(default_factory=dict)
    """Speed by CPUs per GPU, over that with ``fungible.FAIR_CPUS``."""
    memory: Mapping[float, float] = field(default_factory=dict)
    """Speed by bytes per GPU, over that with ``fungible.FAIR_MEMORY``."""


NONE = Profile()


@cache
def profile(application: str) -> Profile:
    """Return what was published of an application of :mod:`.locality`; nothing of any other."""
    if application not in locality.APPLICATIONS:
        return NONE
    slow = locality.slow()[locality.APPLICATIONS.index(application)]
    whole = range(1, locality.GPUS + 1)
    size = {gpus: gpus / float(slow[0, gpus - 1]) for gpus in whole}
    size |= {nodes * locality.GPUS: nodes * locality.GPUS / float(slow[nodes - 1, -1]) for nodes in whole if nodes > 1}
    apart = [np.log(slow[0, nodes * gpus - 1] / slow[nodes - 1, gpus - 1])
             for nodes in whole for gpus in whole if nodes > 1 and nodes * gpus <= locality.GPUS]
    needs = fungible.prior(_TASKS[application])
    fair_cpus = needs.at(fungible.FAIR_CPUS, fungible.FAIR_MEMORY)
    return Profile(
        size, {"leaf": Expected(float(np.mean(apart)), float(np.hypot(BETWEEN_SITES, np.std(apart))))},
        {float(cpus): needs.at(cpus, fungible.FAIR_MEMORY) / fair_cpus for cpus in fungible.CPUS},
        {float(memory): needs.at(fungible.FAIR_CPUS, memory) / fair_cpus for memory in fungible.MEMORY})
