"""The classes into which every watt of every node falls, exactly once: one table, one row per class.

Page, style sheet, command line, dashboards, reports, metric help and tests come from it. To add a class, add a row
here, and to the judge of ``daemon/waste`` what decides on it.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal

Kind = Literal["wasted", "useful", "apart"]
"""What the watts are: power that did no work, power that did, and power of which neither is known."""

ModelPart = Literal["free", "held", "work", "host"]
"""What of a replay's power model the watts are fitted to: free GPUs, the idle part of held ones, their work, hosts."""

ALLOCATED = "allocated"
"""The state on a node of every GPU that a job holds, whatever it does with it."""


class PowerClass(StrEnum):
    """A class of power; its value is the label of metrics, API and database, and never changes."""

    _value_: str
    label: str
    """What people read."""
    kind: Kind
    color: str
    """One for all grounds: a contrast of at least 3:1 on white and on the dark of page and Grafana."""
    code: int | None
    """What ``idlewatt_gpu_state`` says of a GPU in this class; None for the classes of hosts. Never reused."""
    node_state: str
    """The coarser state of the GPU in a count by node; '' for the classes of hosts."""
    model_part: ModelPart
    remedy: str
    """What an operator can do about it; '' where nothing is to be done."""
    help: str
    """What it is, in one sentence."""

    # Only a value is looked up with less than a whole row.
    def __new__(cls, value: str, label: str = "", kind: Kind = "apart", color: str = "", code: int | None = None,
                node_state: str = "", model_part: ModelPart = "host", remedy: str = "", text: str = "") -> PowerClass:
        """Return the member of one row."""
        row = str.__new__(cls, value)
        row._value_, row.label, row.kind, row.color, row.code = value, label, kind, color, code
        row.node_state, row.model_part, row.remedy, row.help = node_state, model_part, remedy, text
        return row

    # Equal to its text, and found as fast: an enumeration's own hash is a call of Python for every GPU of every cycle.
    __hash__ = str.__hash__

    @property
    def wasted(self) -> bool:
        """Tell whether its watts are called wasted."""
        return self.kind == "wasted"

    @property
    def held(self) -> bool:
        """Tell whether it is a class of GPUs that jobs hold."""
        return self.node_state == ALLOCATED

    # In the order of reading: wasted, the most actionable first, then useful, then what is shown apart. Wasted is
    # warm, useful is cool; classes drawn side by side differ in lightness or hue.
    ALLOCATED_IDLE = (
        "allocated_idle", "Allocated, idle", "wasted", "#d93a32", 5, ALLOCATED, "held",
        "Ask the owner.", "Held by a job that does nothing.")
    ALLOCATED_HUNG = (
        "allocated_hung", "Suspected hung", "wasted", "#b04fc4", 6, ALLOCATED, "held",
        "Look at the job.", "Busy at the power of an idle GPU: a kernel is resident, the watts are not.")
    ALLOCATED_UNDERUSED = (
        "allocated_underused", "Allocated, low utilisation", "wasted", "#e2571e", 7, ALLOCATED, "held",
        "Fewer GPUs, MIG or another input pipeline.", "The idle share of a working GPU.")
    STRANDED = (
        "stranded", "Free but unusable", "wasted", "#c4800f", 3, "stranded", "free",
        "Place or defragment.", "Free, but no pending job fits.")
    IDLE_UNALLOCATED = (
        "idle_unallocated", "Free GPUs", "wasted", "#999000", 4, "idle", "free",
        "Power save, or pull jobs in.", "Free, and nobody waits for them.")
    NODE_OVERHEAD_EMPTY = (
        "node_overhead_empty", "Empty-node overhead", "wasted", "#96705f", None, "", "host",
        "Power the node down.", "CPUs, fans and losses of nodes without a job.")
    PRODUCTIVE = (
        "productive", "Productive", "useful", "#1a83b0", 8, ALLOCATED, "work",
        "", "GPUs at work.")
    HOST_ACTIVE = (
        "host_active", "Node overhead (CPU, fans)", "useful", "#4f9aa8", None, "", "host",
        "", "CPUs, fans and losses around GPUs that jobs hold.")
    PLANNED = (
        "planned", "Reserved for a job", "apart", "#6a78d1", 2, "planned", "free",
        "", "Held for a job that the scheduler will start, or that is just starting or ending there.")
    OUTSIDE_SCHEDULER = (
        "outside_scheduler", "In use outside the scheduler", "apart", "#4f9440", 9, "outside_scheduler", "host",
        "Ask whose process it is.", "Busy for minutes while the scheduler says that nobody holds it.")
    UNAVAILABLE = (
        "unavailable", "Out of service", "apart", "#66727f", 0, "unavailable", "host",
        "Repair.", "Nodes that are down, drained, in maintenance or powered down.")
    UNMEASURED = (
        "unmeasured", "Not measured", "apart", "#9590a0", 1, "unmeasured", "host",
        "Mend the telemetry.", "Watts that nobody can judge: GPUs without fresh readings, and the rest of "
        "their nodes.")


UNUSED_PART = "Unused part of busy nodes"
"""What everybody calls the part of class ``host_active`` that is on for GPUs that nobody uses."""

UNUSED_PART_HELP = ("Contained in the class above: what these nodes draw for GPUs that nobody uses. Pack jobs on fewer "
                    "nodes.")
"""What it is and what helps, as its row says below that of its class."""

WASTED = tuple(row for row in PowerClass if row.wasted)
"""The classes whose watts are called wasted."""

GPU_CLASSES = tuple(row for row in PowerClass if row.code is not None)
"""The classes that a GPU can be in; the others are the host's."""

NODE_STATES = tuple(dict.fromkeys(row.node_state for row in GPU_CLASSES))
"""The coarser states of a node's GPUs, each GPU in one."""

GPU_CODES = {row.value: row.code for row in sorted(GPU_CLASSES, key=lambda row: row.code or 0) if row.code is not None}
"""What ``idlewatt_gpu_state`` says, as a number: one series a GPU instead of one for each of its states."""
