"""Slurm judges the advice on more than a thousand random jobs; differences are printed, most frequent first."""

import pytest
from judge.trial import trial

pytestmark = [pytest.mark.stack, pytest.mark.xdist_group("stack"), pytest.mark.timeout(7200)]

HEEDLESS, PLANNING = range(1, 25, 2), range(2, 10, 2)
"""Seeds of clusters: of odd ones the scheduler starts whatever fits, in order; of even ones it plans for who waits."""


def test_a_thousand_random_jobs_on_real_slurms_fare_as_they_were_advised(capsys):
    verdict = trial(HEEDLESS, rounds=3, jobs=40)

    with capsys.disabled():
        print(f"\n{verdict}\n{verdict.listed()}")
    assert verdict.counts["jobs"] >= 1000
    assert_as_advised(verdict)


def test_what_slurm_plans_for_others_is_foreseen(capsys):
    verdict = trial(PLANNING, rounds=3, jobs=40)

    with capsys.disabled():
        print(f"\nwith plans: {verdict}\n{verdict.listed()}")
    assert_as_advised(verdict)


def assert_as_advised(verdict):
    """Hold the figures against those that are wanted."""
    assert verdict.counts["started"]
    assert not verdict.counts["broken off"]
    assert not verdict.counts["unadvised"]
    assert not verdict.counts["refused"]
    assert verdict.share("started as advised", "started") >= 0.95
    assert verdict.share("unknown", "jobs") <= 0.02
    assert verdict.share("confirmed", "feasibility") >= 0.98
    assert verdict.share("reasons alike", "reasons") >= 0.95
