"""What NVIDIA's workload power profiles (Blackwell and later) would save and cost jobs, by what a site has measured.

No exporter reports which profile a GPU has: DCGM's masks are binary, and dcgm-exporter cannot print them. A site that
has run like jobs without and with a profile therefore names both in its configuration; other jobs get no such advice.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase

from ...storage.power_caps import PowerCap
from ...storage.records import Job
from ...storage.telemetry import GpuReading
from ..settings.recommenders import MeasuredRunSettings, PowerCapsSettings, PowerProfileSettings
from ..waste.hardware import words_of
from .welch import lost

NVIDIA = "GPU-"
"""How the uuids of NVIDIA's GPUs begin."""
STEP_WATTS = 5.0
"""Limits that differ by less are one."""


def best_profile(job: Job, gpus: Sequence[GpuReading | None], settings: PowerCapsSettings,
                 now_s: float) -> PowerCap | None:
    """Return the profile that saves a running job most for sure; None where none was measured, or none is worth it."""
    known = [gpu for gpu in gpus if gpu is not None and gpu.uuid.startswith(NVIDIA)]
    if not known or len(known) != len(gpus):
        return None
    rows = [_row(job, known, profile, now_s) for profile in settings.profiles if _fits(profile, job, known)]
    significant = [row for row in rows if row.saves_interval[0] > 0 and row.slower_interval[1] <= settings.slower]
    return max(significant, key=lambda row: row.saves_interval[0], default=None)


def enforcing(profiles: Iterable[PowerProfileSettings], gpus: Iterable[GpuReading],
              limit_watts: float) -> PowerProfileSettings | None:
    """Return the profile that shows as this power limit on these GPUs; None where the site names none."""
    models = [gpu.model for gpu in gpus]
    shown = (profile
             for profile in profiles if profile.limit is not None and abs(profile.limit - limit_watts) < STEP_WATTS)
    return next((profile for profile in shown if all(_is(profile, name) for name in models)), None)


def called(profile: PowerProfileSettings) -> str:
    """Return how a profile is called: its number as ``nvidia-smi power-profiles -l`` counts, and the site's name."""
    return f"{profile.profile} {profile.name}".strip()


def commands(gpus: Iterable[GpuReading], command: str) -> Iterator[str]:
    """Yield for each node what runs ``command`` there; ``{gpus}`` in the command stands for the node's GPUs."""
    nodes: dict[str, list[int]] = {}
    for gpu in gpus:
        nodes.setdefault(gpu.node, []).append(gpu.index)
    for node, indexes in nodes.items():
        yield f"ssh {shlex.quote(node)} {command.format(gpus=','.join(map(str, sorted(indexes))))}"


def setting(profile: PowerProfileSettings) -> str:
    """Return what asks for a profile, for ``commands``."""
    return f"nvidia-smi power-profiles -i {{gpus}} -sr {profile.profile}"


def _fits(profile: PowerProfileSettings, job: Job, gpus: Sequence[GpuReading]) -> bool:
    """Tell whether a profile was measured for such a job, and its GPUs do not show that they have it."""
    return (bool(profile.usual) and fnmatchcase(job.name, profile.jobs) and fnmatchcase(job.user, profile.user)
            and profile.gpus in {None, len(gpus)} and all(_is(profile, gpu.model) for gpu in gpus)
            and not any(profile.limit is not None and gpu.power_limit_watts is not None
                        and gpu.power_limit_watts < profile.limit + STEP_WATTS for gpu in gpus))


def _is(profile: PowerProfileSettings, model: str) -> bool:
    return words_of(profile.model) <= words_of(model)


def _row(job: Job, gpus: Sequence[GpuReading], profile: PowerProfileSettings, now_s: float) -> PowerCap:
    saves, saves_interval = lost(_energies(profile.under), _energies(profile.usual))
    slower, slower_interval = lost([run.speed for run in profile.under], [run.speed for run in profile.usual])
    limits = {gpu.power_limit_watts for gpu in gpus}
    return PowerCap(
        job.job_id, job.submit_s, job.partition, job.user, now_s, tuple(part.node for part in job.allocations),
        len(gpus), limits.pop() if len(limits) == 1 else None, profile.limit, saves, saves_interval, slower,
        slower_interval, (len(profile.under), len(profile.usual)), None, tuple(commands(gpus, setting(profile))),
        profile=called(profile))


def _energies(runs: Iterable[MeasuredRunSettings]) -> list[float]:
    """Return watts by speed: the energy for the same work."""
    return [run.watts / run.speed for run in runs]
