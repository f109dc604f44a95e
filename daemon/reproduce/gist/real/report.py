"""Report of the experiment: utilisation, run time and power by the paper's equations, beside the predictions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from jinja2 import Environment, PackageLoader

from ....agents.gist_mdrl.environment import PARTITIONS
from ..seeds import half_width
from .config import PolicyName, RealSettings
from .policies import NAMED

EPISODE_H = 720.0
"""Hours of an episode in the paper's calculation of power (§6.2)."""
GOAL = 0.01
TEMPLATES = Environment(loader=PackageLoader(__package__, "."), autoescape=False,  # noqa: S701 - Markdown
                        trim_blocks=True, keep_trailing_newline=True)


@dataclass(frozen=True, slots=True)
class PlayedAndPredicted:
    """One episode as measured and as predicted; times are in hours of the paper."""

    policy: PolicyName
    number: int
    utilization: float
    terminal_h: float
    predicted: float
    predicted_terminal_h: float
    latency_s: float
    strayed: int
    decisions: int
    late: float
    """Predicted utilisation with the measured delays."""
    slurm_s: float
    """Mean real time from a job's release to its beginning, s."""
    noticed_s: float
    """Mean real time from the end of a job to the reaction, s."""
    same_way: bool
    """Whether every decision was the predicted one."""

    @property
    def left(self) -> float:
        """Return the error of the utilisation that was predicted with the measured delays."""
        return self.utilization - self.late

    @property
    def error(self) -> float:
        """Return the relative error of the predicted utilisation."""
        return self.utilization - self.predicted


def write(settings: RealSettings, results: Sequence[PlayedAndPredicted], out: Path) -> Mapping[str, Path]:
    """Write the report as Markdown and its figures as JSON; return their paths."""
    context = facts(settings, results)
    paths = {"report": out / "real.md", "figures": out / "real.json"}
    paths["report"].write_text(TEMPLATES.get_template("real.md.j2").render(**context), encoding="utf-8")
    paths["figures"].write_text(json.dumps({**context, "results": [asdict(result) for result in results]}, indent=2),
                                encoding="utf-8")
    return paths


def facts(settings: RealSettings, results: Sequence[PlayedAndPredicted]) -> dict[str, object]:
    """Return the values of the report, by the names in its template."""
    by_policy = {policy: {result.number: result for result in results if result.policy == policy}
                 for policy in settings.policies}
    shared = sorted(set.intersection(*(set(some) for some in by_policy.values())) if by_policy else ())
    kilowatts = PARTITIONS[settings.kind].kilowatts * PARTITIONS[settings.kind].servers
    return {
        "kind": settings.kind, "hour_s": settings.hour, "partitions": len(settings.partitions), "pairs": len(shared),
        "goal": GOAL, "rows": [_row(policy, list(some.values()), kilowatts) for policy, some in by_policy.items()
                               if some],
        "differences": [_difference(policy, by_policy, shared) for policy in settings.policies if policy != "random"]
        if "random" in by_policy and len(shared) > 1 else [],
        "error": _summary([result.error for result in results]),
        "error_absolute": _summary([abs(result.error) for result in results]),
        "within": sum(abs(result.error) <= GOAL for result in results), "episodes": len(results),
        "strayed": sum(result.strayed for result in results),
        "latency_s": _summary([result.latency_s for result in results]),
        "parts": _parts(results)}


def _parts(results: Sequence[PlayedAndPredicted]) -> dict[str, object]:
    """Return the parts of the error: delays, episodes with other decisions, and the rest."""
    same, other = ([result for result in results if result.same_way is way] for way in (True, False))
    return {
        "episodes": len(results), "slurm_s": _summary([result.slurm_s for result in results]),
        "follow_s": _summary([result.latency_s - result.slurm_s for result in results]),
        "noticed_s": _summary([result.noticed_s for result in results]), "same": len(same), "other": len(other),
        "delay": _summary([result.late - result.predicted for result in same]),
        "left": _summary([result.left for result in same]), "error": _summary([abs(result.error) for result in same]),
        "left_absolute": _summary([abs(result.left) for result in same]),
        "within": sum(abs(result.left) <= GOAL for result in same),
        "astray": _summary([abs(result.error) for result in other])}


def _row(policy: PolicyName, some: Sequence[PlayedAndPredicted], kilowatts: float) -> dict[str, object]:
    utilization = _summary([result.utilization for result in some])
    return {"policy": NAMED[policy], "episodes": len(some), "utilization": utilization,
            "predicted": float(np.mean([result.predicted for result in some])),
            "terminal_h": _summary([result.terminal_h for result in some]),
            "predicted_terminal_h": float(np.mean([result.predicted_terminal_h for result in some])),
            "error": _summary([result.error for result in some]),
            # §6.2: what runs inefficiently of an episode of 720 h, at the servers' rated power.
            "inefficient_mwh": EPISODE_H * (1.0 - utilization["mean"]) * kilowatts / 1000.0}


def _difference(policy: PolicyName, by_policy: Mapping[PolicyName, Mapping[int, PlayedAndPredicted]],
                shared: Sequence[int]) \
        -> dict[str, object]:
    """Return the difference of a policy to the paper's Naive on the same sequences."""
    def paired(figure: Callable[[PlayedAndPredicted], float]) -> dict[str, float]:
        return _summary([figure(by_policy[policy][number]) - figure(by_policy["random"][number]) for number in shared])

    return {"policy": NAMED[policy], "utilization": paired(lambda result: result.utilization),
            "terminal_h": paired(lambda result: result.terminal_h),
            "predicted": paired(lambda result: result.predicted)}


def _summary(values: Sequence[float]) -> dict[str, float]:
    """Return the mean with its 95 % interval (Student's t); no interval for fewer than two values."""
    if not values:
        return {"mean": float("nan"), "low": float("nan"), "high": float("nan")}
    mean, spread = float(np.mean(values)), half_width(values) if len(values) > 1 else 0.0
    return {"mean": mean, "low": mean - spread, "high": mean + spread}
