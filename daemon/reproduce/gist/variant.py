"""The report on another table of flavours: who is worth what there; the paper says nothing of it to compare with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...agents.gist_mdrl.environment import HOUR_S, Environment, GpuPartition, PlacementDecision, play, sequences
from ..report import Section, Table
from . import sensitivity
from .baselines import first_fit, naive, random_feasible
from .exact import Policy, Value, action, roots, value
from .seeds import mean_of
from .trial import DAY_S, Trial, TrialResult

FEW_SERVERS = 2
_BASELINES: Mapping[str, Policy] = {
    "Naive: random server, else wait": naive, "random feasible": random_feasible, "first fit": first_fit}
_NAMED = {"literal": "the paper's agent", "improved": "with all options"}


def facts(results: Mapping[Trial, TrialResult], partitions: Mapping[str, GpuPartition]) -> dict[str, object]:
    """Return all that the report says, by the names of its template."""
    servers = sum(partition.servers for partition in partitions.values())
    preface = (f"{len(results)} trained agents on another table than the paper's: N = {servers} servers in "
               f"M = {len(partitions)} partitions. Intervals are 95 % over seeds (Student's t).")
    return {"title": "GIST AI-X mDRL on another table", "preface": [preface],
            "sections": list(_sections(results, partitions))}


def _sections(results: Mapping[Trial, TrialResult], partitions: Mapping[str, GpuPartition]) -> Iterator[Section]:
    rows = [(flavor.name, partition.name, str(flavor.gpus), f"{flavor.limit_s / HOUR_S:g} h", f"{flavor.rate:g}")
            for partition in partitions.values() for flavor in (*partition.flavors, partition.terminal)]
    yield Section("Flavours", tables=[Table(("Name", "Partition", "GPUs", "Time", "Rate λ"), rows)])
    for partition in partitions.values():
        yield _worth(partition, results)
    found = sensitivity.section(results)
    if found is not None:
        yield found


def _worth(partition: GpuPartition, results: Mapping[Trial, TrialResult]) -> Section:
    rows = list[Sequence[str]]()
    for name, policy in _BASELINES.items():
        worth = _value(partition, policy)
        rows.append((name, f"{worth.utilization:.3f}", f"{worth.utilization_at_end:.3f}",
                     f"{worth.makespan_s / DAY_S:.1f}"))
    for agent, name in _NAMED.items():
        done = [result for trial, result in results.items()
                if (trial.partition, trial.agent, trial.label) == (partition.name, agent, "")]
        if done:
            rows.append((f"{name} ({len(done)} seeds)", *(mean_of([result.mean[what] for result in done], digits)
                         for what, digits in (("utilization", 3), ("utilization_at_end", 3), ("makespan_days", 1)))))
    count = len(sequences(partition))
    return Section(f"Partition {partition.name}: {partition.servers} servers, {count} sequences of jobs",
                   tables=[Table(("Policy", "U when the last starts", "U at the end", "Makespan (days)"), rows)])


def _value(partition: GpuPartition, policy: Policy) -> Value:
    """Return what a policy is worth: exactly where two servers have few branches, else each sequence played once."""
    if partition.servers <= FEW_SERVERS:
        return value(roots(partition), policy)
    random = np.random.default_rng(62)

    def act(decision: PlacementDecision) -> int:
        choices = policy(decision)
        drawn = random.choice(list(choices), p=list(choices.values()))
        return action(partition, decision.flavor, int(drawn))

    ended = [play(Environment(partition), jobs, act) for jobs in sequences(partition)]
    return Value(*(float(np.mean([getattr(one, name) for one in ended])) for name in (
        "utilization", "utilization_at_end", "terminal_start_s", "makespan_s")))
