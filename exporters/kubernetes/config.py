"""The kinds ``kubernetes`` and ``kubernetes_topology`` of a source in the configuration."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from ...storage.durations import Duration
from ..fabric import TopologySource
from ..source import Clock, Role, Source, SourceConfig, register
from .options import KubernetesAccess, KubernetesOptions


@register("kubernetes")
class KubernetesConfig(KubernetesOptions):
    """Jobs, nodes and queues from the API server of a cluster."""

    role: ClassVar[Role] = "scheduler"
    kind: Literal["kubernetes"] = "kubernetes"

    def build(self, clock: Clock) -> Source:
        """Return the source that this configuration describes."""
        from .source import KubernetesSource  # a site without Kubernetes does not load it

        return KubernetesSource(self, clock)


@register("kubernetes_topology")
class KubernetesTopologyConfig(SourceConfig, KubernetesAccess):
    """Switches and NVLink domains of a Kubernetes cluster: Kueue's Topology, Volcano's HyperNodes, labels of nodes."""

    role: ClassVar[Role] = "topology"
    kind: Literal["kubernetes_topology"] = "kubernetes_topology"
    every: Duration = Field(default=600.0, description="How often it is read again.")

    def build(self, clock: Clock) -> TopologySource:
        """Return the source that this configuration describes."""
        from .topology import TopologyAsker  # as above

        asker = TopologyAsker(self)
        return TopologySource(self.name or self.kind, asker.look, clock, self.every, asker.close)
