"""Commands that apply advice to the objects of Kubernetes; each form was dry-run by the real kubectl.

They are printed for people, and never run here. Every name is quoted, since names come from the cluster.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from shlex import quote

from ...storage.recommendations import Placement
from ...storage.steering import Steering

ADMISSION_GATE, BOOST = "kueue.x-k8s.io/admission-gated-by", "kueue.x-k8s.io/priority-boost"
HOSTNAME = "kubernetes.io/hostname"
MOST_PODS = 50
"""Pods that one command names; a longer one is unreadable."""


def start_commands(steering: Steering, placement: Placement) -> str:
    """Return the commands that let a job start on a placement; '' where there are none, as for a pod without a gate."""
    steps = _gated_pods(steering, placement) if steering.gated else _queued(steering, placement)
    return " && ".join(steps)


def _gated_pods(steering: Steering, placement: Placement) -> list[str]:
    """Return what binds pods to nodes, and then opens the gate behind which they wait."""
    if len(steering.gated) > MOST_PODS:
        return []
    names = [f"pod/{name}" for name in steering.gated]
    if not steering.bound:
        bound: Mapping[str, object] = {"affinity": affinity(placement.nodes)}
    else:
        bound = {"nodeSelector": _one_host(steering, placement)}  # what it names already may only be narrowed
        if not bound["nodeSelector"]:
            return []
    gate = [{"op": "test", "path": "/spec/schedulingGates/0/name", "value": steering.gate},
            {"op": "remove", "path": "/spec/schedulingGates/0"}]
    return [_patch(steering, names, "strategic", {"spec": bound}), _patch(steering, names, "json", gate)]


def _queued(steering: Steering, placement: Placement) -> list[str]:
    """Return the commands that give a queued job its nodes, put it first, and end its wait for advice."""
    if not steering.workload:
        return []
    if steering.check is not None:
        return _check(steering, placement)
    steps = []
    if steering.suspended and steering.owner.startswith("job.batch/") and not steering.bound:
        template = {"spec": {"template": {"spec": {"affinity": affinity(placement.nodes)}}}}
        steps.append(_patch(steering, [steering.owner], "merge", template))
    if steering.boost > 0:
        steps.append(_command(steering, "annotate", f"workload.kueue.x-k8s.io/{steering.workload}", "--overwrite",
                              f"{BOOST}={steering.boost}"))
    if steering.admission_gated and steering.owner:
        steps.append(_command(steering, "annotate", steering.owner, f"{ADMISSION_GATE}-"))
    return steps


def _check(steering: Steering, placement: Placement) -> list[str]:
    """Return what answers an admission check with the node; a workload takes one label for all pods of a set."""
    host = _one_host(steering, placement)
    if not host:
        return []
    place = f"/status/admissionChecks/{steering.check}"
    updates = [{"name": name, "nodeSelector": host} for name in steering.pod_sets]
    patch = [{"op": "test", "path": f"{place}/name", "value": steering.check_name},
             {"op": "add", "path": f"{place}/podSetUpdates", "value": updates},
             {"op": "replace", "path": f"{place}/message", "value": "placed as idlewatt advises"},
             {"op": "replace", "path": f"{place}/state", "value": "Ready"}]
    return [_patch(steering, [f"workload.kueue.x-k8s.io/{steering.workload}"], "json", patch, "--subresource=status")]


def _one_host(steering: Steering, placement: Placement) -> Mapping[str, str]:
    """Return the label of the only node of a placement; {} where there are several, or no label tells it apart."""
    if len(placement.nodes) != 1:
        return {}
    [name] = placement.nodes
    host = dict(steering.hosts).get(name, name)
    return {HOSTNAME: host} if host else {}


def affinity(nodes: Iterable[str]) -> Mapping[str, object]:
    """Return the affinity of pods that may be on any of some nodes, by their names."""
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]} for name in nodes]
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}}


def evict_commands(steering: Steering) -> str:
    """Return what takes a job's pods away, so that they are made again: the server asks the disruption budgets."""
    if not steering.movable or not 0 < len(steering.pods) <= MOST_PODS:
        return ""
    return " && ".join(_eviction(steering, name) for name in steering.pods)


def _eviction(steering: Steering, name: str) -> str:
    body = {"apiVersion": "policy/v1", "kind": "Eviction",
            "metadata": {"name": name, "namespace": steering.namespace}}
    path = f"/api/v1/namespaces/{steering.namespace}/pods/{name}/eviction"
    return f"echo {quote(json.dumps(body))} | kubectl create --raw {quote(path)} -f -"


def resize_command(steering: Steering, owner: str, requests: Mapping[str, str]) -> str:
    """Return what gives a job other CPUs and memory; requests are of each pod, as ``{"cpu": "4"}``.

    A service's template is changed, which replaces its pods; the pods of others are resized where they run.
    """
    kind, _, name = owner.partition("/")
    if not requests or not steering.container:
        return ""
    if kind in ("Deployment", "StatefulSet"):
        pairs = ",".join(f"{resource}={amount}" for resource, amount in requests.items())
        limits = [f"--limits={pairs}"] if steering.limited else []
        return _command(steering, "set", "resources", f"{kind.lower()}.apps/{name}",
                        f"--containers={steering.container}", f"--requests={pairs}", *limits)
    if not 0 < len(steering.pods) <= MOST_PODS:
        return ""
    amounts = {"requests": dict(requests), **({"limits": dict(requests)} if steering.limited else {})}
    patch = {"spec": {"containers": [{"name": steering.container, "resources": amounts}]}}
    return _patch(steering, [f"pod/{name}" for name in steering.pods], "strategic", patch, "--subresource=resize")


def slice_command(steering: Steering, owner: str, held: str, advised: str) -> str:
    """Return what lets each pod ask for another part of a GPU: one of ``advised`` in place of what it holds.

    A service's template is changed, which replaces its pods. Of jobs and bare pods nothing can be changed: their
    manifest is printed as the next run would be submitted.
    """
    kind, _, name = owner.partition("/")
    if not steering.container:
        return ""
    amounts = {held: None, advised: "1"}
    resources = {"limits": amounts, "requests": amounts}
    pod = {"spec": {"containers": [{"name": steering.container, "resources": resources}]}}
    if kind in ("Deployment", "StatefulSet"):
        return _patch(steering, [f"{kind.lower()}.apps/{name}"], "strategic", {"spec": {"template": pod}})
    if kind not in ("Job", "Pod"):
        return ""
    patch = {"spec": {"template": pod}} if kind == "Job" else pod
    shown = _command(steering, "get", f"{'job.batch' if kind == 'Job' else 'pod'}/{name}", "--output=json")
    changed = _patch(steering, ["--local", "--filename=-"], "strategic", patch, "--output=yaml")
    return f"{shown} | {changed}"


def cordon_command(node: str) -> str:
    """Return what keeps new pods off a node before it is powered down."""
    return f"kubectl cordon {quote(node)}"


def _patch(steering: Steering, names: Iterable[str], how: str, patch: object, *options: str) -> str:
    return _command(steering, "patch", *names, *options, f"--type={how}",
                    f"--patch={json.dumps(patch, separators=(',', ':'))}")


def _command(steering: Steering, *arguments: str) -> str:
    return " ".join(("kubectl", *(quote(argument) for argument in (f"--namespace={steering.namespace}", *arguments))))
