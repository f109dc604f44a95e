"""What a watch keeps of the GPUs of running jobs from one reading to the next."""

import gc
from dataclasses import replace

from labelled import MODEL, NOW, SETTLED_S, levels, watch

from idlewatt.daemon.advice.held_gpus import HeldGpus
from idlewatt.daemon.causes import CauseWatch
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuReading, Telemetry
from idlewatt.storage.underuse import Cause, CauseTally


def kept() -> int:
    """Count the readings of labelled jobs that are alive; a thread of a test before may make others meanwhile.

    ``isinstance`` would ask weak proxies for the class of what they stand for, which may be gone.
    """
    return sum(type(one) is GpuReading and one.time_s > NOW and one.model == MODEL for one in gc.get_objects())


def test_no_reading_is_kept_until_the_next_one_comes():
    gc.collect()  # what tests before have left in circles, which might go in between
    before = kept()
    watcher = watch(levels(Cause.NONE, 0, minutes=12))
    assert kept() <= before
    assert len(list(watcher.running(NOW))) == 1


def on(nodes: str, now: float, state: JobState = JobState.RUNNING) -> tuple[SchedulerSnapshot, Telemetry]:
    """Return a job with a GPU on each of some nodes, and what all nodes' exporters say."""
    parts = tuple(Allocation(node, 1, (0,), 8) for node in nodes)
    job = Job("1", NOW, state, "p", Request(len(nodes)), start_s=NOW, allocations=parts)
    gpus = tuple(GpuReading(f"GPU-{node}", node, 0, now, MODEL, activity=0.9, activity_source="sm_active")
                 for node in "ab")
    return SchedulerSnapshot(now, tuple(Node(node, ("p",), 1, cpus=8) for node in "ab"), (), (job,)), Telemetry(gpus)


def look(watcher: CauseWatch, nodes: str, after_s: float, state: JobState = JobState.RUNNING) -> None:
    snapshot, telemetry = on(nodes, NOW + SETTLED_S + after_s, state)
    watcher.observe(snapshot, telemetry, HeldGpus(telemetry.gpus, snapshot.nodes).of, snapshot.time_s)


def judged_s(watcher: CauseWatch) -> float:
    """Return the time of GPUs that was judged of the job that runs."""
    (_, tallies, _), = watcher.running(NOW)
    return sum(one.gpu_seconds for one in tallies)


def test_a_job_that_leaves_a_node_is_judged_by_the_gpus_that_it_keeps():
    watcher = CauseWatch()
    for after_s in range(0, 251, 50):
        look(watcher, "ab", after_s)
    look(watcher, "b", 300)
    assert judged_s(watcher) == 300.0
    for after_s in range(350, 601, 50):
        look(watcher, "b", after_s)
    assert judged_s(watcher) == 600.0


def test_a_suspended_job_is_told_of_no_more_and_keeps_what_was_judged():
    watcher = CauseWatch()
    for after_s in range(0, 951, 50):
        look(watcher, "ab", after_s)
    look(watcher, "ab", 1000, JobState.SUSPENDED)
    assert list(watcher.running(NOW)) == []
    for after_s in range(1050, 1351, 50):
        look(watcher, "ab", after_s)
    # The window that was open as it was suspended is not judged: nobody knows when within a look that was.
    assert judged_s(watcher) == 2 * 900.0 + 2 * 250.0


def test_a_run_that_is_listed_again_before_its_end_is_recorded_is_the_same():
    watcher = CauseWatch()
    for after_s in range(0, 351, 50):
        look(watcher, "ab", after_s)
    look(watcher, "", 400)
    look(watcher, "ab", 450)
    assert judged_s(watcher) == 600.0
    watcher.resume([])
    assert sum(one.gpu_seconds for one in watcher.unrecorded(NOW)) == 600.0


def test_nothing_is_recorded_of_a_run_until_it_is_known_what_was_recorded_before():
    watcher = CauseWatch()
    for after_s in range(0, 351, 50):
        look(watcher, "ab", after_s)
    look(watcher, "", 400)
    assert watcher.unrecorded(NOW) == []
    (run,) = watcher.unresumed()
    watcher.resume([CauseTally(*run, Cause.HEAT, NOW, 1000.0, 0.9)])
    assert watcher.unresumed() == set()
    assert sum(one.gpu_seconds for one in watcher.unrecorded(NOW)) == 1600.0


def test_runs_that_cannot_be_recorded_for_long_do_not_pile_up(monkeypatch):
    monkeypatch.setattr("idlewatt.daemon.causes.watch.MOST_ENDED", 2)
    watcher = CauseWatch()
    for after_s in (*range(0, 351, 50), 400):
        snapshot, telemetry = on("ab", NOW + SETTLED_S + after_s)
        jobs = tuple(replace(snapshot.jobs[0], job_id=number, allocations=(Allocation(node, 1, (0,), 8),))
                     for number, node in ("1a", "2b")) if after_s < 400 else ()
        watcher.observe(replace(snapshot, jobs=jobs), telemetry, HeldGpus(telemetry.gpus, snapshot.nodes).of,
                        snapshot.time_s)
    assert len(watcher.unresumed()) == 2
    monkeypatch.setattr("idlewatt.daemon.causes.watch.MOST_ENDED", 1)
    look(watcher, "", 450)
    assert {job_id for job_id, *_ in watcher.unresumed()} == {"2"}
