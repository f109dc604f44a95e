"""Where exporters run in a cluster: the addresses of their pods, each with the node that it speaks for."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import msgspec
from pydantic import Field, model_validator

from ...storage.durations import Duration
from ..http_options import HttpOptions
from ..text import clean
from .access import reach
from .api import ApiClient
from .fields import Listing, Meta, ObjectPart, some
from .lists import read_list

_LIST = msgspec.json.Decoder(Listing)


class _PodSpec(ObjectPart, frozen=True):
    """Where a pod runs."""

    node_name: str = ""


class _PodStatus(ObjectPart, frozen=True):
    """Whether a pod runs, and its address."""

    phase: str = ""
    pod_ip: str = msgspec.field(name="podIP", default="")


class _Pod(ObjectPart, frozen=True):
    """A pod of an exporter."""

    metadata: Meta = Meta()
    spec: _PodSpec = _PodSpec()
    status: _PodStatus = _PodStatus()


_POD = msgspec.json.Decoder(_Pod)


class PodSdConfig(HttpOptions):
    """Targets from the pods of an exporter, each named by its node."""

    label_selector: str = Field(description="Which pods: app.kubernetes.io/name=dcgm-exporter.", min_length=1)
    port: int = Field(ge=1, le=65535, description="Where they listen: 9400 for dcgm-exporter, 9100 for node_exporter.")
    namespace: str = Field(default="", pattern=r"^[a-z0-9-]{0,63}$", description="Where they run; all when empty.")
    url: str = Field(default="", pattern=r"^(https?://[^/].*)?$", description="The API server, as for `kubectl proxy`.")
    kubeconfig: Path | None = Field(default=None, description="From outside of the cluster; else url, else the pod's "
                                                              "own account.")
    context: str = Field(default="", description="The context of the kubeconfig; its current one by default.")
    refresh_interval: Duration = Field(default=60.0, description="How often the pods are listed.")

    @model_validator(mode="after")
    def _one_way(self) -> PodSdConfig:
        if self.url and self.kubeconfig:
            raise ValueError("give url or kubeconfig, not both")
        return self


class Exporter(NamedTuple):
    """A pod that answers."""

    address: str
    node: str


class ExporterPods:
    """Asks an API server for the pods of one exporter."""

    def __init__(self, config: PodSdConfig) -> None:
        self._config = config
        self._api: ApiClient | None = None

    def ask(self) -> tuple[Exporter, ...]:
        """Return the pods that run now.

        Raises:
            SourceError: the server cannot be reached, does not let us, or does not answer with a list.
        """
        config = self._config
        if self._api is None:
            self._api = ApiClient(reach(config.url, config.kubeconfig, config.context), config)
        path = f"/api/v1/namespaces/{config.namespace}/pods" if config.namespace else "/api/v1/pods"
        exporters = list[Exporter]()

        def take(body: bytes) -> Listing:
            page = _LIST.decode(body)
            exporters.extend(filter(None, (_exporter(_POD.decode(raw), config.port) for raw in some(page.items))))
            return page

        read_list(self._api, path, take, {"labelSelector": config.label_selector})
        return tuple(sorted(exporters))

    def close(self) -> None:
        """End what is under way."""
        if self._api is not None:
            self._api.close()


def _exporter(pod: _Pod, port: int) -> Exporter | None:
    address = pod.status.pod_ip
    if pod.status.phase != "Running" or not address or not pod.spec.node_name:
        return None
    host = f"[{address}]" if ":" in address else address
    return Exporter(f"{clean(host)}:{port}", clean(pod.spec.node_name))
