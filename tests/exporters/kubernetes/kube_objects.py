"""Objects of Kubernetes as tests want them, every one as an API server would take it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

START_S = 1_795_219_200.0
Object = dict[str, Any]


def moment(time_s: float) -> str:
    return datetime.fromtimestamp(time_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(name: str, gpus: int = 8, labels: dict[str, str] | None = None, *, ready: bool = True, cordoned: bool = False,
         taints: tuple[Object, ...] = (), **resources: str) -> Object:
    amounts = {"cpu": "256", "memory": "1056763060Ki", "pods": "110"} | resources
    if gpus:
        amounts["nvidia.com/gpu"] = str(gpus)
    spec: Object = {"unschedulable": True} if cordoned else {}
    if taints:
        spec["taints"] = list(taints)
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "uid": f"uid-{name}",
                         "creationTimestamp": moment(START_S - 86400.0),
                         "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
            "spec": spec,
            "status": {"allocatable": amounts, "capacity": amounts,
                       "conditions": [{"type": "Ready", "status": "True" if ready else "Unknown",
                                       "reason": "KubeletReady", "message": "kubelet is posting ready status",
                                       "lastTransitionTime": moment(START_S - 86400.0)}]}}


def owner(kind: str, name: str, api_version: str = "batch/v1") -> Object:
    return {"apiVersion": api_version, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True,
            "blockOwnerDeletion": True}


def container(gpus: int = 1, name: str = "main", resource: str = "nvidia.com/gpu", cpu: str = "8",
              memory: str = "64Gi", **more: Any) -> Object:
    amounts = {"cpu": cpu, "memory": memory, **({resource: str(gpus)} if gpus else {})}
    return {"name": name, "image": "registry.example/train:1", "resources": {"requests": amounts, "limits": amounts},
            **more}


def pod(name: str, *owners: Object, on: str = "", namespace: str = "team", phase: str = "", gpus: int = 1,
        labels: dict[str, str] | None = None, annotations: dict[str, str] | None = None,
        created_s: float = START_S, scheduled_s: float | None = None, **spec: Any) -> Object:
    phase = phase or ("Running" if on else "Pending")
    metadata: Object = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}",
                        "creationTimestamp": moment(created_s)}
    for key, value in (("ownerReferences", list(owners)), ("labels", labels), ("annotations", annotations)):
        if value:
            metadata[key] = value
    begun = moment(created_s + 5.0 if scheduled_s is None else scheduled_s)
    status: Object = {"phase": phase, "conditions": [
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": begun} if on else
        {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "lastTransitionTime": begun,
         "message": "0/4 nodes are available: 4 Insufficient nvidia.com/gpu. preemption: 0/4 nodes are available: "
                    "4 No preemption victims found for incoming pod."}]}
    if on:
        spec["nodeName"] = on
        status["startTime"] = begun
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata,
            "spec": {"containers": [container(gpus)], **spec}, "status": status}


def ended(found: Object, phase: str = "Succeeded", end_s: float = START_S + 600.0, exit_code: int = 0,
          **status: Any) -> Object:
    """Return a pod after its end."""
    state = {"name": "main", "ready": False, "restartCount": 0, "image": "registry.example/train:1", "imageID": "",
             "state": {"terminated": {"exitCode": exit_code, "reason": "Completed" if not exit_code else "Error",
                                      "startedAt": moment(end_s - 60.0), "finishedAt": moment(end_s)}}}
    return {**found, "status": {**found["status"], "phase": phase, "containerStatuses": [state], **status}}


def job(name: str, *owners: Object, namespace: str = "team", created_s: float = START_S - 1.0, suspend: bool = False,
        limit_s: int | None = None, labels: dict[str, str] | None = None, **status: Any) -> Object:
    metadata: Object = {"name": name, "namespace": namespace, "uid": f"uid-Job-{name}",
                        "creationTimestamp": moment(created_s)}
    for key, value in (("ownerReferences", list(owners)), ("labels", labels)):
        if value:
            metadata[key] = value
    spec: Object = {"suspend": suspend, "parallelism": 1, "completions": 1,
                    "template": {"spec": {"containers": [container()], "restartPolicy": "Never"}}}
    if limit_s:
        spec["activeDeadlineSeconds"] = limit_s
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec, "status": status}


def finished_job(name: str, *owners: Object, condition: str = "Complete", end_s: float = START_S + 600.0,
                 reason: str = "", **more: Any) -> Object:
    row = {"type": condition, "status": "True", "lastTransitionTime": moment(end_s), "lastProbeTime": moment(end_s),
           "reason": reason or "CompletionsReached"}
    times: Object = {"startTime": moment(START_S)}
    if condition == "Complete":
        times["completionTime"] = moment(end_s)
    return job(name, *owners, **more, **times, conditions=[row])
