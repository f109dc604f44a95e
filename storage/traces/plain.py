"""Plain CSV, so that anyone can bring a history.

    job,submit_s,run_s,gpus[,limit_s,user,partition,cpus,mem_bytes,nodes]

The columns may stand in any order, separated by commas, semicolons, tabs or bars; others are not read, but for
``start_s,gpu_milli,name,state,gpu_model,after``: a job waits until the one named in ``after`` has ended.
"""

from __future__ import annotations

from .formats import register
from .table import TableFormat, number, text
from .trace import COUNTS, TIMES, WORDS

REQUIRED = ("submit_s", "run_s", "gpus")

register(TableFormat("plain", {
    "id": text("job"),
    **{name: number(name, required=name in REQUIRED) for name in (*TIMES, *COUNTS)},
    **{name: text(name, required=False) for name in WORDS},
}))

# The generator of the synthetic workload with known answers, and other simulators of the field, write this header.
register(TableFormat("synthetic", {
    "id": text("job_id"), "submit_s": number("submit"), "run_s": number("duration"), "limit_s": number("walltime"),
    "gpus": number("gpus"),
}))
