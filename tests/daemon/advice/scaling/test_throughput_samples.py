import gc
import math
import tracemalloc
from dataclasses import replace

import pytest

from idlewatt.daemon.advice.held_gpus import HeldGpus
from idlewatt.daemon.advice.scaling.throughput_samples import (
    MEMORY,
    Models,
    ThroughputSample,
    WatchedRuns,
    kind_of,
    readings,
)
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request
from idlewatt.storage.speeds import JobRate, Throughput
from idlewatt.storage.telemetry import GpuReading

NOW = 1000.0
JOB = Job("7", 0.0, JobState.RUNNING, "a100", Request(4), user="alice", name="train_3", start_s=10.0,
          allocations=(Allocation("dgx1", 2, (0, 1)), Allocation("dgx2", 2, (4, 5))))
KIND = kind_of(JOB, "A100")


def gpu(node, index, activity=0.5, time_s=NOW):
    return GpuReading(f"GPU-{node}-{index}", node, index, time_s, activity=activity)


NODES = [Node("dgx1", ("a100",), 2), Node("dgx2", ("a100",), 8)]
GPUS = [gpu("dgx1", 0), gpu("dgx1", 1, 1.0), gpu("dgx2", 4), gpu("dgx2", 5)]


def read(jobs, throughput=(), gpus=GPUS):
    return readings(jobs, throughput, HeldGpus(gpus, NODES))


def seen(*rates, basis="throughput"):
    runs = WatchedRuns()
    for number, rate in enumerate(rates):
        runs.watch(JOB, KIND, ThroughputSample(basis, rate, NOW + number))
    return runs


def test_like_jobs_share_user_name_and_gpus():
    assert KIND == ("alice", "train_#", "a100")


def test_a_run_is_the_mean_of_its_readings():
    runs = seen(90.0, 100.0, 110.0)
    assert runs.of(KIND, "throughput") == [(4, 100.0)]
    (run,) = runs.changed()
    assert (run.rate, run.samples, run.gpus, run.nodes, run.last_s) == (100.0, 3, 4, 2, NOW + 2)


def test_a_run_that_was_hardly_seen_does_not_count_yet():
    assert seen(90.0, 100.0).of(KIND, "throughput") == []


def test_bases_are_never_mixed():
    assert seen(1.0, 2.0, 3.0, basis="activity").of(KIND, "throughput") == []


def test_the_same_reading_again_and_one_from_before_are_no_news():
    runs = seen(90.0, 100.0, 110.0)
    runs.watch(JOB, KIND, ThroughputSample("throughput", 500.0, NOW + 2))
    runs.watch(JOB, KIND, ThroughputSample("throughput", 500.0, NOW - 9))
    assert runs.of(KIND, "throughput") == [(4, 100.0)]


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan, math.inf])
def test_what_is_no_speed_is_not_counted(rate):
    assert seen(90.0, rate, 110.0).of(KIND, "throughput") == []


def test_what_has_changed_is_told_once():
    runs = seen(90.0, 110.0)
    assert [(run.rate, run.samples) for run in runs.changed()] == [(100.0, 2)]
    assert runs.changed() == []


def test_a_new_daemon_goes_on_where_the_last_one_was():
    runs = WatchedRuns(seen(90.0, 110.0).changed())
    runs.watch(JOB, KIND, ThroughputSample("throughput", 130.0, NOW + 60))
    assert runs.of(KIND, "throughput") == [(4, 110.0)]
    assert [(run.rate, run.samples) for run in runs.changed()] == [(110.0, 3)]


def test_a_run_that_nobody_told_of_for_a_moment_goes_on():
    runs = seen(90.0, 100.0, 110.0)
    runs.forget_ended([])
    runs.watch(JOB, KIND, ThroughputSample("throughput", 140.0, NOW + 60))
    assert runs.of(KIND, "throughput") == [(4, 110.0)]
    assert [(run.rate, run.samples, run.last_s) for run in runs.changed()] == [(110.0, 4, NOW + 60)]


def test_a_job_that_was_shrunk_begins_anew():
    runs = seen(90.0, 100.0, 110.0)
    runs.watch(replace(JOB, allocations=JOB.allocations[:1]), KIND, ThroughputSample("throughput", 50.0, NOW + 60))
    assert [(run.gpus, run.samples) for run in runs.changed()] == [(2, 1)]


def test_only_the_last_runs_of_a_kind_are_remembered():
    runs = WatchedRuns()
    for number in range(3 * MEMORY):
        for sample in range(3):
            runs.watch(replace(JOB, job_id=str(number)), KIND, ThroughputSample("throughput", 1.0 + number,
                                                                                NOW + 3 * number + sample))
    assert runs.of(KIND, "throughput") == [(4, 1.0 + number) for number in range(2 * MEMORY, 3 * MEMORY)]


def test_what_is_remembered_of_runs_that_ended_takes_a_tenth_of_a_kilobyte_each():
    runs, many = WatchedRuns(), 2_000
    tracemalloc.start()
    try:
        for number in range(many):
            job = replace(JOB, job_id=f"job {number}", user=f"user {number % 50}", submit_s=0.5 + number)
            for sample in range(3):
                runs.watch(job, kind_of(job, "A100"), ThroughputSample("activity", 1.0, NOW + sample))
        runs.forget_ended([])
        runs.changed()
        del job
        gc.collect()  # gives back what is kept for the next tuples
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert sum(len(runs.of((f"user {number}", "train_#", "a100"), "activity")) for number in range(50)) == 50 * MEMORY
    assert held < 100 * 50 * MEMORY


def rounds(runs, number, of=3, gpus=2, first_s=NOW):
    """Let so many like jobs be watched side by side for so many rounds."""
    jobs = [replace(JOB, job_id=f"{gpus}_{task}", allocations=(Allocation("dgx1", gpus),)) for task in range(number)]
    for turn in range(of):
        runs.forget_ended(jobs)
        for task in jobs:
            runs.watch(task, KIND, ThroughputSample("throughput", 1.0 + turn, first_s + 60 * turn))
    return runs


def test_more_like_jobs_at_once_than_are_remembered_all_keep_their_means():
    runs = rounds(WatchedRuns(), 5 * MEMORY)
    assert {(run.samples, run.rate) for run in runs.changed()} == {(3, 2.0)}
    assert len(runs.of(KIND, "throughput")) == MEMORY


def test_a_new_daemon_goes_on_with_more_like_jobs_than_are_remembered():
    runs = rounds(WatchedRuns(rounds(WatchedRuns(), 5 * MEMORY).changed()), 5 * MEMORY, of=1, first_s=NOW + 600)
    assert {run.samples for run in runs.changed()} == {4}


def test_many_runs_of_one_size_push_out_no_other_size():
    runs = rounds(rounds(WatchedRuns(), 2, gpus=4), 5 * MEMORY)
    assert [gpus for gpus, _ in runs.of(KIND, "throughput")] == [2] * MEMORY + [4] * 2


def test_runs_that_have_ended_still_count():
    runs = rounds(WatchedRuns(), 2)
    runs.forget_ended([])
    assert len(runs.of(KIND, "throughput")) == 2


def test_throughput_goes_before_activity():
    found = read([JOB], [Throughput(NOW, (JobRate("7", 812.0),))])
    assert found == {JOB.key: ThroughputSample("throughput", 812.0, NOW)}


def test_a_job_that_makes_no_progress_is_not_called_fast_for_its_spinning_gpus():
    assert read([JOB], [Throughput(NOW, (JobRate("7", 0.0),))])[JOB.key].rate == 0.0


def test_a_job_that_two_sources_give_has_none():
    twice = [Throughput(NOW, (JobRate("7", 812.0),)), Throughput(NOW, (JobRate("7", 813.0),))]
    assert read([JOB], twice) == {}


def test_an_arrays_task_is_found_by_the_schedulers_own_number():
    task = replace(JOB, job_id="6_2", raw_id=7)
    assert read([task], [Throughput(NOW, (JobRate("7", 812.0),))], ())[task.key].rate == 812.0


@pytest.mark.parametrize("other", [{"job_id": "7"}, {"job_id": "6_2", "raw_id": 7}])
def test_a_name_that_jobs_of_two_schedulers_have_gives_neither_a_speed(other):
    jobs = [replace(JOB, source="a"), replace(JOB, submit_s=5.0, source="b", **other)]
    rates = [Throughput(NOW, (JobRate("7", 812.0),))]
    assert read(jobs, rates) == {}
    ended = replace(jobs[0], state=JobState.COMPLETED)
    assert {key: found.rate for key, found in read([ended, jobs[1]], rates).items()} == {jobs[1].key: 812.0}


def test_jobs_of_two_schedulers_that_share_an_id_keep_their_own_activity():
    jobs = [replace(JOB, submit_s=submit_s, source=node, allocations=(Allocation(node, 1, (0,)),))
            for node, submit_s in (("dgx1", 0.0), ("dgx2", 5.0))]
    found = read(jobs, (), [gpu("dgx1", 0, 0.9), gpu("dgx2", 0, 0.2)])
    assert {key: sample.rate for key, sample in found.items()} == {jobs[0].key: 0.9, jobs[1].key: 0.2}


def test_activity_is_added_up_over_the_gpus_and_as_old_as_the_oldest():
    gpus = [*GPUS[:3], gpu("dgx2", 5, 0.5, NOW - 20)]
    assert read([JOB], (), gpus) == {JOB.key: ThroughputSample("activity", 2.5, NOW - 20)}


def test_the_scheduler_counts_without_the_holes_of_nvml():
    job = replace(JOB, allocations=(Allocation("dgx1", 1, (1,)),))
    assert read([job], (), [gpu("dgx1", 0, 0.2), gpu("dgx1", 3, 0.7)])[job.key].rate == 0.7


@pytest.mark.parametrize("gpus", [
    GPUS[:3], [*GPUS[:3], gpu("dgx2", 5, None)], [replace(one, activity=0.0) for one in GPUS], []])
def test_a_gpu_that_is_not_known_or_a_job_that_does_nothing_gives_no_speed(gpus):
    assert read([JOB], (), gpus) == {}


def test_of_a_job_whose_gpus_the_scheduler_does_not_tell_nothing_is_known():
    assert read([replace(JOB, allocations=(Allocation("dgx2", 2),))]) == {}


def test_a_job_that_is_gone_or_waits_is_not_looked_at():
    rates = [Throughput(NOW, (JobRate("7", 812.0), JobRate("999", 1.0)))]
    assert read([replace(JOB, state=JobState.COMPLETED)], rates) == {}


@pytest.mark.parametrize(("partition", "more", "model"), [
    ("a", {}, "a100"), ("b", {}, "v100"), ("all", {}, ""), ("a,b", {}, ""), ("a,a2", {}, "a100"), ("gone", {}, ""),
    ("all", {"request": Request(1, gpu_model="h100")}, "h100"),
    ("all", {"allocations": (Allocation("n2", 1),)}, "v100"),
    ("a", {"allocations": (Allocation("n1", 1), Allocation("n2", 1))}, "")])
def test_a_job_has_the_gpus_of_its_nodes_or_those_it_may_get(partition, more, model):
    nodes = (Node("n1", ("a", "a2", "all"), 8, "a100"), Node("n2", ("b", "all"), 8, "v100"), Node("n3", ("b",), 0))
    waits = Job("1", 0.0, JobState.PENDING, partition, Request(1))
    assert Models(nodes).of(replace(waits, **more)) == model
