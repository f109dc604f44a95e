"""The report on another table of flavours: the figures of each policy; the paper has no figures for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from ...agents.gist_mdrl.environment import HOUR_S, Environment, GpuPartition, play, sequences
from ..report import Section, Table
from . import sensitivity
from .baselines import BASELINES
from .exact import Policy, drawn, mean_figures, roots, value
from .seeds import mean_of
from .trial import AGENTS, Trial, TrialResult

FEW_SERVERS = 2
_COLUMNS = {"utilization": 3, "utilization_at_end": 3, "makespan_days": 1}
"""Figures of the table, with their numbers of digits."""


def facts(results: Mapping[Trial, TrialResult], partitions: Mapping[str, GpuPartition]) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
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
    effects = sensitivity.section(results)
    if effects is not None:
        yield effects


def _worth(partition: GpuPartition, results: Mapping[Trial, TrialResult]) -> Section:
    rows = list[Sequence[str]]()
    for name, policy in BASELINES.items():
        worth = _value(partition, policy)
        rows.append((name, *(f"{worth[what]:.{digits}f}" for what, digits in _COLUMNS.items())))
    for agent, name in AGENTS.items():
        done = [result for trial, result in results.items()
                if (trial.partition, trial.agent, trial.label) == (partition.name, agent, "")]
        if done:
            rows.append((f"{name} ({len(done)} seeds)", *(mean_of([result.mean[what] for result in done], digits)
                                                          for what, digits in _COLUMNS.items())))
    count = len(sequences(partition))
    return Section(f"Partition {partition.name}: {partition.servers} servers, {count} sequences of jobs",
                   tables=[Table(("Policy", "U when the last starts", "U at the end", "Makespan (days)"), rows)])


def _value(partition: GpuPartition, policy: Policy) -> Mapping[str, float]:
    """Return the figures of a policy: exact for two servers, otherwise from one run of each sequence."""
    if partition.servers <= FEW_SERVERS:
        return value(roots(partition), policy)
    act = drawn(partition, policy, np.random.default_rng(62))
    return mean_figures([play(Environment(partition), jobs, act) for jobs in sequences(partition)])
