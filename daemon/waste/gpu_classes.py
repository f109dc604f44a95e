"""The class of one GPU: where its watts go while it is free, and while a job holds it."""

from __future__ import annotations

from ...storage.power_classes import PowerClass
from ..settings.waste import WasteSettings
from .readings import WatchedGpu


def allocated(watts: float, activity: float, floor: float | None, *, quiet: bool, hung: bool,
              settings: WasteSettings) -> tuple[PowerClass, float]:
    """Return the state of an allocated GPU and how many of its watts are wasted.

    An underused GPU wastes the part of its *floor* that bought no work, ``min(p, c) * (1 - u)``; what it draws above
    the floor is credited to the job. A quiet or hung GPU could have been released, so it wastes all it draws.
    Without a known floor nothing is blamed on the job.

    Args:
        watts: draw of the GPU, p.
        activity: share of time it worked, u.
        floor: draw with a context and no work, c.
        quiet: it did nothing throughout the trailing window.
        hung: it was busy at idle draw throughout the trailing window.
        settings: the thresholds.
    """
    if quiet:
        return PowerClass.ALLOCATED_IDLE, watts
    if hung:
        return PowerClass.ALLOCATED_HUNG, watts
    wasted = min(watts, floor) * (1.0 - activity) if floor is not None else 0.0
    if activity >= settings.productive_activity:
        return PowerClass.PRODUCTIVE, wasted
    return PowerClass.ALLOCATED_UNDERUSED, wasted


def free(watts: float, *, planned: bool, stranded: bool, outside: bool = False) -> tuple[PowerClass, float]:
    """Return the state of a free GPU of an up node and how many of its watts are wasted."""
    if outside:
        return PowerClass.OUTSIDE_SCHEDULER, 0.0
    if planned:
        return PowerClass.PLANNED, 0.0
    return (PowerClass.STRANDED if stranded else PowerClass.IDLE_UNALLOCATED), watts


def looks_hung(watts: float, busy: float | None, floor: float | None, limit: float | None,
               settings: WasteSettings) -> bool:
    """Tell whether a GPU is busy at idle draw: ``u >= 0.95`` and ``p <= c + 0.1 (L - c)``.

    A live job bound by kernel launches can look the same; show it as suspected.
    """
    if busy is None or floor is None or limit is None or limit <= floor:
        return False
    return busy >= settings.hung_activity and watts <= floor + settings.hung_margin * (limit - floor)


def at_work(gpu: WatchedGpu, context_watts: float | None, limit_watts: float | None, settings: WasteSettings) -> bool:
    """Tell whether a GPU works: by its activity, else by watts well above those of an idle context."""
    if gpu.activity is not None or gpu.busy is not None:
        return (gpu.activity or 0.0) > settings.epsilon or (gpu.busy or 0.0) >= settings.hung_activity
    if gpu.watts is None or context_watts is None or limit_watts is None:
        return False
    return gpu.watts > context_watts + settings.hung_margin * max(0.0, limit_watts - context_watts)
