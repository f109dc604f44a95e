"""What is recorded of a run: of one that nobody saw no more than it held at once, of one that was seen all its time."""

import kube_objects as make
import pytest
from kube_objects import START_S

from idlewatt.exporters.kubernetes import KubernetesConfig
from idlewatt.exporters.simulated.api_store import JOBS, NODES, PODS
from idlewatt.storage.records import JobState

TRAIN = make.owner("Job", "train")


@pytest.fixture
def put(store):
    """Return the function that leaves ended pods of a finished Job, each with its start and end."""
    store.put(NODES, make.node("n1", 8))
    store.put(NODES, make.node("n2", 8))
    store.put(JOBS, make.finished_job("train", end_s=START_S + 9000.0))

    def put(*spans, phase="Succeeded", gpus=8, node="n1"):
        for start_s, end_s in spans:
            found = make.pod(f"train-{len(store.names(PODS)):02}", TRAIN, on=node, gpus=gpus, created_s=START_S,
                             scheduled_s=START_S + start_s)
            store.put(PODS, make.ended(found, phase, START_S + end_s))

    return put


@pytest.fixture
def run(build):
    """Return the function that starts a daemon's source, and returns the only run that has ended."""
    def run():
        source = build()
        assert source.read().jobs == ()
        [one] = source.completed(0.0)
        return one

    return run


def held(run):
    return run.request.gpus, [(part.node, part.gpus) for part in run.allocations]


def test_pods_that_followed_each_other_held_the_gpus_of_one(put, run):
    put((10, 100), (100, 200), phase="Failed")
    put((205, 600))
    found = run()
    assert held(found) == (8, [("n1", 8)])
    assert (found.request.cpus, found.allocations[0].cpus) == (8, 8)
    assert (found.start_s, found.end_s) == (START_S + 10, START_S + 9000)


def test_pods_that_ran_together_are_added_up(put, run):
    put((10, 600))
    put((12, 590), node="n2")
    assert held(run()) == (16, [("n1", 8), ("n2", 8)])


def test_an_indexed_job_of_many_pods_held_as_many_gpus_as_ran_at_once(put, run):
    put(*((100 * turn, 100 * turn + 100) for turn in range(5) for _ in range(4)), gpus=1)
    found = run()
    assert held(found) == (4, [("n1", 4)])
    assert (found.start_s, found.end_s) == (START_S, START_S + 9000)
    # The last ones, as a daemon that had seen it run would have recorded it.
    assert found.allocations[0].members == tuple(f"team/train-{number:02}" for number in range(16, 20))


def test_pods_without_gpus_that_ran_beside_the_others_belong_to_the_job(put, run):
    put((10, 600), gpus=0)
    put((20, 500))
    put((505, 550), gpus=0)
    found = run()
    assert held(found) == (8, [("n1", 8)])
    assert found.request.cpus == 16


def test_a_pod_that_was_refused_by_its_node_is_not_added_to_those_that_ran(store, put, run):
    refused = make.pod("train-refused", TRAIN, on="n1", gpus=8, scheduled_s=START_S + 5)
    refused["status"].update(phase="Failed", reason="UnexpectedAdmissionError")
    store.put(PODS, refused)
    put((10, 600))
    assert held(run()) == (8, [("n1", 8)])


def test_what_a_daemon_saw_run_is_not_recorded_larger_after_its_restart(store, build, put, run):
    pod = make.pod("train-last", TRAIN, on="n1", gpus=8, scheduled_s=START_S + 20)
    put((10, 15), phase="Failed")
    store.put(JOBS, make.job("train"))
    store.put(PODS, pod)
    [seen] = build().read().jobs
    store.put(JOBS, make.finished_job("train"))
    store.put(PODS, make.ended(pod))
    found = run()
    assert (found.key, found.request.gpus, found.allocations[0].gpus) == (seen.key, seen.request.gpus, 8)


@pytest.fixture
def look(server, store, until):
    """Return the function that reads the source so many seconds after the start, once it has heard of everything."""
    now_s = [START_S]
    source = KubernetesConfig(kind="kubernetes", url=server.url).build(lambda: now_s[0])
    store.put(NODES, make.node("n1", 8))
    store.put(JOBS, make.job("train"))

    def look(after_s):
        now_s[0] = START_S + after_s
        until(lambda: source.versions or source.read())
        until(lambda: all(int(version or 0) >= store.version for version in source.versions.values()))
        return source.read().jobs, source.completed(0.0)

    yield look
    source.close()


def first_pod(phase="Failed", end_s=100.0, reason="OOMKilled"):
    """Return a pod of the job that has ended, and stays."""
    found = make.ended(make.pod("train-1", TRAIN, on="n1"), phase, START_S + end_s, 137 if phase == "Failed" else 0)
    found["status"]["containerStatuses"][0]["state"]["terminated"]["reason"] = reason
    return found


def second_pod():
    return make.pod("train-2", TRAIN, on="n1", created_s=START_S + 200.0, scheduled_s=START_S + 200.0)


@pytest.mark.parametrize("before", [first_pod(), first_pod("Succeeded", 600.0, "Completed")],
                         ids=["a failed one", "a finished index"])
def test_a_run_ends_with_the_pod_that_was_seen_running_not_with_one_that_ended_long_before(store, look, before):
    store.put(PODS, before)
    store.put(PODS, second_pod())
    [job], _ = look(5000.0)
    store.delete(PODS, ("team", "train-2"))
    _, [run] = look(5060.0)
    assert (run.key, run.end_s) == (job.key, START_S + 5060.0)


def test_a_run_whose_pod_is_deleted_by_force_ends_with_the_deletion(store, look):
    store.put(PODS, first_pod())
    store.put(PODS, second_pod())
    look(5000.0)
    deleted = second_pod()
    deleted["metadata"] |= {"deletionTimestamp": make.moment(START_S + 5030.0), "deletionGracePeriodSeconds": 0}
    store.put(PODS, deleted)
    store.delete(PODS, ("team", "train-2"))
    _, [run] = look(5060.0)
    assert run.end_s == START_S + 5030.0


def test_a_run_does_not_end_before_it_was_last_seen_running_unless_its_pods_say_so(store, look):
    store.put(PODS, second_pod())
    look(5000.0)
    store.delete(PODS, ("team", "train-2"))
    store.put(JOBS, make.finished_job("train", end_s=START_S + 4000.0))
    _, [run] = look(5060.0)
    assert run.end_s == START_S + 5000.0


def test_a_run_is_not_judged_by_a_pod_of_an_earlier_run(store, look):
    store.put(PODS, first_pod())
    _, [first] = look(150.0)
    assert (first.state, first.exit_code) == (JobState.OUT_OF_MEMORY, 137)
    store.put(PODS, second_pod())
    look(300.0)
    store.put(PODS, make.ended(second_pod(), "Failed", START_S + 900.0, 143))
    _, [_, second] = look(1000.0)
    assert (second.state, second.reason_text, second.exit_code) == (JobState.FAILED, "Error", 143)


def test_a_service_that_is_scaled_to_nothing_is_not_judged_by_a_pod_that_was_evicted_before(store, look):
    replicas = make.owner("ReplicaSet", "llm-5d9", "apps/v1")
    evicted = make.pod("llm-1", replicas, on="n1", phase="Failed", labels={"pod-template-hash": "5d9"})
    evicted["status"]["reason"] = "Evicted"
    store.put(PODS, evicted)
    late = make.pod("llm-2", replicas, on="n1", labels={"pod-template-hash": "5d9"}, scheduled_s=START_S + 700.0)
    store.put(PODS, late)
    look(5000.0)
    store.put(PODS, make.ended(late, "Succeeded", START_S + 5030.0))
    store.delete(PODS, ("team", "llm-2"))
    _, [run] = look(5060.0)
    assert (run.state, run.reason_text, run.exit_code) == (JobState.COMPLETED, "", 0)


def test_a_job_that_is_complete_ended_with_nothing_wrong_whatever_its_pods_were_retried_for(store, look):
    store.put(PODS, first_pod())
    look(90.0)
    store.put(PODS, second_pod())
    look(300.0)
    store.put(PODS, make.ended(second_pod(), "Succeeded", START_S + 900.0))
    store.put(JOBS, make.finished_job("train", end_s=START_S + 900.0))
    _, runs = look(1000.0)
    assert (runs[-1].state, runs[-1].exit_code) == (JobState.COMPLETED, 0)


def test_an_index_that_failed_while_the_others_ran_on_decides_how_the_run_ended(store, look):
    store.put(PODS, make.pod("train-1", TRAIN, on="n1"))
    store.put(PODS, second_pod())
    look(300.0)
    store.put(PODS, first_pod(end_s=400.0))
    look(500.0)
    store.put(PODS, make.ended(second_pod(), "Failed", START_S + 600.0, 143))
    _, [run] = look(700.0)
    assert (run.state, run.exit_code, run.end_s) == (JobState.OUT_OF_MEMORY, 143, START_S + 600.0)
