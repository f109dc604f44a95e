"""What ``--power`` means: watts by the name of a GPU model, by the nodes' own models, or from a YAML file.

    idle: 55          # W of a GPU without a context
    context: 95       # W of a GPU with a job's context and nothing to do
    limit: 400        # W of a GPU at full load
    host: 800         # W of all else in a node that is on
    standby: 20       # W of a node that is powered down
    load: 0.9         # of an allocated GPU
    curve: [[0, 0], [0.5, 0.7], [1, 1]]    # load, and share of the way from context to limit
    models: {v100: {limit: 300, host: 600}}   # nodes with these GPUs

Whatever is left out keeps its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from ..exporters.text import described as described_value
from .replay.cluster import Cluster
from .replay.power import PowerModel
from .settings.waste import WasteSettings
from .strict_yaml import ConfigError, document_of, text_of
from .waste.hardware import catalogue, named

BY_MODEL = "by-model"
"""Each node's watts go by the model of its GPUs."""
_WATTS = ("idle", "context", "limit", "host", "standby")


class PowerError(ValueError):
    """Watts that make no sense; the message says where."""


def described(text: str, cluster: Cluster) -> PowerModel:
    """Return the watts that ``--power`` names; hosts are not in the catalogue and keep the default."""
    if text.endswith((".yaml", ".yml")):
        return _from_file(Path(text), cluster)
    if text == BY_MODEL:
        return _each(PowerModel(), {model: _listed(model) for model in set(cluster.model)}, cluster)
    return PowerModel(**_listed(text))


def _listed(model: str) -> dict[str, Any]:
    """Return what the catalogue knows of a GPU model, by words of the vendor's name."""
    option = next(iter(named(model)), None)
    if option is not None and option.idle and option.limit:
        context = option.idle.watts + WasteSettings().context_extra_watts
        return {"idle": option.idle.watts, "context": context, "limit": option.limit.watts}
    known = ", ".join(gpu.name for gpu in catalogue().gpus if gpu.idle and gpu.limit)
    unknown = repr(model) if model else "nodes without a GPU model"
    raise PowerError(f"the watts of {unknown} are not known; known are {known} or words of these names, "
                     "else write a YAML file")


def _from_file(path: Path, cluster: Cluster) -> PowerModel:
    try:
        document = document_of(text_of(path), str(path))
    except ConfigError as error:
        raise PowerError(str(error)) from error
    try:
        return _from_mapping(document, cluster)
    except PowerError as error:
        raise PowerError(f"{path}: {error}") from error


def _from_mapping(document: object, cluster: Cluster) -> PowerModel:
    values = _known(document, (*_WATTS, "load", "curve", "models"), "the file")
    models = _known(values.pop("models", {}), None, "models")
    changes: dict[str, Any] = {"curve": _curve(values.pop("curve"))} if "curve" in values else {}
    changes |= {key: _number(value, key) for key, value in values.items()}
    if not 0 <= changes.get("load", 1.0) <= 1:
        raise PowerError("load lies between 0 and 1")
    return _each(PowerModel(**changes), {model: {
        key: _number(value, f"models.{model}.{key}") for key, value in _known(watts, _WATTS, f"models.{model}").items()}
        for model, watts in models.items()}, cluster)


def _known(mapping: object, keys: Sequence[str] | None, where: str) -> dict[str, object]:
    if not isinstance(mapping, Mapping):
        raise PowerError(f"{where} must be keys with values")
    unknown = sorted(map(str, set(mapping) - set(keys))) if keys is not None else []
    if unknown:
        raise PowerError(f"{where} has unknown keys: {', '.join(unknown)}; known are {', '.join(sorted(keys or ()))}")
    return {str(key): value for key, value in mapping.items()}


def _number(value: object, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < float("inf"):
        raise PowerError(f"{where} must be a number of at least 0, not {described_value(value)}")
    return float(value)


def _curve(points: object) -> tuple[tuple[float, float], ...]:
    if not isinstance(points, list) or not all(isinstance(point, list) and len(point) == 2 for point in points):
        raise PowerError("curve is a list of [load, share]")
    curve = tuple((_number(load, "curve"), _number(share, "curve")) for load, share in points)
    if len(curve) < 2 or any(later[0] <= load for (load, _), later in pairwise(curve)):
        raise PowerError("curve needs two points or more, by rising load")
    return curve


def _each(usual: PowerModel, models: Mapping[str, Mapping[str, float]], cluster: Cluster) -> PowerModel:
    """Return the watts of each node by the model of its GPUs; a model that no node has is an error."""
    here = {name.lower() for name in cluster.model}
    unknown = sorted(name for name in models if name.lower() not in here)
    if unknown:
        model_names = ", ".join(sorted(filter(None, here))) or "no models"
        raise PowerError(f"no node has GPUs of {unknown[0]!r}; there are {model_names}")
    by_name = {name.lower(): watts for name, watts in models.items()}
    columns = {key: np.array([by_name.get(name.lower(), {}).get(key, getattr(usual, key)) for name in cluster.model])
               for key in {key for watts in models.values() for key in watts}}
    watts: dict[str, Any] = {key: column if len(set(column.tolist())) > 1 else float(column[0])
                             for key, column in columns.items()}
    return replace(usual, **watts)
