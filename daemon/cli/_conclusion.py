"""Conclusions of a replay in words: warnings on its jobs, and the best policy."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from ..replay.cluster import Cluster
    from ..replay.workload import Workload

Line = Mapping[str, Any]


def load(cluster: Cluster, work: Workload) -> float:
    """Return the ratio of requested to available GPU time between the first and last submission; 0 if there is none."""
    there_is = float(np.ptp(work.submit)) * float(cluster.gpus.sum()) if len(work) else 0.0
    return float(work.run @ work.gpus) / there_is if there_is else 0.0


def warnings(cluster: Cluster, work: Workload, policies: Iterable[str]) -> Iterator[str]:
    """Yield the reasons why figures of a replay may mislead: overload, and missing or too precise time limits."""
    from ..policies.limits import doubts

    requested = load(cluster, work)
    if requested > 1.0:
        yield (f"overload: the jobs ask for {requested:.2f} times the GPU time between the first and the last "
               "submission, "
               "so that a queue grows to the end; waits then depend on how long the history is")
    policies = list(policies)
    yield from doubts(policies, work)
    if any(_orders_as_configured(policy) for policy in policies):
        yield from _of_priorities(cluster, work)
    if any(_preempts_as_configured(policy) for policy in policies):
        yield from _of_parameters(cluster.scheduling.backfill.unfollowed)
        yield from _of_preemption(cluster, work)


def _orders_as_configured(policy: str) -> bool:
    from ..policies.registry import parse

    return parse(policy).order.name == "multifactor"


def _preempts_as_configured(policy: str) -> bool:
    from ..policies.registry import parse

    return parse(policy).walking.name == "slurm-backfill"


def _of_parameters(unfollowed: Sequence[str]) -> Iterator[str]:
    """Yield the settings in ``SchedulerParameters`` that are not replayed."""
    if unfollowed:
        yield f"SchedulerParameters also name {', '.join(unfollowed)}, which Slurm goes by and the replay does not"


def _of_priorities(cluster: Cluster, work: Workload) -> Iterator[str]:
    """Yield the parts of the scheduler's priorities that are not replayed or unknown."""
    from ..replay.priority.billing import known

    scheduling, settings = cluster.scheduling, cluster.scheduling.priority
    if settings.unfollowed:
        yield f"Slurm's priorities also go by {', '.join(settings.unfollowed)}, which the replay does not"
    if "NO_NORMAL_ALL" in settings.flags:
        yield ("Slurm reports PriorityFlags=NO_NORMAL_ALL where any one of NO_NORMAL_QOS, NO_NORMAL_PART and "
               "NO_NORMAL_TRES is set, and the replay takes all of them: put those of slurm.conf below the source's "
               "settings")
    if work.charged is None and (settings.fair_share or settings.qos):
        yield ("priorities go by accounts, qualities of service and nice values, which this history does not hold for "
               "its jobs: none counts in the replay")
    if not settings.fair_share:
        return
    names = [name for name in work.partition_names if not any(part in scheduling.billing for part in name.split(","))]
    if names:
        yield "what partitions charge for (TRESBillingWeights) is not known: CPUs count in the replay"
    others = sorted({name for weights in scheduling.billing.values() for name, weight in weights.items()
                     if weight and not known(name)})
    if others:
        yield f"partitions also charge for {', '.join(others)}, of which the replay does not know who holds them"


def _of_preemption(cluster: Cluster, work: Workload) -> Iterator[str]:
    """Yield the parts of the scheduler's preemption that are not replayed or unknown."""
    from ..replay.priority.preemption import BY_QOS, CANCELLED

    preemption = cluster.scheduling.preemption
    yield from preemption.notes
    if preemption.by == BY_QOS and preemption.takes_place and work.charged is None:
        yield ("jobs preempt others by their quality of service, which this history does not hold for them: nobody "
               "does in the replay")
    elif preemption.takes_place:
        if any(group.becomes == CANCELLED for group in preemption.groups.values()):
            yield "a job that is cancelled for another's sake counts as completed at that moment"
        if preemption.by == BY_QOS and preemption.level(tuple(preemption.groups)) is None:
            yield ("who may preempt whom is no order among the qualities of service, so that jobs can take the same "
                   f"place by turns; in the replay nobody is preempted more than {preemption.most_times} times")


def conclusion(lines: Sequence[Line], baseline: str, knowing: Collection[str] = ()) -> str:
    """Return in words the usable policy with the shortest mean JCT, and its significance; '' for none.

    Policies in ``knowing`` know run times through the time limits, so no site could use them.
    """
    from ..policies.registry import parse

    known = {line["policy"]: line for line in lines if line.get("jct_ratio") is not None}
    fair = [line for name, line in known.items()
            if name == baseline or not (parse(name).order.oracle or name in knowing)]
    if baseline not in known or len(fair) < len(("baseline", "another")):
        return ""
    best = min(fair, key=lambda line: float(line["jct_ratio"]))
    if best["policy"] == baseline or best["jct_ratio"] >= 1.0:
        return f"No policy that a site could run has a shorter mean JCT than {baseline}."
    name, less = best["policy"], 100 * (1 - best["jct_ratio"])
    low, high = best.get("jct_ratio_low"), best.get("jct_ratio_high")
    if low is None or high is None or not np.isfinite([low, high]).all():
        return f"{name} has the shortest mean JCT, {less:.1f} % below {baseline}; too few days to say how sure that is."
    if high >= 1.0:
        return f"{name} has the shortest mean JCT, but it is not distinguishable from {baseline}'s."
    return (f"{name} has the shortest mean JCT, {less:.1f} % below {baseline} "
            f"(95 %: {100 * (1 - high):.1f} to {100 * (1 - low):.1f} %).")


def nearest(lines: Sequence[Line]) -> str:
    """Return in words the oracle (an order that knows true run times) nearest to the lower bound; '' for none."""
    from ..policies.registry import parse

    distances = {line["policy"]: line["distance"] for line in lines
                 if line.get("distance") is not None and parse(line["policy"]).order.oracle}
    if not distances:
        return ""
    best = min(distances, key=lambda name: float(distances[name]))
    return (f"Of the oracles, which know true run times, {best} comes nearest to the lower bound, "
            f"{100 * distances[best]:.0f} % above it; no site can run it.")
