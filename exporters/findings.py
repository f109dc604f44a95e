"""Whether a page shows what its source is for, and what it shows instead, in words for people."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from ..storage.telemetry import Telemetry
from .limits import Look, PageError
from .text import decode

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


class SourcePurpose(NamedTuple):
    """What a source is for: its word, and how to tell that it is there."""

    word: str
    there: Callable[[Telemetry], bool]


GPU = SourcePurpose("GPU", lambda telemetry: bool(telemetry.gpus))
SERVER = SourcePurpose("server", lambda telemetry: bool(telemetry.nodes))
METER = SourcePurpose("power meter", lambda telemetry: any(node.power_watts is not None for node in telemetry.nodes))


def check_found(telemetry: Telemetry, wanted: SourcePurpose | None, page: bytes, look: Look, gpu_limit: int) -> None:
    """Raise ``PageError`` where a page shows nothing of what it is read for, or more GPUs than a target may have."""
    if len(telemetry.gpus) > gpu_limit:
        raise PageError(f"shows {len(telemetry.gpus)} GPUs, more than {gpu_limit} (gpu_limit)")
    if wanted and not wanted.there(telemetry):
        old = f" but {look.stale} samples whose own timestamps are too old (max_age)" if look.stale else ""
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
