"""What a partition charges for: ``TRESBillingWeights=CPU=1.0,Mem=0.25G,GRES/gpu=2.0``."""

from __future__ import annotations

import re

from ...storage.rules import Amounts

_LONGEST = 10_000
_WEIGHT = re.compile(r"((?:\d{1,15}(?:\.\d{0,15})?|\.\d{1,15})(?:[eE][+-]?\d{1,2})?)([KMGTPkmgtp]?)")
_STEPS = "KMGTP"
_MIB = 2**20
_COUNTED_IN_MIB = ("mem", "bb/")
"""Resources of which Slurm counts MiB; of all others it counts pieces."""


def parse_weights(text: str) -> Amounts | None:
    """Return what each resource weighs, by the names that ceilings have for it; () of none, None if it is not a list.

    The weight of memory is that of a byte. ``0.25G`` is a quarter for each GiB; without a unit Slurm means MiB.
    """
    if text in ("", "(null)"):
        return ()
    weights: dict[str, float] = {}
    for name, _, weight in (part.strip().lower().partition("=") for part in text[:_LONGEST].split(",") if part.strip()):
        match = _WEIGHT.fullmatch(weight.strip())
        if not name or match is None:
            return None
        weights[name.removeprefix("gres/")] = _weight(name, float(match[1]), match[2].upper())
    return tuple(weights.items())


def _weight(name: str, weight: float, unit: str) -> float:
    """Return the weight of a byte, or of a piece; a unit that is smaller than what Slurm counts in changes nothing."""
    in_mib = name.startswith(_COUNTED_IN_MIB)
    steps = (_STEPS.index(unit) + 1 if unit else 0) - (2 if in_mib else 0)
    return weight / 1024.0 ** max(0, steps) / (_MIB if name == "mem" else 1)
