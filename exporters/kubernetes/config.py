"""The kind ``kubernetes`` of a source in the configuration."""

from __future__ import annotations

from typing import ClassVar, Literal

from ..source import Clock, Role, Source, register
from .options import KubernetesOptions


@register("kubernetes")
class KubernetesConfig(KubernetesOptions):
    """Jobs, nodes and queues from the API server of a cluster."""

    role: ClassVar[Role] = "scheduler"
    kind: Literal["kubernetes"] = "kubernetes"

    def build(self, clock: Clock) -> Source:
        """Return the source that this configuration describes."""
        from .source import KubernetesSource  # a site without Kubernetes does not load it

        return KubernetesSource(self, clock)
