"""The source on an emulated API server: what pods, jobs and queues become."""

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_store import JOBS, NODES, PODS
from idlewatt.storage.owners import OwnerKind
from idlewatt.storage.records import JobState, NodeState
from idlewatt.storage.waiting import WaitReason


class Clock:
    now_s = START_S + 60.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def build(server, clock):
    made = []

    def build(**changes):
        config = {"kind": "kubernetes", "url": server.url, "silence": "5s", "http": {"timeout": "5s"}} | changes
        made.append(KubernetesConfig.model_validate(config).build(clock))
        return made[-1]

    yield build
    for source in made:
        source.close()


@pytest.fixture
def source(build):
    return build()


@pytest.fixture
def read(source, store, until):
    """Return the function that reads the source once it has heard of everything."""
    def read():
        source.read()
        until(lambda: all(int(version or 0) >= store.version for version in source.versions.values()))
        return source.read()

    return read


def only(found):
    [one] = found
    return one


def test_a_gang_is_one_job_that_holds_a_part_of_each_node(store, read):
    for name in ("n1", "n2"):
        store.put(NODES, make.node(name))
    store.put(JOBS, make.job("train", limit_s=3600))
    for number, node in enumerate(("n1", "n2")):
        store.put(PODS, make.pod(f"train-{number}", make.owner("Job", "train"), on=node, gpus=8))
    job = only(read().jobs)
    assert (job.job_id, job.state, job.owner, job.owner_kind) == (
        "team/train", JobState.RUNNING, "Job/train", OwnerKind.BATCH)
    assert (job.submit_s, job.start_s, job.limit_s) == (START_S - 1.0, START_S + 5.0, 3600.0)
    assert (job.request.gpus, job.request.nodes, job.request.gpus_per_node) == (16, 2, 8)
    assert [(part.node, part.gpus, part.members) for part in job.allocations] == [
        ("n1", 8, ("team/train-0",)), ("n2", 8, ("team/train-1",))]
    assert (job.user, job.account, job.partition) == ("team", "team", "team")


def test_nodes_know_what_is_taken_of_them(store, read):
    store.put(NODES, make.node("n1"))
    store.put(NODES, make.node("n2", cordoned=True))
    store.put(NODES, make.node("n3", ready=False))
    store.put(PODS, make.pod("job", on="n1", gpus=2))
    store.put(PODS, make.pod("agent-x", make.owner("DaemonSet", "agent", "apps/v1"), on="n1", gpus=0))
    snapshot = read()
    first, second, third = snapshot.nodes
    assert (first.gpus, first.gpus_allocated, first.cpus_allocated, first.state) == (8, 2, 16, NodeState.UP)
    assert first.memory_allocated_bytes == 128 * 2**30
    assert (second.state, third.state) == (NodeState.DRAINED, NodeState.DOWN)
    assert [job.job_id for job in snapshot.jobs] == ["team/job"]


@pytest.mark.parametrize(("pod", "job_id", "owner", "kind"), [
    (make.pod("alone", on="n1"), "team/alone", "Pod/alone", OwnerKind.BATCH),
    (make.pod("llm-7c5ddbdf54-x", make.owner("ReplicaSet", "llm-7c5ddbdf54", "apps/v1"), on="n1",
              labels={"pod-template-hash": "7c5ddbdf54"}), "team/llm", "Deployment/llm", OwnerKind.SERVICE),
    (make.pod("db-0", make.owner("StatefulSet", "db", "apps/v1"), on="n1"), "team/db", "StatefulSet/db",
     OwnerKind.SERVICE),
    (make.pod("ddp-worker-0", make.owner("PyTorchJob", "ddp", "kubeflow.org/v1"), on="n1",
              labels={"training.kubeflow.org/job-name": "ddp"}), "team/ddp", "PyTorchJob/ddp", OwnerKind.BATCH),
    (make.pod("js-w-0-0", make.owner("Job", "js-w-0"), on="n1", labels={"jobset.sigs.k8s.io/jobset-name": "js"}),
     "team/js", "JobSet/js", OwnerKind.BATCH),
    (make.pod("vllm-0-1", make.owner("StatefulSet", "vllm-0", "apps/v1"), on="n1",
              labels={"leaderworkerset.sigs.k8s.io/name": "vllm"}), "team/vllm", "LeaderWorkerSet/vllm",
     OwnerKind.SERVICE),
    (make.pod("tune-head", make.owner("RayCluster", "tune-abc", "ray.io/v1"), on="n1",
              labels={"ray.io/cluster": "tune-abc", "ray.io/originated-from-crd": "RayJob",
                      "ray.io/originated-from-cr-name": "tune"}), "team/tune", "RayJob/tune", OwnerKind.BATCH),
    (make.pod("g-0", on="n1", labels={"kueue.x-k8s.io/pod-group-name": "g"}), "team/g", "PodGroup/g",
     OwnerKind.BATCH),
    (make.pod("v-0", on="n1", annotations={"scheduling.k8s.io/group-name": "gang"}), "team/gang", "PodGroup/gang",
     OwnerKind.BATCH),
    (make.pod("jupyter-ada", on="n1", labels={"component": "singleuser-server"}), "team/jupyter-ada",
     "Pod/jupyter-ada", OwnerKind.INTERACTIVE),
], ids=lambda value: value if isinstance(value, str) and "/" in value else "")
def test_a_pod_belongs_to_the_job_of_its_owner_at_the_top(store, read, pod, job_id, owner, kind):
    store.put(NODES, make.node("n1"))
    store.put(PODS, pod)
    job = only(read().jobs)
    assert (job.job_id, job.owner, job.owner_kind) == (job_id, owner, kind)


def test_owners_are_followed_upwards_through_batch_jobs(store, read):
    store.put(NODES, make.node("n1"))
    store.put(JOBS, make.job("mpi-launcher", make.owner("MPIJob", "mpi", "kubeflow.org/v2beta1")))
    store.put(PODS, make.pod("mpi-launcher-x", make.owner("Job", "mpi-launcher"), on="n1", gpus=0))
    store.put(PODS, make.pod("mpi-worker-0", make.owner("MPIJob", "mpi", "kubeflow.org/v2beta1"), on="n1", gpus=4))
    job = only(read().jobs)
    assert (job.job_id, job.owner, job.request.gpus, job.request.cpus) == ("team/mpi", "MPIJob/mpi", 4, 16)


def test_owners_in_a_circle_end_somewhere(store, read):
    store.put(NODES, make.node("n1"))
    store.put(JOBS, make.job("a", make.owner("Job", "b")))
    store.put(JOBS, make.job("b", make.owner("Job", "a")))
    store.put(PODS, make.pod("p", make.owner("Job", "a"), on="n1"))
    assert only(read().jobs).owner in ("Job/a", "Job/b")


def test_a_pod_that_pulls_its_image_holds_its_gpus_already(store, read):
    store.put(NODES, make.node("n1"))
    pod = make.pod("p", on="n1", phase="Pending")
    pod["status"]["containerStatuses"] = [{"name": "main", "ready": False, "restartCount": 0, "image": "x",
                                           "imageID": "", "state": {"waiting": {"reason": "ImagePullBackOff"}}}]
    store.put(PODS, pod)
    job = only(read().jobs)
    assert (job.state, job.reason, job.reason_text) == (
        JobState.RUNNING, WaitReason.PREPARING, "starting: ImagePullBackOff")
    assert only(job.allocations).gpus == 1


def test_a_pending_pod_says_why_it_waits(store, read):
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.pod("p"))
    job = only(read().jobs)
    assert (job.state, job.reason) == (JobState.PENDING, WaitReason.RESOURCES)
    assert job.reason_text == "Unschedulable: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu"


def test_a_gated_pod_is_held(store, read):
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.pod("p", schedulingGates=[{"name": "example.com/budget"}]))
    job = only(read().jobs)
    assert (job.reason, job.reason_text) == (WaitReason.HELD, "SchedulingGated: example.com/budget")


def test_labels_that_a_pod_asks_for_and_taints_that_it_minds_narrow_its_nodes(store, read):
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "rack", "operator": "In", "values": ["r1", "r2"]},
                              {"key": "old", "operator": "DoesNotExist"}]}]}}}
    store.put(NODES, make.node("n1", labels={"rack": "r1", "gpu": "a100", "noise": "x"}))
    store.put(NODES, make.node("n2", taints=({"key": "team", "value": "other", "effect": "NoSchedule"},)))
    store.put(PODS, make.pod("p", nodeSelector={"gpu": "a100"}, affinity=affinity))
    snapshot = read()
    job = only(snapshot.jobs)
    assert job.request.features == "gpu=a100&(rack=r1|rack=r2)&!old"
    assert job.request.excluded_nodes == ("n2",)
    assert snapshot.nodes[0].features == ("gpu", "gpu=a100", "rack", "rack=r1")


def test_the_taint_of_gpu_nodes_keeps_no_job_away(store, read):
    store.put(NODES, make.node("n1", taints=({"key": "nvidia.com/gpu", "effect": "NoSchedule"},)))
    store.put(PODS, make.pod("p"))
    assert only(read().jobs).request.excluded_nodes == ()


def test_a_toleration_lets_a_pod_in(store, read):
    taint = {"key": "team", "value": "a", "effect": "NoSchedule"}
    store.put(NODES, make.node("n1", taints=(taint,)))
    for name, toleration in (("equal", {"key": "team", "operator": "Equal", "value": "a", "effect": "NoSchedule"}),
                             ("exists", {"key": "team", "operator": "Exists"}), ("all", {"operator": "Exists"}),
                             ("other", {"key": "team", "operator": "Equal", "value": "b", "effect": "NoSchedule"})):
        store.put(PODS, make.pod(name, tolerations=[toleration]))
    assert {job.name: job.request.excluded_nodes for job in read().jobs} == {
        "equal": (), "exists": (), "all": (), "other": ("n1",)}


@pytest.mark.parametrize(("conditions", "end_s"), [
    ({"DisruptionTarget": "True"}, 900.0), ({"Ready": "False", "ContainersReady": "False"}, 900.0),
    # It may have been refused by its node: nobody has seen it run.
    ({"Ready": "True", "DisruptionTarget": "False"}, 5.0), ({}, 5.0)])
def test_a_pod_that_was_evicted_before_the_first_look_ended_when_it_was(source, clock, store, conditions, end_s):
    store.put(NODES, make.node("n1"))
    pod = make.pod("evicted", on="n1")
    pod["status"].update(phase="Failed", reason="Evicted", conditions=[*pod["status"]["conditions"], *(
        {"type": kind, "status": status, "reason": "EvictionByEvictionAPI",
         "lastTransitionTime": make.moment(START_S + 900.0)} for kind, status in conditions.items())])
    store.put(PODS, pod)
    clock.now_s = START_S + 3600.0
    source.read()
    assert [(run.job_id, run.start_s, run.end_s) for run in source.completed(0.0)] == [
        ("team/evicted", START_S + 5.0, START_S + end_s)]


def test_gpus_are_counted_as_gpus_whatever_is_handed_out(store, read):
    store.put(NODES, make.node("a", 8))
    store.put(NODES, make.node("b", 32, {"nvidia.com/gpu.count": "8", "nvidia.com/gpu.replicas": "4"}))
    store.put(NODES, make.node("c", 56, {"nvidia.com/gpu.count": "56",
                                         "nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB-MIG-1g.5gb"}))
    store.put(NODES, make.node("d", 6, {"nvidia.com/gpu.count": "8"}, **{"nvidia.com/mig-3g.20gb": "4"}))
    store.put(PODS, make.pod("turn", on="b", gpus=1))
    store.put(PODS, make.pod("part", on="d", containers=[make.container(1, resource="nvidia.com/mig-3g.20gb")]))
    snapshot = read()
    assert [(node.name, node.gpus) for node in snapshot.nodes] == [("a", 8), ("b", 8), ("c", 8), ("d", 8)]
    assert snapshot.nodes[2].gpu_model == "NVIDIA-A100-SXM4-40GB"
    # Nobody holds a whole GPU here: which one it is a part of the exporter tells.
    assert [(only(job.allocations).gpus, only(job.allocations).members) for job in snapshot.jobs] == [
        (0, ("team/part",)), (0, ("team/turn",))]


@pytest.mark.parametrize(("product", "handed"), [
    ("NVIDIA-A100-SXM4-40GB-MIG-1g.5gb", 56), ("NVIDIA-A100-SXM4-40GB-MIG-1g.10gb", 32),
    ("NVIDIA-A100-SXM4-40GB-MIG-2g.10gb", 24), ("NVIDIA-A100-SXM4-80GB-MIG-3g.40gb", 16),
    ("NVIDIA-A100-SXM4-80GB-MIG-4g.40gb", 8), ("NVIDIA-H100-80GB-HBM3-MIG-1g.20gb", 32),
    ("NVIDIA-H200-MIG-3g.71gb", 16), ("NVIDIA-H200-MIG-1g.18gb", 56), ("NVIDIA-A30-MIG-1g.6gb", 32),
    ("NVIDIA-A30-MIG-2g.12gb", 16), ("NVIDIA-A100-SXM4-80GB-MIG-7g.80gb", 8), ("NVIDIA-H200-MIG-1g.35gb", 32),
    ("NVIDIA-H200-MIG-2g.35gb", 24), ("NVIDIA-B200-MIG-1g.45gb", 32), ("NVIDIA-B200-MIG-1g.23gb", 56),
    ("NVIDIA-GB200-MIG-1g.47gb", 32), ("NVIDIA-GH200-480GB-MIG-1g.24gb", 32),
    ("NVIDIA-GH200-144G-HBM3e-MIG-1g.36gb", 32), ("NVIDIA-GB300-MIG-1g.70gb", 32)])
def test_gpus_that_are_all_cut_alike_are_counted_by_how_many_instances_fit_one(store, read, product, handed):
    store.put(NODES, make.node("n", handed, {"nvidia.com/gpu.count": str(handed), "nvidia.com/gpu.product": product}))
    assert only(read().nodes).gpus == 8


@pytest.mark.parametrize(("spec", "cpus", "memory"), [
    ({"resources": {"requests": {"cpu": "48", "memory": "512Gi"}}}, 48, 512),
    ({"resources": {"requests": {"cpu": "48"}}}, 48, 64),
    ({"resources": {"limits": {"cpu": "64"}}}, 8, 64),
    ({"resources": {"requests": {"cpu": "48"}}, "overhead": {"cpu": "2", "memory": "1Gi"}}, 50, 65)])
def test_what_a_pod_asks_for_as_a_whole_counts_before_what_its_containers_do(store, read, spec, cpus, memory):
    store.put(NODES, make.node("n"))
    store.put(PODS, make.pod("p", on="n", gpus=2, **spec))
    snapshot = read()
    assert [(node.cpus_allocated, node.memory_allocated_bytes, node.gpus_allocated) for node in snapshot.nodes] == [
        (cpus, memory * 2**30, 2)]
    assert only(snapshot.jobs).request.cpus == cpus


def test_partition_and_user_are_what_the_site_says(build, store, until):
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.pod("p", on="n1", labels={"owner": "ada", "tier": "gold"}))
    job = only(build(user="label:owner", partition="label:tier").read().jobs)
    assert (job.user, job.partition, job.account) == ("ada", "gold", "team")


def test_a_run_that_has_ended_is_told_with_its_times(store, source, read, clock):
    store.put(NODES, make.node("n1"))
    store.put(JOBS, make.job("train"))
    pod = make.pod("train-x", make.owner("Job", "train"), on="n1")
    store.put(PODS, pod)
    read()
    store.put(PODS, make.ended(pod, end_s=START_S + 600.0))
    store.put(JOBS, make.finished_job("train", end_s=START_S + 601.0))
    clock.now_s = START_S + 630.0
    assert read().jobs == ()
    run = only(source.completed(0.0))
    assert (run.job_id, run.state, run.start_s, run.end_s, run.exit_code) == (
        "team/train", JobState.COMPLETED, START_S + 5.0, START_S + 601.0, 0)
    assert only(run.allocations).node == "n1"
    assert source.completed(START_S + 602.0) == []
    assert read().jobs == ()
    assert len(source.completed(0.0)) == 1


@pytest.mark.parametrize(("status", "phase", "state"), [
    ({"reason": "Evicted"}, "Failed", JobState.NODE_FAILED),
    ({"reason": "DeadlineExceeded"}, "Failed", JobState.TIMEOUT),
    ({}, "Failed", JobState.FAILED), ({}, "Succeeded", JobState.COMPLETED)])
def test_a_run_that_nobody_saw_is_told_from_what_is_left_of_its_pod(store, source, read, status, phase, state):
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.ended(make.pod("p", on="n1"), phase, START_S + 30.0, exit_code=int(phase == "Failed"),
                               **status))
    assert read().jobs == ()
    run = only(source.completed(0.0))
    assert (run.state, run.start_s, run.end_s) == (state, START_S + 5.0, START_S + 30.0)


def test_a_job_that_is_deleted_while_it_waits_is_cancelled_and_has_no_run(store, source, read, clock):
    store.put(NODES, make.node("n1"))
    store.put(PODS, make.pod("p"))
    waits = only(read().jobs)
    store.delete(PODS, ("team", "p"))
    assert read().jobs == ()
    job = only(source.completed(0.0))
    assert (job.key, job.state, job.start_s, job.end_s) == (waits.key, JobState.CANCELLED, None, clock.now_s)


def test_all_threads_end_with_the_source(store, source, read, until):
    store.put(NODES, make.node("n1"))
    read()
    source.close()
    until(lambda: not any(reflector._thread.is_alive() for reflector in source._reflectors.values()))


@pytest.mark.parametrize("apart_s", [-7200.0, 7200.0])
def test_a_run_is_as_long_as_the_servers_clock_says_however_wrong_ours_is(store, source, read, clock, apart_s):
    clock.now_s += apart_s
    store.put(NODES, make.node("n1"))
    pod = make.pod("p", on="n1")
    store.put(PODS, pod)
    assert only(read().jobs).start_s == START_S + 5.0
    store.put(PODS, make.ended(pod, end_s=START_S + 600.0))
    assert read().jobs == ()
    run = only(source.completed(0.0))
    assert (run.start_s, run.end_s) == (START_S + 5.0, START_S + 600.0)


def test_a_pod_that_came_and_went_between_two_looks_is_not_lost(store, source, read):
    store.put(NODES, make.node("n1"))
    read()
    store.put(PODS, make.pod("short", on="n1"))
    store.delete(PODS, ("team", "short"))
    assert read().jobs == ()
    run = only(source.completed(0.0))
    assert (run.job_id, run.state) == ("team/short", JobState.CANCELLED)


def test_a_preempted_job_waits_again_and_its_run_is_told(store, source, read, clock):
    store.put(NODES, make.node("n1"))
    store.put(JOBS, make.job("train"))
    owner = make.owner("Job", "train")
    pod = make.pod("train-a", owner, on="n1")
    store.put(PODS, pod)
    first = only(read().jobs)
    pod = {**pod, "status": {**pod["status"], "conditions": [
        *pod["status"]["conditions"], {"type": "DisruptionTarget", "status": "True",
                                       "reason": "PreemptionByScheduler"}]}}
    store.put(PODS, pod)
    store.delete(PODS, ("team", "train-a"))
    store.put(PODS, make.pod("train-b", owner, created_s=START_S + 50.0))
    waits = only(read().jobs)
    assert (waits.state, waits.key) == (JobState.PENDING, first.key)
    assert only(source.completed(0.0)).state is JobState.PREEMPTED
    store.put(PODS, make.pod("train-b", owner, on="n1", created_s=START_S + 50.0, scheduled_s=START_S + 55.0))
    again = only(read().jobs)
    assert (again.key, again.start_s) == (first.key, START_S + 55.0)


def test_the_start_of_a_gang_stays_when_its_first_pod_is_replaced(store, read):
    store.put(NODES, make.node("n1"))
    owner = make.owner("StatefulSet", "db", "apps/v1")
    store.put(PODS, make.pod("db-0", owner, on="n1"))
    store.put(PODS, make.pod("db-1", owner, on="n1", scheduled_s=START_S + 20.0))
    first = only(read().jobs)
    store.delete(PODS, ("team", "db-0"))
    second = only(read().jobs)
    assert (second.key, second.start_s) == (first.key, first.start_s)
