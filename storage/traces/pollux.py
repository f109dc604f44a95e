"""Workloads of Pollux (Qiao et al., OSDI'21): elastic jobs, so there is no run time until they are placed."""

from __future__ import annotations

from .formats import register
from .table import TableFormat, number, text

register(TableFormat("pollux", {
    "id": text("name"), "submit_s": number("time"), "name": text("application"), "gpus": number("num_replicas"),
    "_batch": number("batch_size"),
}))
