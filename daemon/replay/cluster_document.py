"""A cluster as people describe it in YAML: groups of like nodes, what happens to nodes over time, Slurm's settings."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from ...storage.records import Node

_Amount = Annotated[int, Field(ge=0, lt=1 << 56)]


class _Part(BaseModel):
    """A part of the description; a name may look like a number."""

    model_config = ConfigDict(extra="forbid", frozen=True, coerce_numbers_to_str=True)


class NodeGroup(_Part):
    """Nodes that are alike; with ``count`` their names are numbered."""

    name: str | None = None
    count: Annotated[int, Field(ge=1, lt=1 << 24)] | None = None
    gpus: _Amount = 0
    cpus: _Amount = 0
    memory_bytes: _Amount = 0
    model: str = ""
    leaf: str = ""
    spine: str = ""
    above: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ("default",)
    islands: tuple[tuple[int, ...], ...] | None = None

    def expanded(self, row: int) -> list[Node]:
        """Return the nodes of this group, which is the ``row``-th of its cluster."""
        stem = f"group{row}-" if self.name is None else self.name
        names = [stem] if self.count is None else [f"{stem}{number}" for number in range(self.count)]
        return [Node(name, self.partitions, self.gpus, self.model, self.cpus, self.memory_bytes,
                     features=self.features, leaf=self.leaf, spine=self.spine, above=self.above) for name in names]


class DescribedEvent(_Part):
    """Something that happens to a node at a moment in seconds."""

    time: Annotated[float, Field(allow_inf_nan=False)]
    node: str
    kind: Literal["down", "drain", "up"]


class ClusterDocument(_Part):
    """All that a description may hold."""

    nodes: tuple[NodeGroup, ...] | None = None
    events: tuple[DescribedEvent, ...] | None = None
    settings: dict[str, object] | None = None
    """Lines of ``scontrol show config``."""
