"""A job keeps its name whatever becomes of the batch job that owns its pods."""

import json

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.kubernetes.batches import strange_batch
from idlewatt.exporters.simulated.api_server import Fault
from idlewatt.exporters.simulated.api_store import JOBS, NODES, PODS, WORKLOADS
from idlewatt.storage.records import JobState

UNREADABLE = [{"metadata": {"labels": ["a"]}}, {"spec": {"suspend": "perhaps"}}, {"status": 7},
              {"metadata": {"creationTimestamp": "0001-01-01T00:00:00Z"}, "status": {"conditions": "none"}}]


def of_cron(change=None):
    """Return a batch job of a CronJob, with what is changed of its parts; its name says that it is strange."""
    job = make.job("strange", make.owner("CronJob", "nightly"))
    for part, fields in (change or {}).items():
        job[part] = {**job[part], **fields} if isinstance(fields, dict) else fields
    return job


@pytest.fixture
def source(store, server):
    store.put(NODES, make.node("n1", 8))
    store.put(PODS, make.pod("run", make.owner("Job", "strange"), on="n1", gpus=2))
    made = KubernetesConfig.model_validate({"kind": "kubernetes", "url": server.url}).build(lambda: START_S + 60.0)
    yield made
    made.close()


@pytest.fixture
def names(source, store, until):
    """Return the function that tells the jobs of the moment, once all that the server has is known."""
    def names():
        source.read()
        until(lambda: all(int(version or 0) >= store.version for version in source.versions.values()))
        return sorted(job.job_id for job in source.read().jobs)

    return names


@pytest.mark.parametrize("change", UNREADABLE)
def test_a_batch_job_that_is_strange_from_the_first_gives_its_pods_their_lasting_name(store, source, names, change):
    store.put(JOBS, of_cron(change))
    assert names() == ["team/nightly"]
    store.put(JOBS, of_cron())
    assert names() == ["team/nightly"]
    assert source.completed(0.0) == []


@pytest.mark.parametrize("change", [*UNREADABLE, {"metadata": {"ownerReferences": "none"}}])
def test_a_batch_job_that_becomes_strange_changes_no_name(store, source, names, change):
    store.put(JOBS, of_cron())
    assert names() == ["team/nightly"]
    store.put(JOBS, of_cron(change))
    assert names() == ["team/nightly"]
    assert source.completed(0.0) == []


def test_pods_of_a_batch_job_whose_owner_cannot_be_told_are_told_once_it_can(store, source, names):
    store.put(JOBS, of_cron({"metadata": {"ownerReferences": "none"}}))
    store.put(PODS, make.pod("other", make.owner("Job", "sane")))
    assert names() == ["team/sane"]
    assert source.read().nodes[0].gpus_allocated == 2  # what it holds is held all the same
    store.put(JOBS, of_cron())
    assert names() == ["team/nightly", "team/sane"]
    assert source.completed(0.0) == []


def test_no_pod_of_an_unknown_batch_job_is_told_while_one_has_no_name(store, server, source, names, until):
    server.api.faults.append(Fault("/apis/batch/v1/jobs", 200, watches=False, body=json.dumps({
        "kind": "JobList", "metadata": {"resourceVersion": str(store.version)}, "items": [{"metadata": 7}]}).encode()))
    store.put(PODS, make.pod("bare", on="n1"))
    source.read()
    until(lambda: [job.job_id for job in source.read().jobs] == ["team/bare"])
    assert strange_batch(b"[]").may_own(source._reflectors["pods"].kept()[0])


def test_a_batch_job_that_is_deleted_before_its_pods_leaves_them_their_name(store, source, names):
    store.put(JOBS, of_cron())
    assert names() == ["team/nightly"]
    store.delete(JOBS, ("team", "strange"))  # as ``kubectl delete`` does, which leaves pods to the garbage collector
    assert names() == ["team/nightly"]
    assert source.completed(0.0) == []
    store.delete(PODS, ("team", "run"))
    assert names() == []
    assert [job.job_id for job in source.completed(0.0)] == ["team/nightly"]
    source.read()
    assert source._batches._named == {}  # nothing is kept of what nobody names


def test_what_waits_in_a_queue_for_a_cron_job_has_the_name_that_it_runs_under(store, source, names):
    store.put(JOBS, of_cron())
    waits = {
        "metadata": {"name": "job-1", "namespace": "team", "creationTimestamp": make.moment(START_S),
                     "ownerReferences": [make.owner("Job", "strange")]},
        "spec": {"queueName": "lq", "podSets": [{"name": "main", "count": 1, "template": {
            "spec": {"containers": [make.container(2)]}}}]}, "status": {}}
    store.put(WORKLOADS, waits)
    assert names() == ["team/nightly"]
    store.put(WORKLOADS, {**waits, "metadata": {**waits["metadata"], "name": "over"}, "status": {"conditions": [
        {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "",
         "lastTransitionTime": make.moment(START_S)}]}})  # of the night before
    store.delete(PODS, ("team", "run"))
    assert names() == ["team/nightly"]
    assert source.read().jobs[0].state is JobState.PENDING


def night(store, number, hours, *, over):
    """Put the batch job and the pod of one night into the store."""
    begun_s = START_S + 3600.0 * (hours - 100.0)
    run = make.owner("Job", f"nightly-{number}")
    pod = make.pod(f"nightly-{number}-x", run, on="n1", gpus=2, created_s=begun_s)
    store.put(PODS, make.ended(pod, end_s=begun_s + 60.0) if over else pod)
    made = make.finished_job if over else make.job
    more = {"end_s": begun_s + 61.0} if over else {}
    store.put(JOBS, made(f"nightly-{number}", make.owner("CronJob", "nightly"), created_s=begun_s - 1.0, **more))
    return begun_s - 1.0


def test_each_night_of_a_cron_job_is_a_run_of_its_own_under_one_name(store, source, names):
    store.delete(PODS, ("team", "run"))
    submitted = [night(store, 1, 0, over=True), night(store, 2, 24, over=True), night(store, 3, 48, over=False)]
    assert names() == ["team/nightly"]
    assert [job.submit_s for job in source.read().jobs] == submitted[2:]
    night(store, 3, 48, over=True)
    assert names() == []
    runs = source.completed(0.0)
    assert sorted((run.job_id, run.submit_s, sum(part.gpus for part in run.allocations)) for run in runs) == [
        ("team/nightly", told_s, 2) for told_s in submitted]
    assert max(run.end_s - run.start_s for run in runs) < 60.0


def test_nights_of_a_cron_job_that_overlap_have_each_a_name_that_they_keep(store, source, names):
    store.delete(PODS, ("team", "run"))
    night(store, 1, 0, over=False)
    assert names() == ["team/nightly"]
    night(store, 2, 24, over=False)
    assert names() == ["team/nightly", "team/nightly-2"]
    night(store, 1, 0, over=True)
    assert names() == ["team/nightly-2"]
    night(store, 3, 48, over=False)
    assert names() == ["team/nightly", "team/nightly-2"]


def test_a_job_is_known_by_the_batch_job_that_makes_its_pods(store, source):
    store.put(PODS, make.pod("alone-x", make.owner("Job", "alone"), gpus=1))
    store.put(JOBS, make.job("alone"))
    store.put(JOBS, make.job("nightly-2893", make.owner("CronJob", "nightly")))
    store.put(PODS, make.pod("nightly-2893-x", make.owner("Job", "nightly-2893"), gpus=2))
    known = {job.job_id: job.steering.batches for job in source.read().jobs if job.steering}
    assert (known["team/nightly"], known["team/alone"]) == (("nightly-2893",), ())


def test_a_batch_job_of_a_cron_job_is_known_from_its_pods_once_it_is_gone(store, source):
    store.put(JOBS, job := make.job("nightly-2893", make.owner("CronJob", "nightly")))
    store.put(PODS, make.pod("nightly-2893-x", make.owner("Job", "nightly-2893"), gpus=2))
    source.read()
    store.delete(JOBS, ("team", job["metadata"]["name"]))
    known = {job.job_id: job.steering.batches for job in source.read().jobs if job.steering}
    assert known["team/nightly"] == ("nightly-2893",)
