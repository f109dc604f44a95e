"""What a page shows that is not what it is read for: in words for an operator who has to find the right one."""

from __future__ import annotations

import re
from collections import Counter

from prometheus_client.parser import text_string_to_metric_families

from ..storage.telemetry import Telemetry
from .page_limits import PageError
from .source import SourcePurpose
from .text import decode, quoted

_LOOKED_AT_BYTES = 262144
_SHOWN = 3
_NAME = re.compile(rb"^([a-zA-Z_:][a-zA-Z0-9_:]{0,100})[{ \t]", re.MULTILINE)
_OWN = ("go", "process", "promhttp", "python", "scrape", "http")
"""What the libraries of exporters tell of themselves: no word on what the page is."""
_EXPORTERS = {"DCGM": "dcgm-exporter", "node": "node_exporter", "ipmi": "ipmi_exporter", "cgroup": "cgroup_exporter",
              "slurm": "an exporter of Slurm", "prometheus": "Prometheus itself",
              "redfish": "a Redfish exporter", "nvidia": "nvidia_gpu_exporter",
              "habanalabs": "Intel's Gaudi metric exporter", "amd": "an exporter of AMD GPUs",
              "gpu": "AMD's device-metrics-exporter"}


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
    telling = [name for name in names if name.partition("_")[0] not in _OWN] or names
    prefix = Counter(name.partition("_")[0] for name in telling).most_common(1)[0][0]
    whose = f" (is this {_EXPORTERS[prefix]}?)" if prefix in _EXPORTERS else ""
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return f"it shows {', '.join(telling[:_SHOWN])}{more}{whose}"


def no_exposition(page: bytes) -> str:
    """Return why a page without our metrics is no exposition at all; '' where it is one."""
    start = page[:_LOOKED_AT_BYTES].rpartition(b"\n")[0]
    try:
        for _ in text_string_to_metric_families(decode(start)):
            pass
    except (ValueError, OverflowError, IndexError):
        return f"not Prometheus' text format: {quoted(page[1:250])}"
    return ""
