"""Kubernetes as a source: its API server is listed once and watched from then on; pods become jobs by their owners.

Importing the folder registers the kinds ``kubernetes`` and ``kubernetes_topology``. ``reader.yaml`` beside this file is
what they have to be allowed.
"""

from .config import KubernetesConfig, KubernetesTopologyConfig

__all__ = ["KubernetesConfig", "KubernetesTopologyConfig"]
