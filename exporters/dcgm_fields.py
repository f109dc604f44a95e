"""Which of DCGM's fields are read, under both their names, and in which units.

DCGM 4.6 renamed its fields; dcgm-exporter prints whichever name its counters file has. Field ids and units did not
change with the names: 203 is a whole number of percent still, though it is called GPU_UTIL_RATIO now.
"""

from __future__ import annotations

from .facts import (
    Reader,
    bytes_of_mebibytes,
    gpu_watts,
    hertz_of_megahertz,
    joules_of_millijoules,
    measured,
    ratio,
    seconds_of_nanoseconds,
)

POWER = ("DCGM_FI_DEV_POWER_USAGE_INSTANT", "DCGM_FI_DEV_POWER_USAGE")
ENERGY = "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
UTILIZATION = "DCGM_FI_DEV_GPU_UTIL"
ACTIVITY = {"DCGM_FI_PROF_SM_ACTIVE": "sm_active", "DCGM_FI_PROF_GR_ENGINE_ACTIVE": "gr_engine_active",
            UTILIZATION: "gpu_util"}
"""Best first: GPU_UTIL only says that some kernel was resident."""
RESIDENT = (UTILIZATION, "DCGM_FI_PROF_GR_ENGINE_ACTIVE")
USED, FREE, RESERVED, TOTAL = (f"DCGM_FI_DEV_FB_{part}" for part in ("USED", "FREE", "RESERVED", "TOTAL"))
TEMPERATURE, MEMORY_TEMPERATURE = "DCGM_FI_DEV_GPU_TEMP", "DCGM_FI_DEV_MEMORY_TEMP"
LIMIT = ("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", "DCGM_FI_DEV_POWER_MGMT_LIMIT")
LIMIT_DEFAULT, LIMIT_MIN = "DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", "DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN"
OCCUPANCY, TENSOR, DRAM = ("DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE",
                           "DCGM_FI_PROF_DRAM_ACTIVE")
ENGINE, FP32, FP64 = ("DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_PROF_PIPE_FP32_ACTIVE",
                      "DCGM_FI_PROF_PIPE_FP64_ACTIVE")
PCIE = ("DCGM_FI_PROF_PCIE_TX_BYTES", "DCGM_FI_PROF_PCIE_RX_BYTES")
NVLINK = ("DCGM_FI_PROF_NVLINK_TX_BYTES", "DCGM_FI_PROF_NVLINK_RX_BYTES")
SM_CLOCK, MEMORY_CLOCK = "DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK"
REASONS = "DCGM_FI_DEV_CLOCKS_EVENT_REASONS"
XID = "DCGM_FI_DEV_XID_ERRORS"
FABRIC, CLIQUE = "DCGM_FI_DEV_FABRIC_CLUSTER_UUID", "DCGM_FI_DEV_FABRIC_CLIQUE_ID"
"""The NVLink fabric of a GPU: a text, which dcgm-exporter shows as a label of every row, and a number, as label or
metric."""
_SLOWED = "DCGM_FI_DEV_CLOCKS_EVENT_REASON_"
SLOWED_BY_POWER = (f"{_SLOWED}SW_POWER_CAP_NS", f"{_SLOWED}HW_POWER_BRAKE_SLOWDOWN_NS")
SLOWED_BY_HEAT = (f"{_SLOWED}SW_THERM_SLOWDOWN_NS", f"{_SLOWED}HW_THERM_SLOWDOWN_NS")

_OLD: dict[str, Reader] = {
    **dict.fromkeys((*POWER, *LIMIT, LIMIT_DEFAULT, LIMIT_MIN), gpu_watts),
    ENERGY: joules_of_millijoules,
    **dict.fromkeys((*ACTIVITY, OCCUPANCY, TENSOR, DRAM, FP32, FP64), ratio),
    UTILIZATION: measured,  # percent or not is judged by the whole page
    **dict.fromkeys((USED, FREE, RESERVED, TOTAL), bytes_of_mebibytes),
    **dict.fromkeys((TEMPERATURE, MEMORY_TEMPERATURE, REASONS, XID, CLIQUE, *PCIE, *NVLINK), measured),
    **dict.fromkeys((SM_CLOCK, MEMORY_CLOCK), hertz_of_megahertz),
    **dict.fromkeys((*SLOWED_BY_POWER, *SLOWED_BY_HEAT), seconds_of_nanoseconds),
}
RENAMED = {
    "DCGM_FI_DEV_BOARD_POWER_WATTS": "DCGM_FI_DEV_POWER_USAGE",
    "DCGM_FI_DEV_BOARD_POWER_RAW_WATTS": "DCGM_FI_DEV_POWER_USAGE_INSTANT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_ENFORCED_WATTS": "DCGM_FI_DEV_ENFORCED_POWER_LIMIT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_REQUESTED_WATTS": "DCGM_FI_DEV_POWER_MGMT_LIMIT",
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_DEFAULT_WATTS": LIMIT_DEFAULT,
    "DCGM_FI_DEV_BOARD_POWER_LIMIT_MIN_WATTS": LIMIT_MIN,
    "DCGM_FI_DEV_GPU_UTIL_RATIO": UTILIZATION,
    "DCGM_FI_DEV_GPU_TEMP_CELSIUS": TEMPERATURE,
    "DCGM_FI_DEV_MEMORY_TEMP_CELSIUS": MEMORY_TEMPERATURE,
    "DCGM_FI_DEV_XID_ERROR": XID,
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": REASONS,
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": "DCGM_FI_PROF_GR_ENGINE_ACTIVE",
    "DCGM_FI_PROF_SM_UTIL_RATIO": "DCGM_FI_PROF_SM_ACTIVE",
    "DCGM_FI_PROF_SM_OCCUPANCY_RATIO": OCCUPANCY,
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": TENSOR,
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": DRAM,
    "DCGM_FI_PROF_FP32_UTIL_RATIO": FP32,
    "DCGM_FI_PROF_FP64_UTIL_RATIO": FP64,
}
"""Names of DCGM 4.6 and later, with those of before (and one that DCGM 3 gave up)."""
METRICS: dict[str, Reader] = _OLD | {new: _OLD[old] for new, old in RENAMED.items()}
"""Every metric that is read, with what turns its number into our units."""
FACTS: dict[str, tuple[str, ...]] = {
    old: (old, *(new for new, other in RENAMED.items() if other == old)) for old in _OLD}
"""All names of each fact, by the one that it bears here."""

SHARES = frozenset(name for name in (*ACTIVITY, OCCUPANCY, TENSOR, DRAM, FP32, FP64) if "_PROF_" in name)
"""Ratios that a MIG instance has of its own slices."""
OWN = SHARES | {USED, FREE, RESERVED, TOTAL, *PCIE, *NVLINK}
"""What a MIG instance has for itself; everything else on its rows is the GPU's, repeated."""

_REASONS = {0x4: "power", 0x8: "slowdown", 0x20: "heat", 0x40: "heat", 0x80: "power_brake"}
"""Bits of the reasons for which the clocks are low; idle, settings, boost groups and displays are no throttling."""


def reasons(bits: float | None) -> tuple[str, ...] | None:
    """Return why the clocks are held down, in words; () for no reason, None where nobody tells."""
    return None if bits is None else tuple(sorted({word for bit, word in _REASONS.items() if int(bits) & bit}))
