"""The fabric as a source: read from a file or from Slurm, seldom, as switches hardly move."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field

from ..storage.durations import Duration
from ..storage.topology import Fabric, TopologyError
from .slurm_cli import SlurmCli, SlurmCommands
from .source import Clock, Role, SourceConfig, SourceError, TargetHealth, register
from .topology import labels_of, parse_labels, parse_switches, parse_table

LARGEST_BYTES = 64 * 2**20


@register("topology_file")
class TopologyFileConfig(SourceConfig):
    """Switches from a file: ``topology.conf``, ``scontrol show topology``, ``kubectl get nodes -o json`` or a table."""

    role: ClassVar[Role] = "topology"
    kind: Literal["topology_file"] = "topology_file"
    file: Path = Field(description="The file; JSON is taken as a list of Kubernetes nodes, CSV as a table of nodes and "
                                  "the switches above each, the topmost first, all else as Slurm's.")
    every: Duration = Field(default=600.0, description="How often it is read again.")

    def build(self, clock: Clock) -> TopologySource:
        """Return the source that this configuration describes."""
        return TopologySource(self.name or self.kind, lambda: read_file(self.file), clock, self.every)


@register("slurm_topology")
class SlurmTopologyConfig(SlurmCommands):
    """Switches from ``scontrol show topology``."""

    role: ClassVar[Role] = "topology"
    kind: Literal["slurm_topology"] = "slurm_topology"
    every: Duration = Field(default=600.0, description="How often Slurm is asked again.")

    def build(self, clock: Clock) -> TopologySource:
        """Return the source that this configuration describes."""
        slurm = SlurmCli(self)
        return TopologySource(self.name or self.kind, lambda: parse_switches(slurm.topology()), clock, self.every)


class TopologySource:
    """Reads a fabric, and keeps it for a while."""

    role: Role = "topology"

    def __init__(self, name: str, look: Callable[[], Fabric], clock: Clock, every_s: float) -> None:
        self.name = name
        self._look, self._clock, self._every_s = look, clock, every_s
        self._fabric: Fabric | None = None
        self._health = TargetHealth(name, up=False, duration_s=0.0)

    def read(self) -> Fabric:
        """Return the fabric, looked at anew when its time has come; SourceError when it cannot be."""
        last = self._health.last_success_s
        if self._fabric is not None and last is not None and 0 <= self._clock() - last < self._every_s:
            return self._fabric
        began = time.perf_counter()
        try:
            self._fabric = self._look()
        except (SourceError, TopologyError) as error:
            self._health = TargetHealth(self.name, False, time.perf_counter() - began, str(error), last)
            raise SourceError(str(error), permanent=isinstance(error, TopologyError)) from error
        self._health = TargetHealth(self.name, True, time.perf_counter() - began, "", self._clock())
        return self._fabric

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how the last look went."""
        return (self._health,)

    def close(self) -> None:
        """Hold nothing between looks."""


def read_file(path: Path) -> Fabric:
    """Return the fabric that a file describes; SourceError when it cannot be read, TopologyError when it makes none."""
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise TopologyError(f"{path}: larger than {LARGEST_BYTES >> 20} MiB: no topology")
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error
    try:
        if text.lstrip().startswith("{"):
            return parse_labels(labels_of(json.loads(text)))
        if _is_table(text):
            return parse_table(text)
        return parse_switches(text)
    except (TopologyError, ValueError, RecursionError) as error:
        raise TopologyError(f"{path}: {error}") from error


def _is_table(text: str) -> bool:
    """Tell whether the first line is a heading; in Slurm's words it would have a ``SwitchName=`` or be a comment."""
    heading = text.lstrip().partition("\n")[0]
    return "," in heading and "=" not in heading and not heading.startswith("#")
