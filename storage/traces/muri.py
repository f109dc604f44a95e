"""Muri's traces (Zhao et al., SIGCOMM'22), and those of Tiresias (Gu et al., NSDI'19) from which their layout comes."""

from __future__ import annotations

from .formats import register
from .table import TableFormat, number, text

# Milliseconds. The stage times are read by the replay of Muri's own results alone.
register(TableFormat("muri", {
    "id": text("job_id"), "gpus": number("num_gpu"), "submit_s": number("submit_time", 1e-3),
    "run_s": number("duration", 1e-3), "name": text("model_name"), "_iteration": number("iteration_time"),
    "_stages": number("resource_time_0"),
}))

# Seconds.
register(TableFormat("tiresias", {
    "id": text("job_id"), "gpus": number("num_gpu"), "submit_s": number("submit_time"), "run_s": number("duration"),
    "name": text("model_name"), "_interval": number("interval"),
}))
