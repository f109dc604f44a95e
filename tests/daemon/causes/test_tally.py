"""The tally of a run: means by time, in few bytes."""

import tracemalloc

import pytest

from idlewatt.daemon.causes.rules import CauseVerdict
from idlewatt.daemon.causes.tally import Tally
from idlewatt.storage.underuse import Cause, CauseTally

RUN = ("1", 0.0, 10.0)


def test_evidence_is_the_mean_over_the_time_in_which_it_was_measured():
    tally = Tally()
    tally.add(CauseVerdict(Cause.CPU_BOUND, 0.5, {"engine": 0.2, "cpus": 0.9}), 300.0, 0.4)
    tally.add(CauseVerdict(Cause.CPU_BOUND, 1.0, {"cpus": 0.6, "cores_per_gpu": 2.0}), 100.0, None)
    tally.add(CauseVerdict(Cause.HEAT, 1.0, {"heat": 0.3}), 0.0, 0.9)
    (row,) = tally.rows(RUN, 500.0)
    assert row == CauseTally(*RUN, Cause.CPU_BOUND, 500.0, 400.0, pytest.approx(0.625), {
        "engine": pytest.approx(0.2), "cpus": pytest.approx(0.825), "cores_per_gpu": pytest.approx(2.0)})
    assert tally.mean_activity == pytest.approx(0.4)


def test_what_was_recorded_goes_on():
    first, second = Tally(), Tally()
    first.add(CauseVerdict(Cause.POWER, 0.8, {"power": 0.5}), 300.0, 0.7)
    for row in first.rows(RUN, 500.0):
        second.resume(row)
    assert list(second.rows(RUN, 500.0)) == list(first.rows(RUN, 500.0))
    assert second.mean_activity is None


def test_the_tally_of_a_run_takes_few_bytes():
    verdicts = [CauseVerdict(cause, 0.5, dict.fromkeys(names, 0.25)) for cause, names in (
        (Cause.UNKNOWN, ("activity",)), (Cause.ONE_OF_SEVERAL, ("activity", "busiest")),
        (Cause.SMALL_BATCH, ("engine", "sm", "occupancy")))]
    tracemalloc.start()
    try:
        tallies = [Tally() for _ in range(1000)]
        for number, tally in enumerate(tallies):
            for verdict in verdicts * 2:
                tally.add(verdict, 300.0 + number, number / 1000)
        assert tracemalloc.get_traced_memory()[0] < 1200 * len(tallies)
    finally:
        tracemalloc.stop()
