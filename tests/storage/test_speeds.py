import math
from dataclasses import replace

from idlewatt.storage.history import History
from idlewatt.storage.retention import Retention
from idlewatt.storage.speeds import RunSpeed

RUN = RunSpeed("7", 10.0, 20.0, "alice", "train_#", "a100", 4, 1, "throughput", 812.5, 3, 600.0)


def test_runs_survive_a_restart_the_oldest_first(url):
    other = replace(RUN, job_id="8", last_s=300.0)
    with History.open(url) as history:
        history.record_speeds([RUN, other])
    with History.open(url) as history:
        assert history.speeds(10) == (other, RUN)
        assert history.speeds(1) == (RUN,)


def test_the_same_run_and_basis_again_replaces_and_another_basis_is_beside_it(history):
    history.record_speeds([RUN])
    history.record_speeds([replace(RUN, rate=900.0, samples=4, last_s=660.0), replace(RUN, basis="activity", rate=3.6)])
    assert [(run.basis, run.rate, run.samples) for run in history.speeds(10)] == [
        ("activity", 3.6, 3), ("throughput", 900.0, 4)]


def test_what_is_no_number_is_not_recorded_and_hostile_names_are_bent(history):
    history.record_speeds([replace(RUN, rate=math.nan), replace(RUN, job_id="9", user="a\0b", template="\ud800")])
    (run,) = history.speeds(10)
    assert (run.job_id, run.user, run.template) == ("9", "ab", "?")


def test_old_runs_go(history):
    history.record_speeds([RUN, replace(RUN, job_id="8", last_s=50_000.0), replace(RUN, job_id="9", last_s=49_999.0)])
    history.compact(100_000.0, Retention(speeds_s=50_000.0))
    assert [run.job_id for run in history.speeds(10)] == ["8"]
