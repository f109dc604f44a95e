"""Shanghai AI Laboratory's Acme (Hu et al., NSDI'24): ``trace_seren.csv`` and ``trace_kalos.csv`` of AcmeTrace."""

from __future__ import annotations

from .formats import register
from .table import TableFormat, clock, number, text

register(TableFormat("acme", {
    "id": text("job_id"), "user": text("user", required=False), "name": text("type"), "state": text("state"),
    "nodes": number("node_num"), "gpus": number("gpu_num"), "cpus": number("cpu_num"),
    "submit_s": clock("submit_time"), "start_s": clock("start_time", required=False), "run_s": number("duration"),
}))
