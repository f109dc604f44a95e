"""The predecessor's environment: its printed figures, ours, and the reason why the order of jobs hardly matters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...replay.arrays import Floats
from ..published.proximity import ORDERS, PLACEMENTS, RELEASED, episode
from ..report import Section, Table

SEEDS, PRINTED = 100, 50
"""Number of seeds to run, and the number of the first seeds for which figures were printed."""
PPO = "released PPO (as printed)"
PRINTED_PPO = (22.99, 40.34, 28.75)
"""Printed JCT, makespan and communication cost of PPO with FCFS; its weights are not run here."""
PAIRS = (*(("FCFS", placement) for placement in PLACEMENTS), *((order, "nearest") for order in ORDERS
                                                               if order != "FCFS"))


@dataclass(frozen=True)
class PredecessorFindings:
    """Results by order and placement: (JCT, makespan, communication cost) of each seed."""

    alike: Mapping[tuple[str, str], Floats]
    apart: Mapping[tuple[str, str], Floats]
    """Results if each job has its own work, by order and placement."""


def carry_out(seeds: int = SEEDS) -> PredecessorFindings:
    """Run all pairs of order and placement with the same seeds."""
    return PredecessorFindings(*({pair: _figures(*pair, seeds, alike) for pair in PAIRS} for alike in (True, False)))


def _figures(order: str, placement: str, seeds: int, alike: bool) -> Floats:
    ended = (episode(seed, ORDERS[order], PLACEMENTS[placement], alike=alike) for seed in range(seeds))
    return np.array([(each.jct, each.makespan, each.cost) for each in ended])


def section(findings: PredecessorFindings) -> Section:
    """Return the section with the tables of the predecessor."""
    seeds = len(findings.alike["FCFS", "nearest"])
    rows = [(PPO, *(f"{figure:.2f}" for figure in PRINTED_PPO), "-", "-")]
    rows += [(" + ".join(pair), *_means(figures[:PRINTED]), _printed(pair), _means(figures)[0] + " / "
              + _means(figures)[2]) for pair, figures in findings.alike.items()]
    saved = findings.alike["FCFS", "load-balance"] - findings.alike["FCFS", "nearest"]
    error = 1.96 * saved.std(axis=0, ddof=1) / np.sqrt(seeds)
    jct, _, communication = findings.alike["FCFS", "nearest"][:PRINTED].mean(axis=0).tolist()
    paragraphs = [
        f"2 racks of 4 machines of 4 GPUs, 30 jobs an episode. On the {PRINTED} seeds of the printed figures "
        f"nearest ends at {jct:.2f} (JCT) and {communication:.2f} (communication), {_beside(jct, PRINTED_PPO[0])} "
        f"and {_beside(communication, PRINTED_PPO[2])} of the released PPO.",
        f"Paired on {seeds} seeds nearest saves {saved[:, 0].mean():.2f} +- {error[0]:.2f} of JCT and "
        f"{saved[:, 2].mean():.2f} +- {error[2]:.2f} of communication against load-balance.",
        "The order of jobs has no effect here, because the authors' code draws the work of every job for the size "
        "and run time of the episode's first job. If each job has work of its own, the order matters:"]
    by_own_work = [(" + ".join(pair), *_means(figures)) for pair, figures in findings.apart.items()]
    return Section("The predecessor's environment (Proximity-DRL)", paragraphs, [
        Table(("Policy", f"JCT, {PRINTED} seeds", "Makespan", "Communication", "Printed (JCT / makespan / comm.)",
               f"JCT / comm., {seeds} seeds"), rows),
        Table(("Own work for each job", "JCT", "Makespan", "Communication"), by_own_work)])


def _means(figures: Floats) -> Sequence[str]:
    return [f"{mean:.2f}" for mean in figures.mean(axis=0).tolist()]


def _beside(ours: float, printed: float) -> str:
    return f"{'below' if ours < printed else 'not below'} the {printed:.2f}"


def _printed(pair: tuple[str, str]) -> str:
    return " / ".join(f"{figure:.2f}" for figure in RELEASED[pair]) if pair in RELEASED else "-"
