"""A small cluster to put questions to: dgx-* nodes of eight A100 in partition ``gpu``."""

from types import SimpleNamespace

import pytest

from idlewatt.daemon.waste import WasteAccountant, WasteSettings
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuReading, NodeReading, Telemetry
from idlewatt.storage.waiting import WaitReason

MODEL = "NVIDIA A100-SXM4-40GB"
GIB = 2**30


def node(name="dgx-0", **changes):
    known = {"partitions": ("gpu",), "gpus": 8, "gpu_model": "a100", "cpus": 256, "memory_bytes": 1024 * GIB}
    return Node(name, **(known | changes))


def running(job_id="1", node="dgx-0", indexes=(0,), start_s=0.0, **changes):
    indexes = tuple(indexes) if indexes is not None else None
    gpus = changes.pop("gpus", len(indexes or ()))
    known = {"submit_s": 0.0, "state": JobState.RUNNING, "partition": "gpu", "request": Request(gpus),
             "start_s": start_s, "user": "ada", "account": "lab",
             "allocations": (Allocation(node, gpus, indexes),)}
    return Job(job_id, **(known | changes))


def pending(job_id="9", gpus=1, *, partition="gpu", reason=WaitReason.RESOURCES, state=JobState.PENDING, submit_s=0.0,
            eligible_s=None, tasks=1, **request):
    request = {"gpus_per_node": gpus // max(1, request.get("nodes", 1))} | request
    return Job(job_id, submit_s, state, partition, Request(gpus, **request), reason=reason, eligible_s=eligible_s,
               tasks=tasks)


def gpu(index=0, node="dgx-0", time_s=1000.0, watts=51.0, u=0.0, **changes):
    known = {"model": MODEL, "power_watts": watts, "activity": u, "activity_source": "sm_active", "resident": u,
             "memory_used_bytes": 3.0 * 2**20, "power_limit_watts": 400.0}
    return GpuReading(f"GPU-{node}-{index}", node, index, time_s, **(known | changes))


def wall(watts, node="dgx-0", time_s=1000.0, source="ipmi"):
    return NodeReading(node, time_s, power_watts=watts, power_source=source)


def snapshot(nodes=(), jobs=(), partitions=None, time_s=1000.0):
    partitions = partitions if partitions is not None else (Partition("gpu", tuple(node.name for node in nodes)),)
    return SchedulerSnapshot(time_s, tuple(nodes), tuple(partitions), tuple(jobs))


def judge(nodes, jobs=(), gpus=(), walls=(), *, time_s=1000.0, **settings):
    """Assess one cycle without memory: what a GPU does now counts as what it did throughout the window."""
    accountant = accountant_of(**settings)
    return accountant.assess(snapshot(nodes, jobs, time_s=time_s), Telemetry(tuple(gpus), tuple(walls)), time_s)


def accountant_of(interval_s=15.0, **settings):
    known = {"window": 0, "grace_batch": 0, "models": {"A100": {"bare_watts": 51, "context_watts": 90}}}
    return WasteAccountant(WasteSettings(**(known | settings)), interval_s)


@pytest.fixture(scope="session")
def site():
    return SimpleNamespace(node=node, running=running, pending=pending, gpu=gpu, wall=wall, snapshot=snapshot,
                           judge=judge, accountant=accountant_of, GIB=GIB, MODEL=MODEL, telemetry=Telemetry)
