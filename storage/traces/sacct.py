r"""Slurm's accounting as text.

    sacct -a -X -P -S 2026-01-01 \
        -o JobID,JobName,User,Partition,State,Submit,Start,ElapsedRaw,TimelimitRaw,AllocTRES,ReqTRES

Times are taken as UTC; ``SLURM_TIME_FORMAT=%s`` avoids the hour that repeats in autumn. Job steps are set aside.
"""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow.compute as compute

from .formats import register
from .table import Column, TableFormat, Values, clock, number, plain, respelt, text
from .trace import TraceError

MINUTE = 60.0
UNITS = {"": 1 << 20, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40, "P": 1 << 50}
"""Slurm's memory without a unit is in mebibytes."""
_GPU = re.compile(r"gres/gpu(?::([^=,]+))?=([\d_]+)")


def elapsed(cell: str) -> float:
    """Return the seconds of ``[DD-]HH:MM:SS``."""
    if "_" in cell:  # int() would read digit groups
        raise ValueError(f"no time: {cell}")
    days, _, rest = cell.rpartition("-")
    hours, minutes, seconds = rest.split(":")
    return int(days or 0) * 86400 + int(hours) * 3600 + int(minutes) * 60 + float(seconds)


def limit(cell: str) -> float:
    """Return the seconds of a limit in minutes; NaN when there is none or the partition's holds."""
    return float("nan") if cell.upper() in ("UNLIMITED", "PARTITION_LIMIT", "INFINITE") else plain(cell) * MINUTE


def tres(cell: str, name: str) -> float:
    """Return the amount of one trackable resource, e.g. ``mem`` of ``cpu=4,mem=32G``; NaN when it is not named."""
    for part in cell.split(","):
        key, _, amount = part.partition("=")
        if key == name:
            unit = amount[-1] if amount[-1:].isalpha() else ""
            if name == "mem" and unit not in UNITS:
                raise ValueError(f"no unit of memory: {unit}")
            return plain(amount.removesuffix(unit)) * (UNITS[unit] if name == "mem" else 1)
    return float("nan")


def gpus(cell: str) -> float:
    """Return the GPUs of a list of trackable resources; typed ones count only where no total is given."""
    counts = _GPU.findall(cell)
    totals = [plain(count) for model, count in counts if not model]
    return totals[0] if totals else float(sum(plain(count) for _, count in counts))


def _finish(values: Values) -> dict[str, npt.NDArray[np.bool_]]:
    for column in ("cpus", "mem_bytes", "nodes", "gpus"):
        kinds = [values[source] for source in (f"_alloc_{column}", f"_req_{column}") if source in values]
        if kinds:  # what was given, else what was requested
            values[column] = np.where(np.isnan(kinds[0]), kinds[-1], kinds[0])
    values["run_s"] = values.get("_raw", values.get("_elapsed"))
    if "gpus" not in values or values["run_s"] is None:
        raise TraceError("tells no GPUs or no run time; ask sacct for ElapsedRaw, AllocTRES and ReqTRES as well")
    steps = compute.match_substring(values["id"], ".").fill_null(False).to_numpy(zero_copy_only=False)
    values["state"] = respelt(values["state"], lambda state: state.partition(" ")[0])
    if "_tres" in values:
        values["gpu_model"] = respelt(values["_tres"], _model)
    pending = np.isin(values["state"].to_pylist(), ["PENDING", "RUNNING", "SUSPENDED", "REQUEUED", "RESIZING"])
    return {"job step": steps, "not finished": pending, "ended within its first second": values["run_s"] == 0}


def _model(cell: str) -> str | None:
    models = {model for model, _ in _GPU.findall(cell) if model}
    return models.pop() if len(models) == 1 else None


def _tres(prefix: str, header: str) -> dict[str, Column]:
    names = {"cpus": "cpu", "mem_bytes": "mem", "nodes": "node"}
    columns = {f"{prefix}{column}": Column(header, partial(tres, name=name), required=False)
               for column, name in names.items()}
    return {**columns, f"{prefix}gpus": Column(header, gpus, required=False)}


register(TableFormat("sacct", {
    "id": text("JobID"), "name": text("JobName", required=False), "user": text("User", required=False),
    "partition": text("Partition", required=False), "state": text("State"), "submit_s": clock("Submit"),
    "start_s": clock("Start", required=False), "limit_s": Column("TimelimitRaw", limit, required=False),
    "_raw": number("ElapsedRaw", required=False), "_elapsed": Column("Elapsed", elapsed, required=False),
    "_tres": text("AllocTRES", required=False), **_tres("_alloc_", "AllocTRES"), **_tres("_req_", "ReqTRES"),
}, finish=_finish, delimiters="|", quoted=False, ids_recur=True))
