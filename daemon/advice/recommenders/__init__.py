"""Recommendations beyond starts: one file for each subject. ``daemon.advice.recommender`` says how to add one."""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from importlib.util import find_spec
from pydoc import synopsis

from ..recommender import REGISTERED, RecommenderKind


@cache
def topics() -> dict[str, str]:
    """Return what each file here is about, by its name, without importing any: ``--help`` must answer at once."""
    specs = {module.name: find_spec(f"{__name__}.{module.name}") for module in pkgutil.iter_modules(__path__)}
    return {name: synopsis(spec.origin) or "" for name, spec in sorted(specs.items()) if spec and spec.origin}


def subjects() -> dict[str, RecommenderKind]:
    """Return every subject by name, importing the files on first use."""
    for name in topics():
        importlib.import_module(f"{__name__}.{name}")
    return REGISTERED
