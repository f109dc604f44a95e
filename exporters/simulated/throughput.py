"""How fast the simulated jobs train: what a Prometheus that scrapes them would answer.

Times for a unit of work are ``a/w + b + d w`` with ``w`` GPUs; the coefficients are made up, from a vision model that
hardly communicates to a language model that does little else. A job that is idle or hung gets nothing done.
"""

from __future__ import annotations

import math

from ...storage.records import JobState
from .cluster import SimulatedCluster
from .jobs import Behaviour, SimulatedJob

QUERY, PODS_QUERY = "job_throughput", "label_join(pod_throughput, 'job_id', '/', 'namespace', 'job_name')"
"""Jobs as Slurm names them, and as they are named of Kubernetes."""
CURVES = {"resnet50": (1.0, 0.005, 0.0), "vit-large": (1.6, 0.02, 0.001), "detr": (2.4, 0.1, 0.002),
          "bert-ft": (1.2, 0.12, 0.004), "gpt-pretrain": (8.0, 0.1, 0.002), "ppo-sim": (0.6, 0.2, 0.008)}
"""a, b, d by name; those that are missing (notebooks, docking) count nothing."""
SAMPLES = 100.0
"""Per second of a job that takes a unit of time for a unit of work."""
FASTER = {"A100": 2.0, "V100": 1.0}
SPREAD = 0.04
"""From run to run, relatively."""
_GOLDEN = (math.sqrt(5) - 1) / 2


def speed(name: str, gpus: int) -> float:
    """Return samples per second of a job on so many V100, as its owner would measure them."""
    a, b, d = CURVES[name]
    return SAMPLES / (a / gpus + b + d * gpus)


def rates(cluster: SimulatedCluster) -> dict[str, float]:
    """Return samples per second by job id, of the running jobs that count them."""
    return {str(job.job_id): _rate(job) for job in cluster.running.values() if job.name in CURVES}


def answer(cluster: SimulatedCluster, query: str) -> dict[str, object]:
    """Return what ``/api/v1/query`` answers; there is nothing but ``job_throughput`` and the same of pods' jobs."""
    rates_by_job = rates(cluster) if query in (QUERY, PODS_QUERY) else {}
    if query == PODS_QUERY:
        jobs = {str(job.job_id): job for job in cluster.running.values()}
        rates_by_job = {f"{jobs[job_id].user.account}/{jobs[job_id].name}-{job_id}": rate
                        for job_id, rate in rates_by_job.items()}
    return {"status": "success", "data": {"resultType": "vector", "result": [
        {"metric": {"__name__": QUERY, "job_id": job_id}, "value": [cluster.now_s, repr(rate)]}
        for job_id, rate in rates_by_job.items()]}}


def _rate(job: SimulatedJob) -> float:
    if job.state is not JobState.RUNNING or job.behaviour in (Behaviour.IDLE, Behaviour.HUNG):
        return 0.0
    # The same spread for the same job whenever it is needed: no generator, which would change the cluster's course.
    spread = 1.0 + SPREAD * (2.0 * (job.job_id * _GOLDEN % 1.0) - 1.0)
    return FASTER.get(job.partition, 1.0) * spread * speed(job.name, job.flavor.gpus)
