"""What goes wrong between the source and its API server costs what it has to, and is told."""

import json
from dataclasses import replace

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.exporters.kubernetes import source as source_module
from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import (
    CLUSTER_QUEUES,
    CORE,
    FLAVORS,
    JOBS,
    LOCAL_QUEUES,
    NODES,
    PODS,
    WORKLOADS,
    Store,
)
from idlewatt.exporters.source import SourceError, Watched
from idlewatt.storage.records import JobState
from idlewatt.storage.waiting import WaitReason


def kueue(store, message="", reason="Pending", quota=8):
    """Put a queue for the nodes with a100 into the store, and a workload that waits in it."""
    store.put(FLAVORS, {"metadata": {"name": "a100"}, "spec": {"nodeLabels": {"gpu": "a100"}}})
    store.put(CLUSTER_QUEUES, {"metadata": {"name": "research"}, "spec": {"resourceGroups": [
        {"coveredResources": ["nvidia.com/gpu"], "flavors": [{"name": "a100", "resources": [
            {"name": "nvidia.com/gpu", "nominalQuota": quota}]}]}]}})
    store.put(LOCAL_QUEUES, {"metadata": {"name": "lq", "namespace": "team"}, "spec": {"clusterQueue": "research"}})
    store.put(WORKLOADS, {
        "metadata": {"name": "job-next", "namespace": "team", "creationTimestamp": make.moment(START_S),
                     "ownerReferences": [make.owner("Job", "next")]},
        "spec": {"queueName": "lq", "priority": 7, "podSets": [
            {"name": "main", "count": 2, "template": {"spec": {"containers": [make.container(8)]}}}]},
        "status": {"conditions": [{"type": "QuotaReserved", "status": "False", "reason": reason, "message": message,
                                   "lastTransitionTime": make.moment(START_S)}]} if message else {}})


def names(source):
    """Return the jobs of the moment, [] where there is no snapshot."""
    try:
        return [job.job_id for job in source.read().jobs]
    except SourceError:
        return []


def health(source):
    return {target.target: (target.up, target.error) for target in source.health()}


def test_a_workload_of_kueue_is_a_pending_job_before_it_has_pods(filled, build):
    kueue(filled, "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor "
                  "a100, 8 more needed")
    snapshot = build().read()
    job = next(job for job in snapshot.jobs if job.job_id == "team/next")
    assert (job.state, job.partition, job.priority, job.submit_s) == (JobState.PENDING, "research", 7.0, START_S)
    assert (job.request.gpus, job.request.nodes, job.request.gpus_per_node) == (16, 2, 8)
    # The queue may use all that its nodes have: its quota is no other limit than they are.
    assert job.reason is WaitReason.RESOURCES
    assert snapshot.nodes[0].partitions == ("research", "team")


def test_a_quota_below_what_the_nodes_have_is_the_limit(filled, build):
    kueue(filled, "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor "
                  "a100, 8 more needed", quota=4)
    job = next(job for job in build().read().jobs if job.job_id == "team/next")
    assert job.reason is WaitReason.QUOTA


def test_a_workload_with_pods_is_one_job_in_its_queue(filled, build):
    kueue(filled)
    filled.put(PODS, make.pod("next-0", make.owner("Job", "next"), on="n1", gpus=4))
    [job] = [job for job in build().read().jobs if job.job_id == "team/next"]
    assert (job.state, job.partition, job.submit_s) == (JobState.RUNNING, "research", START_S)


def test_a_cluster_without_optional_groups_is_read_all_the_same(server, build):
    server.api.store = Store(CORE)
    server.api.store.put(NODES, make.node("n1"))
    source = build()
    assert len(source.read().nodes) == 1
    assert set(health(source)) == {"nodes", "pods", "jobs", "budgets", "claims", "slices"}
    assert all(up for up, _ in health(source).values())


def of_cron(store):
    """Put a pod of a Job of a CronJob into the store: without the list of Jobs its job has another name."""
    store.put(JOBS, make.job("nightly-1", make.owner("CronJob", "nightly")))
    store.put(PODS, make.pod("nightly-1-x", make.owner("Job", "nightly-1"), on="n1"))


@pytest.mark.parametrize(("path", "told"), [
    ("/apis", "which lists there are is not known: "), ("/apis/batch/v1/jobs", "jobs cannot be listed, and jobs would"),
    ("/apis/kueue.x-k8s.io/v1beta2/workloads", "workloads cannot be listed, and jobs would")])
def test_no_job_is_told_before_the_names_are_known_by_which_jobs_are_recorded(filled, server, build, until, path, told):
    kueue(filled, "insufficient unused quota")
    of_cron(filled)
    server.api.faults.append(Fault(path, 503, times=-1))
    source = build()
    with pytest.raises(SourceError, match=told):
        source.read()
    server.api.faults.clear()
    until(lambda: names(source) == ["team/nightly", "team/p", "team/next"])
    assert source.completed(0.0) == []


def test_a_server_that_does_not_show_us_jobs_of_batch_is_read_without_them(filled, server, build):
    of_cron(filled)
    server.api.faults.append(Fault("/apis/batch/v1/jobs", 403, times=-1))
    source = build()
    assert names(source) == ["team/nightly-1", "team/p"]
    assert "not known: owners, limits and ends of batch jobs" in health(source)["jobs"][1]


@pytest.mark.parametrize("status", [503, 403])
def test_lists_that_fail_for_long_end_no_job_that_runs_or_waits(filled, server, build, until, status):
    kueue(filled, "insufficient unused quota")
    of_cron(filled)
    source = build(silence="1s")
    until(lambda: names(source) == ["team/nightly", "team/p", "team/next"])
    lost = ("/apis/kueue.x-k8s.io/v1beta2/workloads", "/apis/batch/v1/jobs")
    server.api.faults += [Fault(path, status, times=-1) for path in lost]
    server.api.drop_watches()
    until(lambda: names(source) == ["team/nightly", "team/p"])
    until(lambda: not health(source)["jobs"][0] and names(source) == ["team/nightly", "team/p"])
    assert source.completed(0.0) == []
    filled.delete(WORKLOADS, ("team", "job-next"))  # while nobody can see it
    server.api.faults.clear()
    until(lambda: names(source) and source.completed(0.0))
    assert [(job.job_id, job.state) for job in source.completed(0.0)] == [("team/next", JobState.CANCELLED)]
    assert names(source) == ["team/nightly", "team/p"]


def test_a_list_that_an_upgrade_moves_to_another_version_is_watched_there(server, build, until, monkeypatch):
    monkeypatch.setattr(source_module, "_DISCOVER_S", 0.0)
    old = tuple(replace(resource, version="v1beta1") if resource.group == WORKLOADS.group else resource
                for resource in (*CORE, WORKLOADS))
    server.api.store = Store(old)
    made = build()
    made.read()
    until(lambda: health(made)["workloads"] == (True, ""))
    server.api.store = Store()
    server.api.drop_watches()
    kueue(server.api.store, "insufficient unused quota")
    until(lambda: [job.job_id for job in made.read().jobs] == ["team/next"])
    assert health(made)["workloads"] == (True, "")


def test_a_forbidden_group_costs_its_own_fact_and_says_so(filled, server, build, until):
    kueue(filled)
    server.api.faults.append(Fault("/apis/kueue.x-k8s.io/v1beta2/workloads", 403, times=-1))
    source = build()
    assert [job.job_id for job in source.read().jobs] == ["team/p"]
    up, error = health(source)["workloads"]
    assert not up
    assert "403" in error
    assert "not known: what waits in Kueue's queues" in error
    assert health(source)["nodes"] == (True, "")


def test_rights_that_are_taken_away_are_no_empty_cluster(filled, server, build, until):
    watched = Watched(build(), lambda: START_S + 60.0)
    assert len(watched.read().data.jobs) == 1
    server.api.faults.append(Fault("/api/v1/pods", 403, times=-1))
    server.api.drop_watches()
    until(lambda: not watched.read().fresh)
    assert "not shown any more" in watched.status.error
    assert len(watched.snapshot.data.jobs) == 1
    server.api.faults.clear()
    until(lambda: watched.read().fresh)


@pytest.mark.parametrize("body", [b"{}", b'{"kind":"Status","status":"Failure","message":"starting","code":503}',
                                  b'{"kind":"NodeList","metadata":{"resourceVersion":"9"},"items":[]}',
                                  b'{"kind":"PodList","metadata":{},"items":[]}'])
def test_an_answer_that_is_no_list_of_pods_ends_no_job(filled, server, build, until, body):
    source = build(resync="1s", watch="1s")
    assert [job.job_id for job in source.read().jobs] == ["team/p"]
    server.api.faults.append(Fault("/api/v1/pods", 200, watches=False, body=body))
    until(lambda: "API server?" in health(source)["pods"][1])
    assert [job.job_id for job in source.read().jobs] == ["team/p"]
    until(lambda: health(source)["pods"] == (True, ""))
    assert [job.job_id for job in source.read().jobs] == ["team/p"]
    assert source.completed(0.0) == []


def test_a_server_that_is_gone_is_not_believed_for_longer_than_its_silence(filled, server, build, until):
    source = build(silence="2s")
    now = source.read()
    assert now.time_s == START_S + 60.0
    server.api.faults.append(Fault("/", 503, times=-1))
    server.api.drop_watches()
    watched = Watched(source, lambda: START_S + 60.0)
    until(lambda: not watched.read().fresh)
    assert "no answer for" in watched.status.error
    server.api.faults.clear()
    until(lambda: watched.read().fresh)


def test_a_server_that_never_answered_is_told(build):
    source = build(url="http://127.0.0.1:9")
    with pytest.raises(SourceError, match=r"nodes cannot be listed: .*refused"):
        source.read()
    source.close()
    with pytest.raises(SourceError, match="not read any more"):
        source.read()


@pytest.mark.parametrize("amount", ["1Zi", "-5", "NaN", "1e99", "9" * 300, "", "0x10", "١"])
def test_impossible_quantities_cost_their_own_pod(filled, build, amount):
    strange = make.pod("strange", on="n1")
    strange["spec"]["containers"][0]["resources"]["requests"]["memory"] = amount
    filled.put(PODS, strange)
    source = build()
    assert [job.job_id for job in source.read().jobs] == ["team/p"]
    [pods] = [target for target in source.health() if target.target == "pods"]
    assert (pods.up, pods.skipped) == (True, 1)
    assert pods.error.startswith("1 skipped, first team/strange: ")


@pytest.mark.parametrize("year", ["0001", "9000"])
def test_a_run_does_not_end_in_a_year_that_no_clock_can_have_told(filled, build, year):
    pod = make.ended(make.pod("over", on="n1"))
    [state] = pod["status"]["containerStatuses"]
    state["state"]["terminated"]["finishedAt"] = f"{year}-01-01T00:00:00Z"
    filled.put(PODS, pod)
    source = build()
    source.read()
    assert [(run.job_id, run.end_s) for run in source.completed(0.0)] == [("team/over", START_S + 5.0)]


def test_an_impossible_amount_of_what_is_no_gpu_does_not_cost_the_node(filled, build):
    filled.put(NODES, make.node("n1", 8, **{"devices.kubevirt.io/kvm": str(2**63 - 1)}))
    source = build()
    assert [(node.name, node.gpus, node.gpus_allocated) for node in source.read().nodes] == [("n1", 8, 1)]
    assert health(source)["nodes"] == (True, "")


def test_words_of_controllers_that_attack_are_made_harmless(filled, build, until):
    evil = "Odd\x00\x1b[2J\u202e"
    cut = make.ended(make.pod("cut", make.owner("Job", "failed"), on="n1"), "Failed", exit_code=1)
    cut["status"]["conditions"].append({"type": "DisruptionTarget", "status": "True", "reason": evil})
    filled.put(PODS, cut)
    filled.put(JOBS, make.finished_job("failed", condition="Failed", reason=evil))
    filled.put(PODS, make.pod("gated", schedulingGates=[{"name": evil}], nodeSelector={"zone": evil}))
    source = build()
    [gated] = [job for job in source.read().jobs if job.job_id == "team/gated"]
    [failed] = source.completed(0.0)
    for told in (gated.reason_text, gated.request.features, failed.reason_text):
        assert "Odd" in told
        assert told.isprintable()


def test_a_pod_that_becomes_strange_still_runs_and_holds_its_gpus(filled, build, until):
    source = build()
    assert source.read().nodes[0].gpus_allocated == 1
    strange = make.pod("p", on="n1")
    strange["status"]["containerStatuses"] = [{"restartCount": 1e40}]
    filled.put(PODS, strange)
    until(lambda: "1 skipped, first team/p" in health(source)["pods"][1])
    snapshot = source.read()
    assert [(job.job_id, job.state) for job in snapshot.jobs] == [("team/p", JobState.RUNNING)]
    assert snapshot.nodes[0].gpus_allocated == 1
    assert source.completed(0.0) == []
    filled.delete(PODS, ("team", "p"))
    until(lambda: source.read().nodes[0].gpus_allocated == 0)
    assert [job.job_id for job in source.completed(0.0)] == ["team/p"]


@pytest.mark.parametrize("change", [
    {"spec": {"containers": "none"}}, {"metadata": {"labels": ["a"]}}, {"spec": {"priority": "high"}},
    {"status": {"containerStatuses": [{"restartCount": 1e40}]}}])
def test_an_object_of_another_form_costs_itself_alone_of_its_page(filled, build, change):
    strange = make.pod("strange", on="n1")
    for part, fields in change.items():
        strange[part].update(fields)
    filled.put(PODS, strange)
    filled.put(PODS, make.pod("sane", on="n1"))
    source = build()
    assert [job.job_id for job in source.read().jobs] == ["team/p", "team/sane"]
    [pods] = [target for target in source.health() if target.target == "pods"]
    assert (pods.up, pods.skipped) == (True, 1)


def test_names_that_attack_are_made_harmless_and_large_notes_are_not_kept(filled, build):
    evil = "a\x1b[2J\u202e\ud800"
    pod = make.pod("p2", on="n1", labels={"who": evil}, annotations={"notes": "x" * 2**20, "deep": "[" * 10_000})
    filled.put(PODS, json.loads(json.dumps(pod).replace("\\ud800", "")))
    job = next(job for job in build(user="label:who").read().jobs if job.job_id == "team/p2")
    assert "\x1b" not in job.user
    assert "\u202e" not in job.user
