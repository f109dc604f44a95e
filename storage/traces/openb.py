"""Pods of Alibaba's openb cluster (cluster-trace-gpu-v2023; Weng et al., ATC'23)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .formats import register
from .table import TableFormat, Values, number, text

MEBIBYTE = 1 << 20


def _times(values: Values) -> dict[str, npt.NDArray[np.bool_]]:
    """Take the time from schedule (creation, where a pod was never scheduled) to deletion as the run time."""
    rows = len(values["gpus"])
    if "submit_s" not in values:  # the derived workloads have sizes only: nothing to replay in time
        return {"no times: only sizes": np.ones(rows, bool)}
    values["run_s"] = values["_deleted"] - values["start_s"]
    never = np.isnan(values["start_s"])
    values["run_s"][never] = np.nan
    # CPU-only pods carry a meaningless gpu_milli of 0.
    values["cpus"] = np.ceil(values["_cpu_milli"] / 1000)
    values["gpu_milli"] = np.where(values["gpus"] > 0, values["gpu_milli"], np.nan)
    return {"never scheduled": never}


register(TableFormat("openb", {
    "id": text("name"), "_cpu_milli": number("cpu_milli"), "mem_bytes": number("memory_mib", MEBIBYTE),
    "gpus": number("num_gpu"), "gpu_milli": number("gpu_milli"), "gpu_model": text("gpu_spec", required=False),
    "state": text("pod_phase", required=False), "partition": text("qos", required=False),
    "submit_s": number("creation_time", required=False), "start_s": number("scheduled_time", required=False),
    "_deleted": number("deletion_time", required=False),
}, finish=_times))
