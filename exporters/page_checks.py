"""What one page of an exporter may cost, for how many servers it may speak, and what it has to show.

The limits are those of Prometheus' scrape configuration. A page that is not what it is read for gets an error that says
whose page it seems to be, for an operator who has to find the right one.
"""

from __future__ import annotations

import re
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families
from pydantic import Field

from ..storage.durations import Duration
from ..storage.telemetry import Telemetry
from .http_options import StrictOptions
from .source import SourcePurpose
from .text import decode, quoted

_LOOKED_AT_BYTES = 262144
_SHOWN_METRICS = 3
_NAME = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]{0,100})[{ \t]", re.MULTILINE)
_OF_LIBRARIES = ("go", "process", "promhttp", "python", "scrape", "http")
"""Prefixes of what the libraries of exporters show of themselves: they say nothing of whose page it is."""
_EXPORTERS = {"DCGM": "dcgm-exporter", "node": "node_exporter", "ipmi": "ipmi_exporter", "cgroup": "cgroup_exporter",
              "slurm": "an exporter of Slurm", "prometheus": "Prometheus itself",
              "redfish": "a Redfish exporter", "nvidia": "nvidia_gpu_exporter",
              "habanalabs": "Intel's Gaudi metric exporter", "amd": "an exporter of AMD GPUs",
              "gpu": "AMD's device-metrics-exporter"}


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
        servers = {record.node for records in (telemetry.gpus, telemetry.nodes, telemetry.jobs) for record in records}
        if len(servers) > self.server_limit:
            raise PageError(too_many_servers(len(servers), self.server_limit))


def check_found(telemetry: Telemetry, wanted: SourcePurpose | None, page: bytes, stale: int) -> None:
    """Raise ``PageError`` where a page shows nothing of what it is read for."""
    if wanted and not wanted.there(telemetry):
        old = f" but {stale} samples whose own timestamps are too old (max_age)" if stale else ""
        raise PageError(f"no {wanted.word} on this page{old}: {found_instead(page)}")


def found_instead(page: bytes) -> str:
    """Return which metrics a page shows, and whose page that is where the names tell."""
    names = list(dict.fromkeys(decode(name) for name in _NAME.findall(page[:_LOOKED_AT_BYTES])))
    if not names:
        return "it is empty"
    telling = [name for name in names if name.partition("_")[0] not in _OF_LIBRARIES] or names
    prefix = Counter(name.partition("_")[0] for name in telling).most_common(1)[0][0]
    hint = f" (is this {_EXPORTERS[prefix]}?)" if prefix in _EXPORTERS else ""
    more = f" and {len(names) - _SHOWN_METRICS} more" if len(names) > _SHOWN_METRICS else ""
    return f"it shows {', '.join(telling[:_SHOWN_METRICS])}{more}{hint}"


def no_exposition(page: bytes) -> str:
    """Return why a page without our metrics is no exposition at all; '' where it is one."""
    start = page[:_LOOKED_AT_BYTES].rpartition(b"\n")[0]
    try:
        for _ in text_string_to_metric_families(decode(start)):
            pass
    except (ValueError, OverflowError, IndexError):
        return f"not Prometheus' text format: {quoted(page[1:250])}"
    return ""
