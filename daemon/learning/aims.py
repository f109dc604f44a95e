"""What a training is after: what its command says, else what the configuration does, else what the kind is made for."""

from __future__ import annotations

from pydantic import ValidationError

from ..agents.kinds import AgentKind, Objective
from ..settings.training import ObjectiveSettings, TrainingSettings

SHORT = {"jct": "jct_mean", "completion": "jct_mean", "slowdown": "slowdown_mean", "wait": "wait_mean",
         "wait-p99": "wait_p99", "use": "utilization", "utilisation": "utilization"}
"""What else weights are called."""


class AimError(ValueError):
    """Weights that make no sense; the message says which, and what is possible."""


def aimed(text: str | None, settings: TrainingSettings, kind: AgentKind) -> Objective:
    """Return what a training is after; ``text`` is ``utilization`` or ``utilization=0.7,energy=0.3``."""
    if text is not None:
        return Objective.of(parsed(text, settings.objective.longest_wait))
    if "objective" in settings.model_fields_set:
        return Objective.of(settings.objective)
    return kind.objective


def parsed(text: str, longest_wait_s: float) -> ObjectiveSettings:
    """Return the weights that a text names, all others 0; ``AimError`` where the text is no aim."""
    weights = dict.fromkeys(ObjectiveSettings().weights, 0.0)
    for part in text.split(","):
        name, given, value = (text.strip() for text in part.partition("="))
        name = SHORT.get(name.lower(), name.lower().replace("-", "_"))
        if name not in weights:
            raise AimError(f"{part.strip()!r}: there is no weight {name!r}; there are {', '.join(weights)}")
        try:
            weights[name] = float(value) if given else 1.0
        except ValueError as error:
            raise AimError(f"{part.strip()!r}: {value!r} is no number") from error
    try:
        return ObjectiveSettings(**weights, longest_wait=longest_wait_s)
    except ValidationError as error:
        raise AimError("; ".join(": ".join((*map(str, fault["loc"]), fault["msg"].removeprefix("Value error, ")))
                                 for fault in error.errors())) from error
