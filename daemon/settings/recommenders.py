"""What is set of recommendations beyond "start this job here": a section for each recommender, named as its file is."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from .values import Duration, StrictSettings, WorkloadName

Size = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
LEAST_RUNS = 3
"""Runs on each side before two ways to run are compared."""


class RecommenderSettings(StrictSettings):
    """What every recommender lets a site set; each adds its own keys. Unknown keys are errors."""

    enabled: bool = True
    every: Duration = 60.0
    """How often it is considered."""


class MovesSettings(RecommenderSettings):
    """How much may be moved for one job, and for which jobs it is worth it."""

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
    """The model or task whose sensitivity is assumed until it is measured, by pattern of job names."""


class MeasuredRunSettings(StrictSettings):
    """What a site has measured of one run."""

    watts: Annotated[float, Field(gt=0, le=100_000)]
    """Mean power of each of its GPUs."""
    speed: Annotated[float, Field(ge=1e-9, le=1e15)]
    """In any unit, but the same in all runs of a profile."""


class PowerProfileSettings(StrictSettings):
    """A workload power profile of NVIDIA's (Blackwell and later), and what like runs did without and with it."""

    profile: Annotated[int, Field(ge=0, le=254)]
    """Its number as ``nvidia-smi power-profiles -l`` counts (out of band it is 3 higher)."""
    name: Annotated[str, Field(max_length=40, pattern=r"^[\w .+-]*$")] = ""
    """What it is called there, as ``Max-Q``."""
    model: Annotated[str, Field(min_length=1)]
    """Words that the names of its GPUs have, as ``B200``: a GB200 is none."""
    jobs: str
    """Pattern of the names of jobs for which it was measured, as ``train-*``."""
    user: str = "*"
    gpus: Size | None = None
    """Only jobs of so many GPUs."""
    limit: Annotated[float, Field(gt=0, le=100_000)] | None = None
    """Power limit that exporters show on GPUs that have it, in watts: such GPUs get no command, and where idlewatt
    itself has measured like runs under this limit, it advises the profile and not the limit."""
    usual: tuple[MeasuredRunSettings, ...] = ()
    """Runs without it; at least three, where there are any."""
    under: tuple[MeasuredRunSettings, ...] = ()
    """Runs with it; at least three, where there are any."""

    @model_validator(mode="after")
    def _measured(self) -> PowerProfileSettings:
        """Refuse a comparison with too few runs, and a profile that nothing is known of."""
        fewest = min(len(self.usual), len(self.under))
        if (self.usual or self.under) and fewest < LEAST_RUNS:
            raise ValueError(f"a profile is compared by {LEAST_RUNS} runs or more without it (usual) and with (under)")
        if not self.usual and self.limit is None:
            raise ValueError("of a profile either runs without and with it are named, or the limit by which it shows")
        return self


class PowerCapsSettings(RecommenderSettings):
    """When speed and power of a run count, and what a lower power limit may cost."""

    settle: Duration = 300.0
    """Time after a job's start in which it loads and compiles: its speed then is none."""
    slower: Annotated[float, Field(ge=0, lt=1)] = 0.05
    """Share of its speed that a job may lose, by the far end of the interval."""
    profiles: tuple[PowerProfileSettings, ...] = ()
    """Workload power profiles that the site has tried."""


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


class PowerDownSettings(RecommenderSettings):
    """How much of the past is looked at, and what a node costs that is down."""

    every: Duration = 600.0
    past: Annotated[Duration, Field(gt=0)] = 28 * 86400.0
    """When nodes were in use is read back as far."""
    wake: Duration = 600.0
    """Time that a node takes to come up again, in which nothing is saved."""
    standby: Annotated[float, Field(ge=0, allow_inf_nan=False)] = 20.0
    """Watts of a node that is powered down."""


class ReclaimSettings(RecommenderSettings):
    """Which jobs are listed."""

    window: Duration = 1800.0
    """How long GPUs of a job must have done nothing, without a break."""


class RecommendersSettings(StrictSettings):
    """A section for each recommender."""

    allocation: AllocationSettings = AllocationSettings()
    causes: CausesSettings = CausesSettings()
    elastic: ElasticSettings = ElasticSettings()
    gpu_slices: GpuSlicesSettings = GpuSlicesSettings()
    moves: MovesSettings = MovesSettings()
    power_caps: PowerCapsSettings = PowerCapsSettings()
    power_down: PowerDownSettings = PowerDownSettings()
    reclaim: ReclaimSettings = ReclaimSettings()

    def of(self, name: str) -> RecommenderSettings:
        """Return the settings of a recommender."""
        settings: RecommenderSettings = getattr(self, name)
        return settings
