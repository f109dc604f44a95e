"""What the accounting takes for granted, each value with the reason to change it."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from .values import Duration, Ratio, Seconds, StrictSettings, Watts

MAKERS = frozenset(("nvidia", "tesla", "amd", "instinct", "intel", "habana", "gaudi"))
"""Words that name a maker: tools and schedulers write them or leave them out, so that they name no GPU model."""


def _names_a_model(text: str) -> str:
    if not set(re.findall(r"[a-z0-9]+", text.lower())) - MAKERS:
        raise ValueError("names no GPU model, and would be meant for all of them")
    return text


ModelName = Annotated[str, AfterValidator(_names_a_model)]


class ModelSettings(StrictSettings):
    """What is known of a GPU model beyond our catalogue; leave out what is not known."""

    bare_watts: Watts | None = None
    """Draw with no context on the GPU."""
    context_watts: Watts | None = None
    """Draw with a context resident and nothing running."""
    limit_watts: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Enforced power limit, for exporters that do not tell it."""

    @model_validator(mode="after")
    def _in_order(self) -> ModelSettings:
        given = [(name, watts) for name in ("bare_watts", "context_watts", "limit_watts")
                 if (watts := getattr(self, name)) is not None]
        for (less, low), (more, high) in zip(given, given[1:], strict=False):
            if low > high:
                raise ValueError(f"{less} of {low:g} is above {more} of {high:g}")
        return self


class EnclosureSettings(StrictSettings):
    """A rack whose power shelves or PDUs are metered."""

    nodes: tuple[str, ...]
    """Names of the servers or trays in it, or patterns: ``rack7-tray*``."""
    switch_watts: Watts = 0.0
    """What its NVLink switch trays draw, which no job holds; an NVL72's nine about 3,600 W (assumed)."""
    rated_watts: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """More than this is a lie of its meter."""

    def holds(self, node: str) -> bool:
        """Tell whether a node is in it."""
        return any(fnmatchcase(node, pattern) for pattern in self.nodes)


class WasteSettings(StrictSettings):
    """How watts are put into classes. The defaults are assumed, not measured at your site."""

    epsilon: Ratio = 0.02
    """Activity up to which a GPU does nothing. Raise it where monitoring agents keep GPUs at a few per cent."""
    window: Seconds = 600.0
    """How long an allocated GPU must do nothing (or look hung) before it counts as such."""
    grace_batch: Seconds = 900.0
    """Time after its start in which a batch job may stage data. Raise it where staging takes longer."""
    grace_interactive: Seconds = 3600.0
    """The same for jobs of ``interactive_partitions``: people read and think between runs."""
    interactive_partitions: tuple[str, ...] = ()
    hung_margin: Ratio = 0.1
    """A busy GPU is suspect below context idle + this share of the way to its power limit."""
    hung_activity: Ratio = 0.95
    """Share of time a kernel must be resident for a GPU to be 'busy'."""
    productive_activity: Ratio = 0.5
    """Activity from which a GPU is *counted* as productive instead of underused; watts are split, not counted."""
    gap_factor: Annotated[float, Field(ge=1)] = 2.5
    """Readings older than this many sampling intervals are not measured, and no energy is integrated across."""
    wall_max_age: Duration = 150.0
    """Age up to which a wall meter is believed; service processors are often read once a minute."""
    wall_estimate_max_age: Duration = 3600.0
    """How long the host of a meter that fell silent counts with its last watts, as an estimate that is unmeasured."""
    outside_after: Duration = 120.0
    """How long a GPU must work that nobody holds before it counts as used outside the scheduler; longer than a job
    takes to appear in the scheduler's answer, or to leave its GPU."""
    scheduler_max_age: Duration = 600.0
    """Age up to which the scheduler's answer is believed; later the holders are unknown: all is unmeasured."""
    driver_reserve_bytes: Annotated[int, Field(ge=0)] = 64 * 2**20
    """Memory in use on a GPU without any context; drivers before 510 count a few hundred MiB of their own."""
    context_extra_watts: Watts = 40.0
    """What a resident context adds to the bare draw until it is learned (literature: 26 to 50 W on HBM GPUs)."""
    floor_quantile: Annotated[float, Field(gt=0, lt=1)] = 0.05
    """The quantile of idle samples that is called the floor."""
    floor_samples: Annotated[int, Field(ge=1)] = 20
    """Idle samples needed before a learned floor is believed."""
    models: dict[ModelName, ModelSettings] = {}
    """Floors and limits by GPU model: whole words of the vendor's name (``A100-SXM4-80GB``, ``B200``: no GB200)."""
    host_overhead_watts: dict[str, Watts] = {}
    """Draw of a node beside its GPUs, by node name pattern (``dgx-*``), for nodes without a wall meter."""
    rated_node_watts: dict[str, Watts] = {}
    """Rated draw by node name pattern, for the paper's inefficient power; else that of a DGX, from the catalogue."""
    enclosures: dict[str, EnclosureSettings] = {}
    """Racks by the name that their meters have as label ``enclosure``."""
    pue: Annotated[float, Field(ge=1, allow_inf_nan=False)] | None = None
    """Power usage effectiveness of the site: exported as it is, multiplied into nothing."""
    job_series: Annotated[int, Field(ge=0, le=100)] = 10
    """Running jobs that are published one by one, those that waste most: three series each, and new ones for every job
    that comes among them; 0 publishes none, and the alert by job is silent."""
    utilization_window: Duration = 86400.0
    """Sliding window of the paper's utilisation, Eq. (4)."""
