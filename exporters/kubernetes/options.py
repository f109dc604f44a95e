"""What a site says of its Kubernetes: how to reach it, and what is a partition and a user there."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import Field, model_validator

from ...storage.durations import Duration
from ..http_options import HttpOptions, StrictOptions
from ..source import SourceConfig

_LABEL = r"[A-Za-z0-9._/-]{1,316}"


class KubernetesHttp(HttpOptions):
    """Bounds and trust for the API server."""

    max_body_bytes: int = Field(default=256 * 2**20, gt=0, description="Largest page of a list that is taken; 500 "
                                                                       "objects, each of 3 MiB at most.")


class KubernetesAccess(StrictOptions):
    """How to reach the API server of a cluster."""

    url: str = Field(default="", pattern=r"^(https?://[^/].*)?$", description="The API server, where neither a "
                     "kubeconfig nor the pod that idlewatt runs in says it, as for `kubectl proxy`.")
    kubeconfig: Path | None = Field(default=None, description="Certificates, token or exec plugin from outside of the "
                                                              "cluster; without it, and without url, the pod's own.")
    context: str = Field(default="", description="The context of the kubeconfig; its current one by default.")
    http: KubernetesHttp = Field(default=KubernetesHttp(), description="Timeouts, TLS and bounds.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if self.url and self.kubeconfig:
            raise ValueError("give url or kubeconfig, not both")
        if self.context and not self.kubeconfig:
            raise ValueError("context is of a kubeconfig, and there is none")
        return self


class KubernetesOptions(SourceConfig, KubernetesAccess):
    """How to reach the API server of a cluster, and how to read it."""

    partition: str = Field(
        default="queue", pattern=rf"^(queue|namespace|label:{_LABEL})$",
        description="What a partition is: `queue` (Kueue's, KAI's or Volcano's, else the namespace), `namespace`, or "
                    "`label:KEY` of pods.")
    user: str = Field(default="namespace", pattern=rf"^(namespace|label:{_LABEL})$",
                      description="Who a job is of: `namespace`, or `label:KEY` of pods or their Job.")
    gate: str = Field(default="idlewatt/advice", pattern=rf"^({_LABEL})?$",
                      description="The scheduling gate of pods, or the name in `kueue.x-k8s.io/admission-gated-by`, "
                                  "behind which jobs wait for advice; empty for none.")
    admission_check: str = Field(default="idlewatt", pattern=r"^[a-z0-9.-]{0,253}$",
                                 description="The AdmissionCheck of Kueue that waits for advice; empty for none.")
    watch: Duration = Field(default=300.0, description="How long one watch shall last.")
    silence: Duration = Field(default=90.0, description="A watch that says nothing for so long is begun anew; a "
                                                        "server marks about every minute that it is alive.")
    resync: Duration = Field(default=3600.0, description="How often whole lists are read, whatever watches sent.")
