"""What is set of recommendations beyond "start this job here": a section for each subject, named as its file is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from .values import Duration, StrictSettings, WorkloadName

Size = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class RecommenderSettings(StrictSettings):
    """What every subject lets a site set; each adds its own keys. Unknown keys are errors."""

    enabled: bool = True
    every: Duration = 60.0
    """How often it is considered."""


class MovesSettings(RecommenderSettings):
    """How much may be moved for one job, and for whom it is worth it."""

    moves: Annotated[int, Field(ge=1, le=4)] = 3
    """Running jobs that are moved for one that waits, at most."""
    gain: Duration = 600.0
    """For a job that is expected to start within so long nothing is moved."""


class CurveSettings(StrictSettings):
    """Speeds that a site has measured itself."""

    name: str
    """Pattern of the job's name, as ``bert-*``."""
    user: str = "*"
    speeds: Annotated[dict[Size, Rate], Field(min_length=2)]
    """By number of GPUs, in any unit."""


class ElasticSettings(RecommenderSettings):
    """When readings count, and what a site knows by itself."""

    settle: Duration = 300.0
    """Time after a job's start in which it loads and compiles: its speed then is none."""
    curves: tuple[CurveSettings, ...] = ()
    """The first that fits a job is taken, in place of what was learned."""


class AllocationSettings(RecommenderSettings):
    """How use is measured, and what of it is left to a job."""

    every: Duration = 15.0
    """As often as the exporters are scraped: use is measured in this cycle."""
    window: Annotated[Duration, Field(gt=0)] = 1800.0
    """What a job has not used for so long may be offered to others."""
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.15
    """What a job is left above what it uses, as a share of that; Kubernetes' vertical autoscaler leaves as much."""
    starved: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of its CPUs in use from which a job counts as at its limit."""
    models: dict[str, WorkloadName] = {}
    """By pattern of job names, the model or task whose sensitivity is assumed until it is measured."""


class PowerCapsSettings(RecommenderSettings):
    """When speed and power of a run count, and what a lower power limit may cost."""

    settle: Duration = 300.0
    """Time after a job's start in which it loads and compiles: its speed then is none."""
    slower: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of its speed that a job may lose, by the far end of the interval."""


class CausesSettings(RecommenderSettings):
    """Whether causes of underused GPUs are looked for."""

    every: Duration = 15.0
    """As often as the exporters are scraped: what GPUs and servers do is measured in this cycle."""


class GpuSlicesSettings(RecommenderSettings):
    """How long use is looked at, and what is left above it."""

    window: Annotated[Duration, Field(gt=0)] = 3600.0
    """For so long all that a job holds must have been measured, and must have fitted a smaller part."""
    margin: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 0.25
    """What a job is left above the most that it used, as a share of that."""


class ReclaimSettings(RecommenderSettings):
    """Who is listed."""

    window: Duration = 1800.0
    """How long GPUs of a job must have done nothing, without a break."""


class RecommendersSettings(StrictSettings):
    """A section for each subject."""

    allocation: AllocationSettings = AllocationSettings()
    causes: CausesSettings = CausesSettings()
    elastic: ElasticSettings = ElasticSettings()
    gpu_slices: GpuSlicesSettings = GpuSlicesSettings()
    moves: MovesSettings = MovesSettings()
    power_caps: PowerCapsSettings = PowerCapsSettings()
    reclaim: ReclaimSettings = ReclaimSettings()

    def of(self, subject: str) -> RecommenderSettings:
        """Return the settings of a subject."""
        settings: RecommenderSettings = getattr(self, subject)
        return settings
