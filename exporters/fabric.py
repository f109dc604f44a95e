"""The topology as a source: read from a file, from Slurm or from the configuration, seldom, as switches hardly move."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from ..storage.durations import Duration
from ..storage.records import Islands
from ..storage.topology import Fabric, NodeLinks, Switch, Topology, TopologyError
from .domains import domains_of, parse_yaml
from .hostlist import expand
from .slurm.cli import SlurmCli, SlurmCommands
from .source import Clock, Role, SourceConfig, SourceError, TargetHealth, register
from .text import clean, quoted
from .topology import labels_of, parse_labels, parse_matrix, parse_switches, parse_table

LARGEST_BYTES = 64 * 2**20


@register("topology_file")
class TopologyFileConfig(SourceConfig):
    """Switches and NVLink domains from a file: ``topology.conf`` or ``.yaml``, Kubernetes nodes as JSON, or a table."""

    role: ClassVar[Role] = "topology"
    kind: Literal["topology_file"] = "topology_file"
    file: Path = Field(description="The file; JSON is taken as a list of Kubernetes nodes, CSV as a table of nodes and "
                                  "the switches above each, the topmost first, .yaml as Slurm's topology.yaml, all "
                                  "else as topology.conf or what `scontrol show topology` prints.")
    every: Duration = Field(default=600.0, description="How often it is read again.")

    def build(self, clock: Clock) -> TopologySource:
        """Return the source that this configuration describes."""
        return TopologySource(self.name or self.kind, lambda: read_file(self.file), clock, self.every)


@register("slurm_topology")
class SlurmTopologyConfig(SlurmCommands):
    """Switches from ``scontrol show topology``."""

    role: ClassVar[Role] = "topology"
    kind: Literal["slurm_topology"] = "slurm_topology"
    every: Duration = Field(default=600.0, description="How often Slurm is read again.")

    def build(self, clock: Clock) -> TopologySource:
        """Return the source that this configuration describes."""
        slurm = SlurmCli(self)
        return TopologySource(self.name or self.kind, lambda: parse_switches(slurm.topology()), clock, self.every)


@register("topology")
class TopologyConfig(SourceConfig):
    """Switches named here, where no program tells them."""

    role: ClassVar[Role] = "topology"
    kind: Literal["topology"] = "topology"
    leaves: dict[str, str] = Field(default={}, description="Nodes on each leaf switch, as Slurm lists: dgx[01-08].")
    spines: dict[str, str] = Field(default={}, description="Leaf switches below each spine, in the same way.")
    domains: dict[str, str] = Field(default={}, description="Nodes of each NVLink domain, as an NVL72 rack's trays.")

    @model_validator(mode="after")
    def _a_tree(self) -> Self:
        self.fabric()
        return self

    def build(self, clock: Clock) -> TopologySource:
        """Return the source that this configuration describes."""
        return TopologySource(self.name or self.kind, self.fabric, clock, float("inf"))

    def fabric(self) -> Fabric:
        """Return the switches as a tree; ValueError when they make none."""
        return Fabric.of([*(Switch(name, expand(nodes)) for name, nodes in self.leaves.items()),
                          *(Switch(name, (), expand(leaves)) for name, leaves in self.spines.items())],
                         domains_of((name, expand(nodes)) for name, nodes in self.domains.items()))


@register("gpu_links")
class GpuLinksConfig(SourceConfig):
    """How the GPUs inside nodes reach each other: ``nvidia-smi topo -m`` saved to a file, or islands named here."""

    role: ClassVar[Role] = "topology"
    kind: Literal["gpu_links"] = "gpu_links"
    nodes: tuple[str, ...] = Field(min_length=1, description="Names of the nodes built like this, or patterns: dgx-*.")
    file: Path | None = Field(default=None, description="What `nvidia-smi topo -m` prints on one of them.")
    islands: Islands = Field(default=(), description="Instead: indexes of the GPUs of each NVLink or NUMA domain.")
    every: Duration = Field(default=600.0, description="How often the file is read again.")

    @model_validator(mode="after")
    def _one_of_both(self) -> Self:
        if (self.file is None) == (not self.islands):
            raise ValueError("either file or islands describes how the GPUs are linked")
        if self.islands:
            NodeLinks(self.nodes, self.islands)
        return self

    def build(self, clock: Clock) -> TopologySource:
        """Return the source that this configuration describes."""
        return TopologySource(self.name or self.kind, self.links, clock, self.every)

    def links(self) -> NodeLinks:
        """Return the nodes with their islands; SourceError or TopologyError when the file does not tell them."""
        if self.islands:
            return NodeLinks(self.nodes, self.islands)
        assert self.file is not None  # see _one_of_both
        return NodeLinks(self.nodes, read_matrix(self.file))


class TopologySource:
    """Reads a topology, and keeps it for a while."""

    role: Role = "topology"

    def __init__(self, name: str, look: Callable[[], Topology], clock: Clock, every_s: float,
                 close: Callable[[], None] = lambda: None) -> None:
        self.name, self._close = name, close
        self._look, self._clock, self._every_s = look, clock, every_s
        self._known: Topology | None = None
        self._health = TargetHealth(name, up=False, duration_s=0.0)

    def read(self) -> Topology:
        """Return the topology, looked at again when its time has come; SourceError when it cannot be."""
        last = self._health.last_success_s
        if self._known is not None and last is not None and 0 <= self._clock() - last < self._every_s:
            return self._known
        began = time.perf_counter()
        try:
            known = self._look()
            _check_names(known)
            self._known = known
        except (SourceError, TopologyError) as error:
            self._health = TargetHealth(self.name, False, time.perf_counter() - began, str(error), last)
            raise SourceError(str(error), permanent=isinstance(error, TopologyError)) from error
        self._health = TargetHealth(self.name, True, time.perf_counter() - began, "", self._clock())
        return self._known

    def health(self) -> tuple[TargetHealth, ...]:
        """Return how the last look went."""
        return (self._health,)

    def close(self) -> None:
        """End what is under way; a file holds nothing between looks."""
        self._close()


def _check_names(topology: Topology) -> None:
    """Raise ``TopologyError`` for a name with control characters: it would reach terminals and pages."""
    if isinstance(topology, Fabric):
        for name in {*topology.leaf.values(), *topology.parent, *topology.parent.values(), *topology.domain.values()}:
            if clean(name) != name:
                raise TopologyError(f"{quoted(name)} has characters that are in no name")


def read_file(path: Path) -> Fabric:
    """Return the fabric that a file describes; SourceError when it cannot be read, TopologyError when it makes none."""
    try:
        text = _text(path)
        if text.lstrip().startswith("{"):
            return parse_labels(labels_of(json.loads(text)))
        if path.suffix in (".yaml", ".yml"):
            return parse_yaml(text)
        if _is_table(text):
            return parse_table(text)
        return parse_switches(text)
    except (TopologyError, ValueError, RecursionError) as error:
        raise TopologyError(f"{path}: {error}") from error


def read_matrix(path: Path) -> Islands:
    """Return the islands that ``nvidia-smi topo -m`` shows, by the scheduler's indexes; errors as of `read_file`."""
    try:
        return parse_matrix(_text(path)).numbered()
    except TopologyError as error:
        raise TopologyError(f"{path}: {error}") from error


def _text(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST_BYTES:
            raise TopologyError(f"larger than {LARGEST_BYTES >> 20} MiB: no topology")
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}") from error


def _is_table(text: str) -> bool:
    """Tell whether the first line is a heading; in Slurm's words it would have a ``SwitchName=`` or be a comment."""
    heading = text.lstrip().partition("\n")[0]
    return "," in heading and "=" not in heading and not heading.startswith("#")
