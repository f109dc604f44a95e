"""The simulated cluster as Kubernetes objects: Kueue queues its jobs, one pod a node runs them, dcgm names the pods."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime

from ...storage.records import JobState
from ...storage.waiting import WaitReason
from .api_store import (
    CLUSTER_QUEUES,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NAMESPACES,
    NODES,
    PODS,
    WORKLOADS,
    Object,
    Resource,
    Store,
)
from .cluster import SimulatedCluster
from .hardware import Model
from .jobs import USERS, SimulatedJob
from .shards import PER_GPU

RESERVATIONS = "kai-resource-reservation"
_HASH = "5d9c7b8f6"
"""Of the template of every service."""
KEPT_S = 300.0
"""How long a job stays after its end (ttlSecondsAfterFinished)."""
USER = "example.com/user"
"""The label that names the user of a job."""
GPU = "nvidia.com/gpu"
PRODUCT = "nvidia.com/gpu.product"


def pod_labels(cluster: SimulatedCluster, job_id: int, server: int) -> str:
    """Return the labels by which dcgm-exporter names the pod that holds a GPU."""
    job = cluster.running[job_id]
    if job_id in cluster.shards:  # the kubelet knows of no fractions
        return f',container="main",namespace="{RESERVATIONS}",pod="{_reservation(cluster, server)}"'
    place = [number for number, _ in job.allocation].index(server)
    return f',container="main",namespace="{job.user.account}",pod="{pod_name(job, place)}"'


def job_name(job: SimulatedJob) -> str:
    """Return the name of a job's object."""
    return f"{job.name}-{job.job_id}"


def pod_name(job: SimulatedJob, place: int) -> str:
    """Return the name of a job's pod on one of its nodes."""
    return f"{job_name(job)}-{place}"


def sync(cluster: SimulatedCluster, store: Store) -> None:
    """Make the objects of a store those of the cluster as it is now."""
    recent = itertools.takewhile(lambda job: (job.end_s or 0.0) > cluster.now_s - KEPT_S, reversed(cluster.finished))
    known = [*itertools.chain(*cluster.pending.values()), *cluster.running.values(), *recent]
    contents: dict[Resource, Iterator[Object]] = {
        NAMESPACES: (_meta(name) for name in (*_accounts(), *([RESERVATIONS] if cluster.shards else ()))),
        NODES: (_node(cluster, number) for number in range(len(cluster.servers))),
        FLAVORS: (_meta(name) | {"spec": {"nodeLabels": {PRODUCT: _product(model)}}}
                  for name, model in _models(cluster)),
        CLUSTER_QUEUES: (_cluster_queue(cluster, name, model) for name, model in _models(cluster)),
        LOCAL_QUEUES: (_meta(name, account) | {"spec": {"clusterQueue": name}}
                       for account in _accounts() for name, _ in _models(cluster)),
        JOBS: (_job(job) for job in known if not job.service),
        WORKLOADS: (_workload(cluster, job) for job in known if not job.service),
        PODS: (pod for pods in ((_pod(cluster, job, place) for job in known for place in range(len(job.allocation))),
                                _reservations(cluster)) for pod in pods),
    }
    for resource, objects in contents.items():
        store.sync(resource, objects)


def _accounts() -> list[str]:
    return sorted({user.account for user in USERS})


def _models(cluster: SimulatedCluster) -> list[tuple[str, Model]]:
    """Return the queues of the cluster with the servers behind each; names of objects are small letters."""
    models = {server.model.partition.lower(): server.model for server in cluster.servers}
    return sorted(models.items())


def _product(model: Model) -> str:
    return model.product.replace(" ", "-")


def _meta(name: str, namespace: str = "", **more: object) -> Object:
    space = {"namespace": namespace} if namespace else {}
    return {"metadata": {"name": name, **space, "uid": f"{namespace}-{name}", **more}}


def _moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _condition(kind: str, since_s: float, *, holds: bool = True, reason: str = "", message: str = "") -> Object:
    return {"type": kind, "status": "True" if holds else "False", "lastTransitionTime": _moment(since_s),
            "reason": reason or kind, "message": message}


def _node(cluster: SimulatedCluster, number: int) -> Object:
    name, model = cluster.servers[number].name, cluster.servers[number].model
    labels = {"kubernetes.io/hostname": name, PRODUCT: _product(model), "nvidia.com/gpu.count": str(model.gpus)}
    amounts = {"cpu": str(model.cpus), "memory": str(model.memory_bytes), GPU: str(model.gpus), "pods": "110"}
    born_s = cluster.shape.start_s - 864_000
    return _meta(name, labels=labels, creationTimestamp=_moment(born_s)) | {
        "spec": {"unschedulable": True} if cluster.drained(number) else {},
        "status": {"allocatable": amounts, "capacity": amounts,
                   "conditions": [_condition("Ready", born_s, reason="KubeletReady")]}}


def _cluster_queue(cluster: SimulatedCluster, name: str, model: Model) -> Object:
    count = sum(server.model is model for server in cluster.servers)
    quotas = {"cpu": count * model.cpus, "memory": count * model.memory_bytes, GPU: count * model.gpus}
    rows = [{"name": resource, "nominalQuota": str(quota)} for resource, quota in quotas.items()]
    return _meta(name) | {"spec": {"queueingStrategy": "StrictFIFO", "namespaceSelector": {}, "resourceGroups": [
        {"coveredResources": list(quotas), "flavors": [{"name": name, "resources": rows}]}]}}


def _labels(job: SimulatedJob) -> dict[str, str]:
    return {"kueue.x-k8s.io/queue-name": job.partition.lower(), USER: job.user.name}


def _owner(kind: str, name: str, uid: str, version: str = "batch/v1") -> list[Object]:
    return [{"apiVersion": version, "kind": kind, "name": name, "uid": uid, "controller": True}]


def _uid(job: SimulatedJob) -> str:
    return f"{job.user.account}-{job_name(job)}"


def _template(job: SimulatedJob) -> Object:
    amounts = {"cpu": str(job.cpus_per_node), "memory": str(job.memory_per_node)}
    amounts |= {GPU: str(job.gpus_per_node)} if job.gpus_per_node else {}
    return {"containers": [{"name": "main", "image": f"registry.example/{job.name}:1",
                            "resources": {"requests": amounts, "limits": amounts}}], "restartPolicy": "Never"}


def _job(job: SimulatedJob) -> Object:
    status: Object = {"startTime": _moment(job.start_s)} if job.start_s is not None else {}
    if job.end_s is not None:
        done = job.state is JobState.COMPLETED
        reason = {JobState.COMPLETED: "CompletionsReached", JobState.TIMEOUT: "DeadlineExceeded"}
        status["conditions"] = [_condition("Complete" if done else "Failed", job.end_s,
                                           reason=reason.get(job.state, "BackoffLimitExceeded"))]
        status |= {"completionTime": _moment(job.end_s)} if done else {}
    return _meta(job_name(job), job.user.account, labels=_labels(job), creationTimestamp=_moment(job.submit_s)) | {
        "spec": {"suspend": job.start_s is None, "parallelism": job.nodes, "completions": job.nodes,
                 "activeDeadlineSeconds": int(job.flavor.limit_s), "template": {"spec": _template(job)}},
        "status": status}


def _workload(cluster: SimulatedCluster, job: SimulatedJob) -> Object:
    queue = job.partition.lower()
    parts = [{"name": "main", "count": job.nodes,
              "template": {"metadata": {"labels": {USER: job.user.name}}, "spec": _template(job)}}]
    status: Object = {"conditions": _waiting(cluster, job)}
    if job.start_s is not None:
        status = {"admission": {"clusterQueue": queue, "podSetAssignments": [{"name": "main", "count": job.nodes}]},
                  "conditions": [_condition("QuotaReserved", job.start_s), _condition("Admitted", job.start_s)]}
    if job.end_s is not None:
        status["conditions"].append(_condition("Finished", job.end_s, reason="Succeeded"))
    return _meta(f"job-{job_name(job)}", job.user.account, creationTimestamp=_moment(job.submit_s),
                 ownerReferences=_owner("Job", job_name(job), _uid(job))) | {
        "spec": {"queueName": queue, "active": True, "priority": 0, "podSets": parts}, "status": status}


def _waiting(cluster: SimulatedCluster, job: SimulatedJob) -> list[Object]:
    """Return what Kueue says of a job that waits: of those behind the head of the queue nothing."""
    if job.reason is not WaitReason.RESOURCES:
        return []
    free = sum(int(gpus) for gpus, server in zip(cluster.capacity.free_gpus, cluster.servers, strict=True)
               if server.model.partition == job.partition)
    flavor, short = job.partition.lower(), job.flavor.gpus - free
    message = f"couldn't assign flavors to pod set main: insufficient unused quota for {GPU} in flavor {flavor}, " \
              f"{short} more needed" if short > 0 else \
        f"couldn't assign flavors to pod set main: topology \"dgx\" doesn't allow to fit any of {job.nodes} pod(s)"
    return [_condition("QuotaReserved", job.submit_s, holds=False, reason="Pending", message=message)]


def _pod(cluster: SimulatedCluster, job: SimulatedJob, place: int) -> Object:
    assert job.start_s is not None
    name, node = pod_name(job, place), cluster.servers[job.allocation[place][0]].name
    phase = "Running" if job.end_s is None else "Succeeded" if job.state is JobState.COMPLETED else "Failed"
    status: Object = {"phase": phase, "startTime": _moment(job.start_s),
                      "conditions": [_condition("PodScheduled", job.start_s)]}
    if job.end_s is not None:
        state = {"exitCode": job.exit_code, "reason": "Error" if job.exit_code else "Completed",
                 "startedAt": _moment(job.start_s), "finishedAt": _moment(job.end_s)}
        status["containerStatuses"] = [{"name": "main", "ready": False, "restartCount": 0, "imageID": "",
                                        "image": f"registry.example/{job.name}:1", "state": {"terminated": state}}]
    more: Object = {"labels": _labels(job), "ownerReferences": _owner("Job", job_name(job), _uid(job))}
    if job.service:
        more = {"labels": _labels(job) | {"pod-template-hash": _HASH}, "ownerReferences": _owner(
            "ReplicaSet", f"{job_name(job)}-{_HASH}", _uid(job), "apps/v1")}
    if job.job_id in cluster.shards:
        more["annotations"] = {"gpu-fraction": f"{cluster.shards[job.job_id] / PER_GPU:g}"}
        more["labels"] |= _group(cluster, job.allocation[place][0])
    spec = _template(job) | {"nodeName": node} | ({"restartPolicy": "Always"} if job.service else {})
    return _meta(name, job.user.account, creationTimestamp=_moment(job.start_s), **more) | {
        "spec": spec, "status": status}


def _reservation(cluster: SimulatedCluster, server: int) -> str:
    return f"gpu-reservation-{cluster.servers[server].name}"


def _group(cluster: SimulatedCluster, server: int) -> dict[str, str]:
    return {"runai-gpu-group": f"{cluster.servers[server].name}-shared"}


def _reservations(cluster: SimulatedCluster) -> Iterator[Object]:
    """Yield the pods by which KAI holds the GPUs that it shares."""
    for server in sorted({number for job_id in cluster.shards for number, _ in cluster.running[job_id].allocation}):
        since_s = cluster.shape.start_s
        amounts = {GPU: "1"}
        yield _meta(_reservation(cluster, server), RESERVATIONS, labels=_group(cluster, server),
                    creationTimestamp=_moment(since_s)) | {
            "spec": {"nodeName": cluster.servers[server].name, "containers": [
                {"name": "main", "image": "registry.example/reservation:1",
                 "resources": {"requests": amounts, "limits": amounts}}]},
            "status": {"phase": "Running", "startTime": _moment(since_s),
                       "conditions": [_condition("PodScheduled", since_s)]}}
