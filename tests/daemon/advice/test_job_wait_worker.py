"""Wait estimates are worked out beside those who ask, told again for a minute, and never more than a few at a time."""

import subprocess
import sys
from concurrent.futures import wait
from threading import Event

import pytest

from idlewatt.daemon.advice.job_wait_worker import KEPT_S, MOST_AT_ONCE, JobWaitWorker, NotYet
from idlewatt.storage.records import Job, JobState, Request, SchedulerSnapshot

NOW = 1_000_000.0


class Slow:
    """Wait estimates that are there once a test lets them be."""

    def __init__(self) -> None:
        self.go, self.asked = Event(), []

    def of(self, job_id):
        assert self.go.wait(10)
        self.asked.append(job_id)
        return f"wait estimate of {job_id}"


def waits(job_id):
    return Job(job_id, NOW, JobState.PENDING, "p", Request(8))


def snapshot(*jobs, at_s=NOW):
    return SchedulerSnapshot(at_s, (), (), (Job("1", NOW, JobState.RUNNING, "p", Request(8)), *jobs))


@pytest.fixture
def worker():
    made = JobWaitWorker()
    yield made
    made.close()


@pytest.fixture
def slow():
    made = Slow()
    yield made
    made.go.set()


def test_who_does_not_wait_for_it_is_told_that_it_comes_and_then_has_it(worker, slow):
    with pytest.raises(NotYet):
        worker.ask("5", snapshot(waits("5")), "fifo", lambda: slow, 0.0)
    slow.go.set()
    assert worker.ask("5", snapshot(waits("5")), "fifo", lambda: slow, None) == "wait estimate of 5"
    assert slow.asked == ["5"]


def test_a_wait_estimate_serves_for_a_minute_and_is_made_anew_for_other_terms_or_a_job_that_came_since(worker, slow):
    slow.go.set()
    made = []

    def ask(job_id, *jobs, at_s=NOW, terms="fifo"):
        return worker.ask(job_id, snapshot(*jobs, at_s=at_s), terms, lambda: made.append(at_s) or slow)

    five, six = waits("5"), waits("6")
    ask("5", five)
    ask("5", five, at_s=NOW + KEPT_S - 1)
    assert made == [NOW]
    ask("6", five, six, at_s=NOW + 1)
    ask("6", five, six, at_s=NOW + 2, terms="sjf")
    ask("6", five, six, at_s=NOW + 2 + KEPT_S, terms="sjf")
    assert made == [NOW, NOW + 1, NOW + 2, NOW + 2 + KEPT_S]


def test_a_job_that_has_started_since_has_no_wait_estimate(worker, slow):
    slow.go.set()
    worker.ask("5", snapshot(waits("5")), "fifo", lambda: slow)
    assert worker.ask("5", snapshot(), "fifo", lambda: slow) == ()


def test_no_more_than_a_few_are_worked_out_at_a_time(worker, slow):
    crowd = [waits(str(number)) for number in range(10, 10 + MOST_AT_ONCE + 1)]
    for job in crowd:
        with pytest.raises(NotYet):
            worker.ask(job.job_id, snapshot(*crowd), "fifo", lambda: slow, 0.0)
    slow.go.set()
    wait(worker._futures.values(), 10)
    assert slow.asked == [job.job_id for job in crowd[:-1]]


def test_what_went_wrong_is_told_and_tried_again(worker, slow):
    def broken():
        raise ValueError("no policy")

    with pytest.raises(ValueError, match="no policy"):
        worker.ask("5", snapshot(waits("5")), "fifo", broken)
    slow.go.set()
    assert worker.ask("5", snapshot(waits("5")), "fifo", lambda: slow) == "wait estimate of 5"


def test_a_process_ends_although_a_wait_estimate_never_comes():
    code = ("import threading; from idlewatt.daemon.advice.job_wait_worker import *; "
            "from idlewatt.storage.records import Job, Request; "
            "waits = Job('5', 0.0, JobState.PENDING, 'p', Request(8)); w = JobWaitWorker()\n"
            "try: w.ask('5', SchedulerSnapshot(0.0, (), (), (waits,)), 'fifo', threading.Event().wait, 0.0)\n"
            "except NotYet: w.close()")
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0
