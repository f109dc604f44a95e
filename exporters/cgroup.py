"""What each Slurm job, or pod, really uses of a server's CPUs and memory, from the exporters that read its cgroup.

Five exporters are understood: cgroup_exporter (treydock) and its Jobstats forks, CEEMS, slurm-job-exporter, and
cAdvisor, which is in every kubelet. Their CPU time is a counter; what is made of it, cores in use, is a difference that
the reader of two pages takes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from ..storage.telemetry import JobReading, Telemetry
from .exposition import Samples
from .facts import measured, node_name
from .scrape import PageConfig, PageSource
from .source import Clock, Source, register
from .targets import Target

CPU_SECONDS: Mapping[str, float] = {
    "cgroup_cpu_total_seconds": 1.0,
    "ceems_compute_unit_cpu_user_seconds_total": 1.0, "ceems_compute_unit_cpu_system_seconds_total": 1.0,
    "slurm_job_core_usage_total": 1e-9, "container_cpu_usage_seconds_total": 1.0}
"""Counters of CPU time with their unit in seconds."""
_BY_CORE = "slurm_job_core_usage_total"
"""One series for each core: all of them are the job's. Any other that comes twice is the same, read twice."""
_CPU_TIME = (("cgroup_cpu_total_seconds",),
             ("ceems_compute_unit_cpu_user_seconds_total", "ceems_compute_unit_cpu_system_seconds_total"),
             ("slurm_job_core_usage_total",), ("container_cpu_usage_seconds_total",))
"""What adds up to the CPU time of a job, by exporter: half of it would look like cores that nobody uses."""
_MEMORY = ("cgroup_memory_used_bytes", "ceems_compute_unit_memory_used_bytes", "slurm_job_memory_usage",
           "container_memory_working_set_bytes")
"""With the page cache, as far as it is in use: a job that reads its data from there needs it, too."""
OF_PODS = ("container_cpu_usage_seconds_total", "container_memory_working_set_bytes")
"""One series for the cgroup of the pod, and mostly one for each of its containers."""
METRICS = (*CPU_SECONDS, *_MEMORY)

_JOB_ID = re.compile(r"[A-Za-z0-9_+.-]{1,64}")
_JOB_CGROUP = re.compile(r"/job_(\d{1,10})")

_POD = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")

Values = dict[tuple[str, str], float]
"""By metric and core, or container, '' for all of them; NaN is not measured."""


def parse(samples: Samples, target: Target, time_s: float) -> Telemetry:
    """Return the jobs on one page."""
    return Telemetry(jobs=jobs(samples, lambda labels: node_name(labels, target.labels, target.instance),
                               lambda _labels: time_s))


def jobs(samples: Samples, node_of: Callable[[Mapping[str, str]], str],
         time_of: Callable[[Mapping[str, str]], float | None]) -> tuple[JobReading, ...]:
    """Return one reading per job and server; rows of servers without a time are left out."""
    values_by_job: dict[tuple[str, str], Values] = {}
    times: dict[tuple[str, str], float] = {}
    for (name, labels), value in samples:
        job_id, time_s = _pod(labels) if name in OF_PODS else _job_id(labels), time_of(labels)
        if job_id is None or time_s is None:
            continue
        key = job_id, node_of(labels)
        times.setdefault(key, time_s)
        number, part = measured(value), labels.get("core", "") if name == _BY_CORE else ""
        if name in OF_PODS:
            part = labels.get("container", "")
        values_by_job.setdefault(key, {}).setdefault((name, part), float("nan") if number is None else number)
    return tuple(_readings(values_by_job, times))


def _pod(labels: Mapping[str, str]) -> str | None:
    """Return namespace and name of the pod whose cgroup, or whose container's, this is; None for what is of no pod."""
    namespace, pod = labels.get("namespace", ""), labels.get("pod", "")
    known = _POD.fullmatch(namespace) and _POD.fullmatch(pod) and labels.get("container") != "POD"  # its pause
    return f"{namespace}/{pod}" if known else None


def _job_id(labels: Mapping[str, str]) -> str | None:
    """Return Slurm's number of the job whose own cgroup this is; None for steps, sessions and other managers."""
    if labels.get("step"):
        return None
    named = labels.get("jobid") or labels.get("slurmjobid")
    if not named and labels.get("manager") == "slurm":
        named = labels.get("uuid")
    if named:
        return named if _JOB_ID.fullmatch(named) else None
    path = labels.get("cgroup", "")
    match = _JOB_CGROUP.fullmatch(path, path.rfind("/"))
    return match[1] if match else None


def _readings(values_by_job: Mapping[tuple[str, str], Values],
              times: Mapping[tuple[str, str], float]) -> Iterator[JobReading]:
    for (job_id, node), series in values_by_job.items():
        values = dict[str, float]()
        for (name, part), value in series.items():
            if part and (name, "") in series:
                continue  # the cgroup of the whole pod counts on where a container restarts
            values[name] = values.get(name, 0.0) + value
        parts = next((names for names in _CPU_TIME if values.keys() >= set(names)), ())
        seconds = sum(values[name] * CPU_SECONDS[name] for name in parts) if parts else float("nan")
        memory = next((values[name] for name in _MEMORY if name in values), float("nan"))
        reading = JobReading(job_id, node, times[job_id, node], measured(seconds), measured(memory))
        if reading.cpu_seconds is not None or reading.memory_used_bytes is not None:
            yield reading


@register("cgroup")
class CgroupConfig(PageConfig):
    """Pages of cgroup_exporter, Jobstats' forks, CEEMS, slurm-job-exporter, cAdvisor: CPUs and memory in use by job."""

    kind: Literal["cgroup"] = "cgroup"

    def build(self, clock: Clock) -> Source:
        """Return the source that reads these pages."""
        return PageSource(self, METRICS, parse, clock)
