"""Where the watts go: every watt of every node in exactly one class, the classes adding up to the wall meter.

readings + holders -> nodes (GPUs, walls) + stranded -> accountant -> assessment; energy, learned floors (hardware), the
demand mix and utilization outlive the cycle. ``WasteAccountant`` is the door.
"""

from ..settings.waste import WasteSettings
from .accountant import WasteAccountant
from .assessment import NO_PARTITION, Assessment, GpuVerdict, HeldRun, NodeVerdict, Utilization, gpus_by_run, run_of
from .energy import Closed

__all__ = ["NO_PARTITION", "Assessment", "GpuVerdict", "Closed", "HeldRun", "NodeVerdict", "Utilization",
           "WasteAccountant", "WasteSettings", "gpus_by_run", "run_of"]
