"""Shares in words: which job should give what to which, what that is worth to both, and what to ask of Slurm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...durations import SAME, span
from .sensitivity import NodeShare, SpeedEstimate
from .usage_meter import QUANTILE

GIB = 2**30

Share = tuple[str, NodeShare, float]
"""Id of a giver ('' of nobody), its gift, and the share of its remaining time by which it ends sooner."""


def gift(taker: str, shares: Sequence[Share], what_for: str) -> str:
    """Return the sentence on what a job is given, by which jobs and what for."""
    return f"give job {taker} {_amount([part for _, part, _ in shares])} {_holders(shares)}; {what_for}"


def worth(sooner: float, at_least: float, shares: Sequence[Share]) -> str:
    """Return what a gift does to taker and givers, by the share of their remaining time that they save.

    What may be nothing, by the lower end of its interval, is worded as what may be.
    """
    givers = {name: saved for name, _, saved in shares if name}
    if givers and at_least > SAME and min(givers.values()) > SAME:
        return "both finish sooner" if len(givers) == 1 else "all finish sooner"
    return f"it {'finishes' if at_least > SAME else 'may finish'} {_percent(sooner)} sooner{_spared(givers)}"


def starts(node: str, in_s: float | None) -> str:
    """Return where a job could start now, and when it would otherwise."""
    instead = "" if in_s is None else f" instead of in {span(in_s)}"
    return f"it can start now on {node}{instead}"


def given(takers: Sequence[str], part: NodeShare, speed_estimate: SpeedEstimate, window_s: float) -> str:
    """Return why a job may be taken from, and for which jobs."""
    facts, has = [], speed_estimate.has
    if part.cpus and speed_estimate.used is not None:
        facts.append(f"{part.cpus} of its {has.cpus} cores (its {QUANTILE}th percentile in {span(window_s)} is "
                     f"{speed_estimate.used:.1f})")
    if part.memory_bytes and speed_estimate.memory_used is not None:
        facts.append(f"{part.memory_bytes / GIB:.0f} of its {has.memory_bytes / GIB:.0f} GiB (at the most "
                     f"{speed_estimate.memory_used / GIB:.0f} in use)")
    return f"does not use {' and '.join(facts)}: {'job' if len(takers) == 1 else 'jobs'} {_listed(takers)} could"


def kept(speed_estimate: SpeedEstimate) -> str:
    """Return why a job keeps what it has."""
    if speed_estimate.basis == "fair-share":
        return "nothing is known of its needs yet: it keeps what it has"
    wants = speed_estimate.best.cpus > speed_estimate.has.cpus
    if speed_estimate.basis == "prior":
        needs = "it could use more cores, but nobody near has any to give" if wants else "it needs what it has"
        return f"by the model that its name shows {needs}; not measured yet"
    spare = speed_estimate.has.cpus - speed_estimate.least.cpus
    if wants:
        return "its GPUs wait for its cores, but nobody near has any to give"
    return f"does not use {spare} of its {speed_estimate.has.cpus} cores, but nobody near needs them" if spare > 0 \
        else "uses what it has"


def ask(part: NodeShare, has: NodeShare, gpus: int) -> str:
    """Return what a job's owner would ask of Slurm for this part; '' where the job has it already."""
    if gpus <= 0 or part == has:
        return ""
    cpus, memory = each(part.cpus, has.cpus, gpus), each(part.memory_bytes, has.memory_bytes, gpus * 2**20)
    return " ".join(([f"--cpus-per-gpu={cpus}"] if cpus else []) + ([f"--mem-per-gpu={memory}M"] if memory else []))


def each(wanted: int, has: int, parts: int) -> int:
    """Return the whole amount that each of some parts asks for; 0 where no whole amount leads from ``has`` to there.

    It is rounded up where there is to be less, so that a giver keeps all that it needs, and down where there is to be
    more, so that a taker takes no more than there is.
    """
    amount = -(-wanted // parts) if wanted < has else wanted // parts
    return amount if (wanted < has) == (amount * parts < has) and amount * parts != has else 0


def _amount(parts: Sequence[NodeShare]) -> str:
    cpus, memory = (sum(part[resource] for part in parts) for resource in (0, 1))
    amounts = [f"{cpus} cores"] if cpus else []
    if memory:
        amounts.append(f"{memory / GIB:.0f} GiB of memory")
    return "the " + " and the ".join(amounts)


def _holders(shares: Sequence[Share]) -> str:
    names = [name for name, _, _ in shares if name]
    free = len(names) < len(shares)
    if not names:
        return "that nobody holds"
    if len(names) == 1 and not free:
        return f"that job {names[0]} does not use"
    several = f"job {names[0]} does not use" if len(names) == 1 else f"jobs {_listed(names)} do not use"
    return f"that {several}{' or nobody holds' if free else ''}"


def _spared(givers: Mapping[str, float]) -> str:
    """Return what a gift does to the jobs that give."""
    if not givers:
        return ""
    later = {name: -saved for name, saved in givers.items() if saved < -SAME}
    if later:
        return "".join(f", job {name} {_percent(saved)} later" for name, saved in later.items())
    return f", job{'s' * (len(givers) > 1)} {_listed(list(givers))} no later"


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
