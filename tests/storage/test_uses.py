"""What runs used: recorded by run, bent where hostile, gone when old."""

import math
from dataclasses import replace

import pytest

from idlewatt.storage.history import History
from idlewatt.storage.retention import Retention
from idlewatt.storage.uses import Use

USE = Use("7", 10.0, 20.0, "ann", "train_#", 2, 16, 2**36, 600.0, 580.0, "cgroup", 3.5, 6.25, 0.1, 2.0**34, 0.8)


def test_uses_survive_a_restart_the_oldest_first(url):
    other = replace(USE, job_id="8", updated_s=300.0, memory_peak_bytes=None, activity=None)
    with History.open(url) as history:
        history.record_uses([USE, other])
    with History.open(url) as history:
        assert history.uses() == (other, USE)
        assert history.uses(300.1) == (USE,)
        assert history.uses(last=1) == (USE,)


def test_the_same_run_again_replaces_and_another_run_of_the_job_is_beside_it(history):
    history.record_uses([USE, replace(USE, cpus_p95=9.0)])
    history.record_uses([replace(USE, cpus_p95=12.0, updated_s=900.0), replace(USE, start_s=500.0)])
    assert [(use.start_s, use.cpus_p95) for use in history.uses()] == [(500, 6.25), (20, 12)]


@pytest.mark.parametrize("name", ["cpus_p95", "at_limit_ratio", "start_s"])
def test_what_is_no_number_is_not_recorded_and_hostile_names_are_bent(history, name):
    history.record_uses([replace(USE, **{name: math.nan}),
                         replace(USE, job_id="9", user="a\0b", memory_peak_bytes=math.inf, cpus=10**30)])
    use, = history.uses()
    assert (use.job_id, use.user, use.memory_peak_bytes, use.cpus) == ("9", "ab", None, 2**63 - 1)


def test_what_accounts_tell_replaces_nothing_that_was_measured(history):
    told = replace(USE, source="accounts", cpus_p95=16.0, updated_s=999.0)
    history.record_uses([told, USE])
    history.record_uses([told, replace(told, job_id="8"), replace(told, job_id="8", cpus_p95=9.0)])
    assert [(use.job_id, use.source, use.cpus_p95) for use in history.uses()] == [
        ("7", "cgroup", 6.25), ("8", "accounts", 9.0)]


def test_old_uses_go(history):
    history.record_uses([USE, replace(USE, job_id="8", updated_s=90_000.0)])
    history.compact(100_000.0, Retention(uses_s=50_000.0))
    assert [use.job_id for use in history.uses()] == ["8"]
