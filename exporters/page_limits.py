"""What one page of an exporter may cost, as in Prometheus' scrape configuration, and for how many it may speak."""

from __future__ import annotations

from pydantic import Field

from ..storage.durations import Duration
from ..storage.telemetry import Telemetry
from .http_options import StrictOptions


class PageError(ValueError):
    """A page is not Prometheus' text format, or beyond its bounds; the message says where."""


def too_many_servers(count: int, limit: int) -> str:
    """Return what is wrong with a target that names ``count`` servers as its own."""
    return f"speaks for {count} servers, more than {limit} (server_limit)"


class PageLimits(StrictOptions):
    """Bounds on one page; a page beyond one of them is a fault of its target, and nothing of it is taken."""

    sample_limit: int = Field(default=20_000, gt=0, description="Samples of the metrics that are read, on one page.")
    label_limit: int = Field(default=64, gt=0, description="Labels of one sample.")
    label_name_length_limit: int = Field(default=256, gt=0, description="Longest name of a label, in bytes.")
    label_value_length_limit: int = Field(default=2048, gt=0, description="Longest value of a label, in bytes.")
    gpu_limit: int = Field(default=64, gt=0, description="GPUs on one page; raise it where a page speaks for many "
                                                         "servers.")
    server_limit: int = Field(default=64, gt=0, description="Servers that one page may speak for; raise it where one "
                                                            "exporter asks more.")
    max_age: Duration = Field(default=120.0, description="A sample with a timestamp of its own that is older than "
                                                         "this is no reading.")

    def check_labels(self, labels: dict[str, str]) -> None:
        """Raise ``PageError`` where a sample has too many labels, or one too long."""
        if len(labels) > self.label_limit:
            raise PageError(f"a sample with {len(labels)} labels, more than {self.label_limit} (label_limit)")
        for name, value in labels.items():
            if len(name.encode()) > self.label_name_length_limit:
                raise PageError(f"a label whose name has {len(name)} characters (label_name_length_limit)")
            if len(value.encode()) > self.label_value_length_limit:
                raise PageError(f"a label whose value has {len(value)} characters (label_value_length_limit)")

    def check_sizes(self, telemetry: Telemetry) -> None:
        """Raise ``PageError`` where a page shows more GPUs than a target may have, or speaks for too many servers."""
        if len(telemetry.gpus) > self.gpu_limit:
            raise PageError(f"shows {len(telemetry.gpus)} GPUs, more than {self.gpu_limit} (gpu_limit)")
        servers = {one.node for found in (telemetry.gpus, telemetry.nodes, telemetry.jobs) for one in found}
        if len(servers) > self.server_limit:
            raise PageError(too_many_servers(len(servers), self.server_limit))
