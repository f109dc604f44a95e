"""The class of one GPU: where its watts go while it is free, and while a job holds it."""

from __future__ import annotations

from ...storage.power_classes import PowerClass
from ...storage.telemetry import NO_DETAIL, GpuDetail
from ..settings.waste import WasteSettings
from .readings import WatchedGpu

UNIT_WORKS = 0.001
"""Activity of a computing unit or of the memory from which kernels do something: waiting ones show 0.00001 or less."""
LINK_WORKS = 100e6
"""Bytes per second over PCIe or NVLink from which something is moved: an idle GPU shows 1 MB/s."""


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


def does_nothing(activity: float, busy: float | None, settings: WasteSettings) -> bool:
    """Tell whether a GPU does nothing: neither do its SMs work, nor is there a kernel for more than that time.

    Kernels of one block keep one SM of more than a hundred active, however long they run.
    """
    return activity <= settings.epsilon and (busy is None or busy <= settings.epsilon)


def does_something(detail: GpuDetail) -> bool:
    """Tell whether any unit that is measured computes or moves bytes."""
    units = (detail.tensor_active, detail.fp32_active, detail.fp64_active, detail.dram_active)
    links = (detail.pcie_bytes_per_s, detail.nvlink_bytes_per_s)
    return (any(one is not None and one >= UNIT_WORKS for one in units)
            or any(one is not None and one >= LINK_WORKS for one in links))


def looks_hung(watts: float, busy: float | None, floor: float | None, limit: float | None,
               settings: WasteSettings, detail: GpuDetail = NO_DETAIL) -> bool:
    """Tell whether a GPU is busy at idle draw: ``u >= 0.95`` and ``p <= c + 0.1 (L - c)``, and no unit does anything.

    Where its units are not measured, a live job bound by kernel launches can look the same; show it as suspected.
    """
    if does_something(detail):
        return False
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
