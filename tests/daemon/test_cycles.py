"""Cycles and sources side by side: each is waited for as long as somebody wants to, and who hangs costs only itself."""

import logging
import threading
import time
from datetime import UTC, datetime, timedelta

import pytest
from cost import widened

from idlewatt.daemon.cycles import Accounts, Collection, Cycle, CycleScheduler
from idlewatt.exporters.source import SourceError, Watched
from idlewatt.storage.records import Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import NodeReading, Telemetry


class Clock:
    now = 1000.0

    def __call__(self):
        return self.now


class Gated:
    """A source that answers when its gate is open."""

    def __init__(self, name="node", role="telemetry", *, is_open=True):
        self.name, self.role, self.reads = name, role, 0
        self.gate = threading.Event()
        if is_open:
            self.gate.set()

    def read(self):
        self.gate.wait(30)
        self.reads += 1
        if self.role == "scheduler":
            return SchedulerSnapshot(1000.0, (Node(self.name, ("all",), 8),))
        return Telemetry(nodes=(NodeReading(self.name, float(self.reads), 500.0),))

    def completed(self, since_s):
        self.gate.wait(30)
        if since_s < 0:
            raise SourceError("no accounts")
        return [Job("1", since_s, JobState.COMPLETED, "all", Request(1))]

    def health(self):
        return ()

    def close(self):
        self.gate.set()


@pytest.fixture
def collected():
    made = []

    def collect(*sources):
        made.append(Collection([Watched(source, Clock()) for source in sources]))
        return made[-1]

    yield collect
    for collection in made:
        collection.leave()


def names(reads):
    return [[watched.name for watched in read] for read in reads]


def test_a_source_that_hangs_does_not_hold_up_the_others(collected):
    collection = collected(Gated("hung", is_open=False), Gated("good"))
    began = time.monotonic()
    assert names(collection.read("telemetry", within_s=0.2)) == [["good"]]
    assert time.monotonic() - began < widened(5)
    assert [reading.node for reading in collection.telemetry().nodes] == ["good"]


def test_what_has_been_read_is_told_before_the_rest_has_ended(collected):
    late = Gated("late", is_open=False)
    reads = collected(late, Gated("good")).read("telemetry", within_s=30)
    assert [watched.name for watched in next(reads)] == ["good"]
    late.gate.set()
    assert names(reads) == [["late"]]


def test_what_comes_between_two_rounds_is_told_at_the_next(collected):
    late = Gated("late", is_open=False)
    collection = collected(late)
    assert names(collection.read("telemetry", within_s=0.01)) == []
    late.gate.set()
    assert names(collection.read("telemetry", within_s=30))[0] == ["late"]


def test_a_read_that_never_ends_costs_one_thread_however_often_it_is_asked_for(collected):
    hung = Gated("hung", is_open=False)
    collection = collected(hung)
    before = threading.active_count()
    for _ in range(20):
        assert names(collection.read("telemetry", within_s=0.001)) == []
    assert threading.active_count() == before + 1


def test_only_the_roles_that_are_asked_for_are_read(collected):
    scheduler, telemetry = Gated("slurm", "scheduler", is_open=False), Gated("node")
    collection = collected(scheduler, telemetry)
    assert names(collection.read("telemetry", within_s=30)) == [["node"]]
    assert telemetry.reads == 1


def test_leaving_ends_all_waiting_and_spares_the_sources_that_go_on(collected):
    hung, kept = Gated("hung", is_open=False), Gated("kept", is_open=False)
    collection = collected(hung, kept)
    waiter = threading.Thread(target=lambda: list(collection.read("telemetry", within_s=60)))
    waiter.start()
    collection.leave(but=collection.sources[1:])
    waiter.join(10)
    assert not waiter.is_alive()
    assert hung.gate.wait(10)
    assert not kept.gate.is_set()


def test_a_source_that_goes_on_after_a_reload_is_not_read_twice_at_once():
    hung = Gated("hung", is_open=False)
    watched = Watched(hung, Clock())
    old = Collection([watched])
    assert names(old.read("telemetry", within_s=0.01)) == []
    before = threading.active_count()
    old.leave(but=[watched])
    new = Collection([watched], old)
    assert names(new.read("telemetry", within_s=0.01)) == []
    assert threading.active_count() == before
    hung.gate.set()
    assert names(new.read("telemetry", within_s=30))[0] == ["hung"]
    new.leave()


def test_accounts_that_take_long_are_waited_for_in_the_background_and_told_later():
    source = Gated("slurm", "scheduler", is_open=False)
    (accounts,) = Collection([Watched(source, Clock())]).accounts(Clock())
    assert accounts.finished(5.0, within_s=0.01) is None
    assert accounts.finished(7.0, within_s=0.01) is None
    source.gate.set()
    told = accounts.finished(9.0, within_s=30)
    assert (told.requested_s, [job.submit_s for job in told.jobs]) == (1000.0, [5.0])


def test_accounts_that_cannot_be_read_are_said_and_asked_again(caplog):
    accounts = Accounts("slurm", Gated("slurm", "scheduler"), Clock())
    assert accounts.finished(-1.0, within_s=30) is None
    assert "accounting cannot be read" in caplog.text
    assert accounts.finished(1.0, within_s=30) is not None


def test_a_scheduler_that_keeps_no_accounts_is_not_asked_for_them():
    class Forgetful:
        name, role = "queue", "scheduler"

        def read(self):
            return SchedulerSnapshot(1000.0)

        def health(self):
            return ()

        def close(self):
            """Nothing is held."""

    keeps, forgets = Watched(Gated("slurm", "scheduler"), Clock()), Watched(Forgetful(), Clock())
    assert len(Collection([forgets]).accounts(Clock())) == 0
    assert len(Collection([keeps, forgets]).accounts(Clock())) == 1


@pytest.fixture
def beating():
    started = []

    def start(*cycles, **options):
        beat = CycleScheduler(cycles, **options)
        beat.start()
        started.append(beat)
        return beat

    yield start
    for beat in started:
        beat.stop()


def wait_until(condition, timeout_s=60.0):
    event, deadline = threading.Event(), time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        event.wait(0.005)


def test_a_cycle_runs_again_and_again_and_is_counted(beating):
    beat = beating(Cycle("scrape", 0.02, lambda: None))
    wait_until(lambda: beat.health()["scrape"].runs >= 3)
    health = beat.health()["scrape"]
    assert health.failures == 0
    assert health.last_duration_s < 5


def test_beats_do_not_drift_with_the_length_of_a_run(beating):
    times = []

    def run():
        times.append(time.monotonic())
        threading.Event().wait(0.05)

    beat = beating(Cycle("assess", 0.1, run))
    wait_until(lambda: beat.health()["assess"].runs >= 8)
    # 7 periods after the first beat, had the run time been added it would be 7 * 0.15.
    assert times[7] - times[0] < 0.85 + 0.1 * beat.health()["assess"].overruns


def test_a_run_that_is_too_long_skips_beats_never_overlaps_and_is_counted(beating, caplog):
    inside, most = [], []
    release = threading.Event()

    def run():
        inside.append(1)
        most.append(len(inside))
        release.wait(10)
        inside.pop()

    with caplog.at_level(logging.WARNING):
        beat = beating(Cycle("advise", 0.02, run))
        wait_until(lambda: beat.health()["advise"].overruns >= 2)
    release.set()
    assert max(most) == 1
    assert "cycle overran its period" in caplog.text


def test_a_cycle_that_raises_is_counted_logged_and_runs_again(beating, caplog):
    def run():
        raise ValueError("poison row")

    beat = beating(Cycle("record", 0.02, run))
    wait_until(lambda: beat.health()["record"].failures >= 2)
    assert "poison row" in caplog.text


def test_one_hanging_cycle_does_not_stop_another_and_is_named(beating):
    release = threading.Event()
    clock_offset = [0.0]
    beat = beating(Cycle("scrape", 0.02, lambda: None), Cycle("jobs", 0.02, lambda: release.wait(10)),
                   clock=lambda: time.monotonic() + clock_offset[0])
    wait_until(lambda: beat.health()["scrape"].runs >= 3)
    assert beat.hung() == []
    clock_offset[0] = 100.0
    runs = beat.health()["scrape"].runs
    wait_until(lambda: beat.health()["scrape"].runs > runs + 1)
    assert beat.hung() == ["jobs"]
    release.set()


def test_a_cycle_that_waits_for_others_first_runs_once_they_have(beating):
    release = threading.Event()
    beat = beating(Cycle("jobs", 60, lambda: release.wait(10)), Cycle("scrape", 60, lambda: None),
                   Cycle("assess", 60, lambda: None, 30, ("scrape", "jobs")))
    wait_until(lambda: beat.health()["scrape"].runs == 1)
    assert beat.health()["assess"].runs == 0
    release.set()
    wait_until(lambda: beat.health()["assess"].runs == 1)


def test_a_cycle_that_hangs_is_named_and_left_behind_at_the_end(beating, caplog):
    release, inside = threading.Event(), threading.Event()

    def run():
        inside.set()
        release.wait(20)

    beat = beating(Cycle("record", 60, run))
    assert inside.wait(10)
    beat.stop(0.01)
    assert "cycles hang and are not waited for" in caplog.text
    release.set()


def test_a_wall_clock_that_is_set_back_costs_no_beat(beating):
    """After it, due times that were right lie an hour ahead: as here."""
    beat = beating(Cycle("scrape", 0.05, lambda: None), Cycle("record", 60, lambda: None, 60))
    wait_until(lambda: beat.health()["scrape"].runs >= 2)
    for job in beat._scheduler.get_jobs():
        beat._scheduler.modify_job(job.id, next_run_time=job.next_run_time + timedelta(hours=1))
    runs = beat.health()["scrape"].runs
    beat.keep_time()
    wait_until(lambda: beat.health()["scrape"].runs >= runs + 3)
    away = beat._scheduler.get_job("record").next_run_time - datetime.now(UTC)
    assert away <= timedelta(seconds=60)


def test_a_clock_that_goes_right_moves_no_beat(beating):
    beat = beating(Cycle("record", 60, lambda: None, 60), Cycle("moves", 10, lambda: None, 30))
    before = {job.id: job.next_run_time for job in beat._scheduler.get_jobs()}
    beat.keep_time()
    assert {job.id: job.next_run_time for job in beat._scheduler.get_jobs()} == before


def test_a_run_that_goes_on_is_seen_with_its_length_while_it_does(beating):
    release = threading.Event()
    beat = beating(Cycle("scrape", 0.02, lambda: release.wait(10)))
    wait_until(lambda: (beat.health()["scrape"].running_s or 0.0) > 0.01)
    release.set()
    wait_until(lambda: beat.health()["scrape"].runs)


def test_whether_the_last_run_failed_is_known(beating):
    faults = [ValueError("once")]

    def run():
        if faults:
            raise faults.pop()

    beat = beating(Cycle("jobs", 0.02, run))
    wait_until(lambda: beat.health()["jobs"].runs >= 2)
    assert (beat.health()["jobs"].failures, beat.health()["jobs"].failed) == (1, False)
