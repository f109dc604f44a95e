"""SenseTime Helios (Hu et al., SC'21, doi 10.1145/3458817.3476223): the cluster logs, and the slice of two VCs."""

from __future__ import annotations

from .formats import register
from .table import TableFormat, clock, number, text

# cluster_log.csv of HeliosData; its duration is the run time.
register(TableFormat("helios", {
    "id": text("job_id"), "user": text("user"), "partition": text("vc"), "name": text("jobname", required=False),
    "gpus": number("gpu_num"), "cpus": number("cpu_num"), "nodes": number("node_num"), "state": text("state"),
    "submit_s": clock("submit_time"), "start_s": clock("start_time", required=False), "run_s": number("duration"),
}))

# The canonical schema of mini-compute-simulator, in which the packaged slice is kept; submit in microseconds.
register(TableFormat("helios-slice", {
    "id": text("job_id"), "user": text("user"), "partition": text("tenant"), "name": text("class", required=False),
    "gpus": number("num_chips"), "nodes": number("num_nodes"), "state": text("final_status"),
    "submit_s": number("submit_time", 1e-6), "run_s": number("duration_s"), "limit_s": number("walltime_limit_s"),
}))
