"""By what a candidate may earn its place: completion time, energy or utilisation, each with its share of the error.

Three ways are three chances to be wrong. By Bonferroni's inequality, the error that one candidate is given is shared
out in equal parts among the ways that are open to it: all of them together are wrong no more often than one alone. What
every way but the first asks besides, that nobody be slower, takes the whole error: it is required of all of them alike.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .evidence import Comparison
from .promotion_criteria import ENERGY, UTILIZATION, PromotionCriteria
from .verdict import Verdict


def share(found: Verdict) -> float:
    """Return the error of each way."""
    return found.terms.error / len(found.ways)


def not_better(found: Verdict) -> Iterator[str]:
    """Yield why it does not beat a policy, for each that it does not beat."""
    for name, jct in found.against.items():
        if not (jct.below(share(found)) or _saves(found, name) or _fills(found, name)):
            yield f"mean JCT is {jct.said} of that under {name}: {verdict(jct, share(found))}"
            if _takes_less(found, name):
                yield f"its energy would earn it, but mean JCT is {unbounded(jct, found.terms)}"


def verdict(jct: Comparison, error: float) -> str:
    """Return why a ratio does not earn it: worse, alike, or better in a look at it and not yet at all of a year's."""
    if jct.words != "better":
        return jct.words
    if jct.total >= 1.0:
        return f"better in most blocks, and {jct.total:.3f} of it in all: not better"
    return (f"better at this look, not yet surely if one looks every night (evidence {np.exp(jct.evidence):.3g}, "
            f"{1.0 / error:.0f} needed)")


def unbounded(one: Comparison, terms: PromotionCriteria) -> str:
    """Return why a ratio is not surely within its bound."""
    if not one.total < one.bound:
        return f"{one.total:.2f} of it in all, and less than {one.bound:.2f} is required"
    return (f"not yet surely less than {one.bound:.2f} of it if one looks every night (evidence "
            f"{np.exp(one.within):.3g}, {1.0 / terms.error:.0f} needed)")


def why(found: Verdict, name: str) -> str:
    """Return by what it has earned its place over another one."""
    jct = found.against[name]
    if jct.below(share(found)):
        return f"mean JCT is {jct.said} of that under {name}: better"
    if _fills(found, name):
        return f"utilisation is {found.utilization[name].said} of that under {name}: better, and mean JCT is {jct.said}"
    counted, _ = found.terms.counted
    return (f"energy at the wall, {counted}, is {found.energy[name][counted].said} of that under {name}: better, and "
            f"mean JCT is {jct.said} of it")


def _saves(found: Verdict, name: str) -> bool:
    """Tell whether it surely takes less energy at the wall and costs nobody time."""
    return found.against[name].bounded(found.terms.error) and _takes_less(found, name)


def _takes_less(found: Verdict, name: str) -> bool:
    """Tell whether it surely takes less energy in the way that the site runs, and not surely more in the other."""
    energy, terms = found.energy[name], found.terms
    counted, other = terms.counted
    return (ENERGY in found.ways and energy[counted].below(share(found)) and energy[counted].high <= terms.saving
            and not energy[other].above(terms.error))


def _fills(found: Verdict, name: str) -> bool:
    """Tell whether one that is after utilisation surely has more of it, and costs nobody time."""
    return (UTILIZATION in found.ways and found.against[name].bounded(found.terms.error)
            and found.utilization[name].above(share(found)))
