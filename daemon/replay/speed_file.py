"""Speeds as a YAML file: to look at what a site's records say, to correct it, or to replay with somebody else's.

    groups:
    - user: "*"                 # pattern of users; all by default
      name: "*bert*"            # pattern of job names, with or without what varies from run to run
      size: {1: 100, 2: 180, 4: 310, 8: 480}         # throughput by number of GPUs, in any unit
      spread: {leaf: 0.8, spine: 0.6}                # over the speed on one island: node, leaf, spine, further
      company: {"*/*resnet*": 0.9, "": 0.95}         # left beside a job of that group (user/name), and of no group
      cpus: {1: 0.5, 3: 1.0}                         # by CPUs per GPU
      memory: {2.0e+10: 0.7, 6.0e+10: 1.0}           # by bytes per GPU
    - user: ann
      name: "train_resnet_#"
      spread: {leaf: {factor: 0.9, low: 0.8, high: 1.0, source: measured, runs: 12}}

A bare number is a ``prior`` without an interval of its own. The first group that fits a job counts.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, TypeVar

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ...exporters.causes import innermost
from ..strict_yaml import ConfigError, document_of, faults_of, text_of
from .site_speeds import SiteSpeeds, Source, SpeedCell, SpeedGroup
from .speed import SpeedError

K = TypeVar("K")
LARGEST_BYTES = 64 << 20


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Cell(_Strict):
    factor: Positive
    low: Positive | None = None
    high: Positive | None = None
    source: Source = "prior"
    runs: Annotated[int, Field(ge=0)] = 0

    def cell(self) -> SpeedCell:
        return SpeedCell(self.factor, self.factor if self.low is None else self.low,
                         self.factor if self.high is None else self.high, self.source, self.runs)


def _as_cell_mapping(value: object) -> object:
    """Make a bare number a cell; leave everything else, booleans included, to the validation."""
    return {"factor": value} if isinstance(value, int | float) and not isinstance(value, bool) else value


AnyCell = Annotated[_Cell, BeforeValidator(_as_cell_mapping)]


class _Group(_Strict):
    name: str
    user: str = "*"
    runs: Annotated[int, Field(ge=0)] = 0
    follows: str = ""
    size: dict[int, AnyCell] = {}
    spread: dict[str, AnyCell] = {}
    company: dict[str, AnyCell] = {}
    cpus: dict[float, AnyCell] = {}
    memory: dict[float, AnyCell] = {}

    def group(self) -> SpeedGroup:
        return SpeedGroup(self.user, self.name, self.runs, self.follows, _cells(self.size), _cells(self.spread),
                          _cells(self.company), _cells(self.cpus), _cells(self.memory))


def _cells(part: Mapping[K, _Cell]) -> dict[K, SpeedCell]:
    return {key: cell.cell() for key, cell in part.items()}


class _SpeedFile(_Strict):
    groups: list[_Group]
    origin: str = ""
    notes: list[str] = []
    topology: dict[str, Annotated[list[str], Field(min_length=2, max_length=2)]] = {}


def read(path: Path) -> SiteSpeeds:
    """Return the speeds of a file; SpeedError lists every fault, each with its place."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise SpeedError(f"{path}: larger than {LARGEST_BYTES >> 20} MiB: no table of speeds")
        if not path.is_file():  # a pipe or a device may never end
            raise SpeedError(f"{path}: not a plain file; put the file itself there")
        document = document_of(text_of(path), str(path))
    except OSError as error:
        raise SpeedError(f"{path}: cannot be read: {innermost(error)}") from error
    except ConfigError as error:
        raise SpeedError(str(error)) from error
    try:
        file = _SpeedFile.model_validate(document)
    except ValidationError as error:
        raise SpeedError(f"{path}: {faults_of(error)}") from error
    try:
        groups = tuple(group.group() for group in file.groups)
        return SiteSpeeds(file.origin or path.name, groups, (*file.notes, *_contradictions(groups)),
                          {node: (leaf, spine) for node, (leaf, spine) in file.topology.items()})
    except SpeedError as error:
        raise SpeedError(f"{path}: {error}") from error


def _contradictions(groups: tuple[SpeedGroup, ...]) -> list[str]:
    return [sentence for group in groups for sentence in group.contradictions()]


def text(speeds: SiteSpeeds) -> str:
    """Return speeds as a file holds them."""
    document: dict[str, object] = {"origin": speeds.origin, "groups": [_as_mapping(group) for group in speeds.groups]}
    if speeds.topology:
        document["topology"] = {node: list(place) for node, place in speeds.topology.items()}
    document["notes"] = [note for note in speeds.notes if note not in _contradictions(speeds.groups)]
    return str(yaml.safe_dump(document, sort_keys=False, default_flow_style=None, width=120, allow_unicode=True))


def _as_mapping(group: SpeedGroup) -> dict[str, object]:
    parts = {name: {key: _shown(cell) for key, cell in getattr(group, name).items()}
             for name in ("size", "spread", "company", "cpus", "memory")}
    return {"user": group.user, "name": group.name, "runs": group.runs, "follows": group.follows,
            **{name: part for name, part in parts.items() if part}}


def _shown(cell: SpeedCell) -> dict[str, object]:
    return {"factor": cell.factor, "low": cell.low, "high": cell.high, "source": cell.source, "runs": cell.runs}
