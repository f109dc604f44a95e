"""Kubernetes as a source: its API server is listed once and watched from then on; pods become jobs by their owners.

Importing the folder registers the kind ``kubernetes``. ``reader.yaml`` beside this file is what it has to be allowed.
"""

from .config import KubernetesConfig

__all__ = ["KubernetesConfig"]
