"""Sensitivity to the hyper-parameters that the paper does not state, each changed alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ..report import Section, Table
from .seeds import half_width, mean_of
from .trial import Trial, TrialResult

CHANGES: Mapping[str, Mapping[str, object]] = {
    "discount 0.9": {"discount": 0.9}, "discount 0.99": {"discount": 0.99},
    "learning rate 3e-4": {"learning_rate": (3e-4, 2e-5)}, "learning rate 3e-3": {"learning_rate": (3e-3, 2e-5)},
    "batch 16": {"batch": 16}, "batch 256": {"batch": 256},
    "target every 20 steps": {"target_period": 20}, "target every 500": {"target_period": 500},
    "one layer of 16": {"hidden": (16,)}, "two of 128": {"hidden": (128, 128)},
    "final exploration 0.3": {"exploration": (1.0, 0.3)}, "exploring 100 episodes": {"exploration_episodes": 100},
    "replay memory of 1000": {"memory": 1000}}
"""Changed settings, by their names in the report."""


def trials(first: Trial, seeds: range) -> list[Trial]:
    """Return the trials of the paper's agent, unchanged and with each change, for every seed."""
    kinds = {"as used here": first.values} | {
        name: replace(first.values, **change) for name, change in CHANGES.items()}  # type: ignore[arg-type]
    return [replace(first, values=values, label=_file(name), seed=seed) for name, values in kinds.items()
            for seed in seeds]


def _file(name: str) -> str:
    return "sensitivity-" + name.replace(" ", "_").replace(".", "")


def section(results: Mapping[Trial, TrialResult]) -> Section | None:
    """Return the section with the table; None if no trial was trained."""
    by_label: dict[str, list[tuple[int, float]]] = {}
    for trial, result in results.items():
        if trial.label.startswith("sensitivity-"):
            by_label.setdefault(trial.label, []).append((trial.seed, result.utilization))
    base = dict(by_label.get(_file("as used here"), ()))
    rows = [_row(name, dict(by_label[_file(name)]), base) for name in ("as used here", *CHANGES)
            if _file(name) in by_label]
    if not rows:
        return None
    return Section("What the paper leaves out: each hyper-parameter changed alone", [
        "The paper's agent in one partition, the same seeds for each change: utilisation when the terminal job starts, "
        "exactly over all sequences, and its difference to the agent as used here, paired by seed (95 %, Student's "
        "t)."],
        [Table(("Changed", "Seeds", "U when f starts", "Difference"), rows)])


def _row(name: str, changed: Mapping[int, float], base: Mapping[int, float]) -> tuple[str, ...]:
    differences = [worth - base[seed] for seed, worth in changed.items() if seed in base]
    return name, str(len(changed)), mean_of(list(changed.values())), _difference(differences)


def _difference(values: Sequence[float]) -> str:
    if not any(values):
        return "–"
    mean = sum(values) / len(values)
    return f"{mean:+.3f}" if len(values) < 2 else f"{mean:+.3f} ± {half_width(values):.3f}"
