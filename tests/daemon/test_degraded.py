"""One list of what is wrong, in words that everybody shows."""

import time
from dataclasses import replace
from datetime import datetime

import pytest
from cost import slowness

from idlewatt.daemon.cycles import CycleHealth
from idlewatt.daemon.degraded import Chronicle, HealthFacts, SourceSeen, believed, found, unread
from idlewatt.daemon.settings.degraded import DegradedSettings
from idlewatt.exporters.metrics.declared import DEGRADED
from idlewatt.exporters.source import SourceStatus, TargetHealth
from idlewatt.storage.history import Recording

NOW = datetime(2026, 7, 14, 16, 0).timestamp()
AT_TWO = NOW - 7200 + 120
"""14:02 of the same day, wherever the test runs."""


def source(name="ipmi", role="telemetry", success=True, last_s=NOW - 5, duration_s=0.5, targets=(), kind=""):
    status = SourceStatus(name, role, success, duration_s, "" if success else "refused", last_s, 3, 0)
    return SourceSeen(status, kind or name, 15.0, tuple(targets))


def slurm(**more):
    return source("slurm_rest", "scheduler", **more)


def target(number, up=True, last_s=NOW - 5, **more):
    return TargetHealth(f"n{number}", up, 0.1, "" if up else "timed out", last_s, node=f"n{number}", **more)


def words(*sources, **more):
    return [one.words for one in found(HealthFacts(NOW, sources, scheduler_max_age_s=600.0, **more))]


def causes(*sources, **more):
    return [one.cause for one in found(HealthFacts(NOW, sources, scheduler_max_age_s=600.0, **more))]


def test_a_daemon_that_reads_everything_in_time_is_not_degraded():
    assert found(HealthFacts(NOW, (slurm(), source(targets=[target(n) for n in range(4)])),
                             {"scrape": CycleHealth(9, last_duration_s=1.0, period_s=15.0)}, Recording(), 0.0,
                             scheduler_max_age_s=600.0)) == ()


def test_a_scheduler_that_is_not_read_is_said_with_the_time_of_its_last_good_read():
    (one,) = found(HealthFacts(NOW, (slurm(success=False, last_s=AT_TWO),), scheduler_max_age_s=600.0))
    assert (one.cause, one.subject, one.words, one.since_s) == (
        "scheduler_unread", "slurm_rest", "Slurm not read since 14:02", AT_TWO)


@pytest.mark.parametrize(("ahead_s", "told"), [(None, []), (-5.0, []), (60.0, []), (7320.0, [
    "a job was submitted or started at 18:02, 2.0 h after now: the clock of this machine or of the scheduler is "
    "wrong"])])
def test_a_clock_that_is_behind_the_schedulers_newest_job_is_told(ahead_s, told):
    """A new, empty database cannot tell that the clock is wrong."""
    latest_s = None if ahead_s is None else NOW + ahead_s
    assert words(slurm(), latest_event_s=latest_s) == told
    assert causes(slurm(), latest_event_s=latest_s) == ["clock_step"] * len(told)


def test_a_time_that_is_not_todays_has_its_date():
    assert words(slurm(success=False, last_s=AT_TWO - 86400)) == ["Slurm not read since 13 Jul 14:02"]


def test_what_is_asked_seldom_is_not_slow_before_it_is_asked_again():
    """Accounting is read once a minute, beside questions of every fifteen seconds: a minute later it is in time."""
    parts = [replace(target(n), target=name) for n, name in enumerate(("nodes", "jobs", "partitions", "reservations"))]
    accounting = replace(target(9, last_s=NOW - 61), target="accounting")
    seen = slurm(targets=[*parts, accounting])
    assert words(replace(seen, seldom={"accounting": 60.0})) == []
    assert words(seen) == ["1 of 5 slurm_rest targets slow"]
    late = replace(seen, targets=(*parts, replace(accounting, last_success_s=NOW - 241)), seldom={"accounting": 60.0})
    assert words(late) == ["1 of 5 slurm_rest targets slow"]


def test_a_scheduler_that_never_answered_is_said_so():
    assert words(slurm(success=False, last_s=None)) == ["Slurm not read yet"]


def test_of_two_schedulers_the_one_that_is_meant_is_named():
    other = source("slurm_b", "scheduler", success=False, last_s=AT_TWO, kind="slurm_cli")
    assert words(slurm(), other) == ["Slurm (slurm_b) not read since 14:02"]


def test_a_scheduler_that_fails_and_was_read_lately_is_a_source_that_is_down():
    assert causes(slurm(success=False, last_s=NOW - 120)) == ["source_down"]


def test_a_read_from_the_future_is_not_believed_because_the_clock_was_set_back():
    assert unread(HealthFacts(NOW, (slurm(last_s=NOW + 3600),), scheduler_max_age_s=600.0))


def test_a_source_that_is_green_and_has_brought_nothing_for_long_is_slow():
    assert words(source(last_s=NOW - 29 * 60)) == ["ipmi not read since 15:31"]
    assert causes(source(last_s=NOW - 29 * 60)) == ["source_slow"]


def test_a_source_that_takes_longer_than_its_beat_is_slow():
    assert words(source(duration_s=45.0)) == ["ipmi takes 45 s to read, more than its period of 15 s"]


def test_a_source_that_nobody_asks_is_not_degraded():
    asleep = source(success=False, last_s=None)
    assert found(HealthFacts(NOW, (replace(asleep, status=replace(asleep.status, reads=0)),))) == ()


def test_a_share_of_targets_that_are_down_is_said_from_the_limit_on():
    def down(count):
        return words(source(targets=[target(n, up=n >= count) for n in range(40)]))

    assert down(2) == []
    assert down(3) == ["3 of 40 ipmi targets down"]


def test_targets_of_nodes_that_are_out_of_service_may_be_silent():
    targets = [target(n, up=n > 20) for n in range(40)]
    assert words(source(targets=targets), away=frozenset(f"n{n}" for n in range(21))) == []


def test_targets_that_are_up_and_were_read_long_ago_are_slow():
    assert words(source(targets=[target(n, last_s=NOW - 300 * (n < 3)) for n in range(40)])) == [
        "3 of 40 ipmi targets slow"]


def test_a_target_that_is_read_seldom_is_not_slow_between_its_reads():
    def accounts(age_s):
        return source(targets=[target(0), replace(target(1), last_success_s=NOW - age_s, beat_s=300.0)])

    assert words(accounts(299.0)) == []
    assert words(accounts(1201.0)) == ["1 of 2 ipmi targets slow"]


@pytest.mark.parametrize("health", [CycleHealth(3, last_duration_s=90.0, period_s=15.0),
                                    CycleHealth(3, last_duration_s=1.0, period_s=15.0, running_s=90.0)])
def test_a_cycle_that_overruns_is_said_also_while_it_still_runs(health):
    assert words(cycles={"scrape": health}) == ["the cycle scrape takes 90 s, more than its period of 15 s,"]


def test_a_short_beat_alone_makes_no_cycle_overrun():
    assert words(cycles={"scrape": CycleHealth(3, last_duration_s=1.2, period_s=1.0)}) == []


def test_a_cycle_that_fails_is_said_until_it_succeeds():
    assert words(cycles={"jobs": CycleHealth(3, 1, failed=True)}) == ["the cycle jobs fails (the log says why)"]
    assert words(cycles={"jobs": CycleHealth(4, 1)}) == []


def test_a_database_that_is_behind_and_gpus_that_are_not_measured_are_said():
    assert words(recording=Recording(backlog=1234), unmeasured=0.38) == ["1,234 facts not written to the database",
                                                    "38 % of the GPUs not measured"]
    assert words(unmeasured=0.05) == []


def test_the_limits_are_the_sites():
    limits = DegradedSettings(targets=0.5, unmeasured=0.5, backlog=2000)
    assert words(source(targets=[target(n, up=n > 9) for n in range(40)]), recording=Recording(backlog=1234),
                 unmeasured=0.4, limits=limits) == []


@pytest.mark.parametrize(("step_s", "said"), [
    (-3600.0, "the clock was set back by 60 min at 14:02"),
    (7200.0, "the clock was set forward, or the machine slept, by 2.0 h at 14:02")])
def test_a_clock_that_jumped_is_said(step_s, said):
    assert words(step_s=step_s, stepped_s=AT_TWO) == [said]


def test_the_worst_comes_first():
    seen = causes(source(success=False), slurm(success=False, last_s=None), recording=Recording(backlog=1),
                  unmeasured=1.0)
    assert seen == ["scheduler_unread", "database_behind", "source_down", "unmeasured"]
    assert seen == sorted(seen, key=DEGRADED.index)


def test_what_keeps_the_database_from_being_written_is_said_with_its_date():
    stopped = Recording(False, AT_TWO, "connection refused", 12)
    assert words(recording=stopped) == ["12 facts not written to the database (connection refused) since 14:02"]
    assert causes(recording=replace(stopped, backlog=0)) == ["database_behind"]


def test_what_has_no_date_of_its_own_gets_that_of_the_first_look():
    chronicle = Chronicle()
    chronicle.look(HealthFacts(AT_TWO, recording=Recording(backlog=7)))
    (one,) = chronicle.look(HealthFacts(NOW, recording=Recording(backlog=9)))
    assert (one.words, one.since_s) == ("9 facts not written to the database since 14:02", AT_TWO)


def test_what_was_mended_meanwhile_begins_anew():
    chronicle = Chronicle()
    for now_s, backlog in ((AT_TWO, 7), (AT_TWO + 60, 0), (AT_TWO + 180, 7)):
        told = chronicle.look(HealthFacts(now_s, recording=Recording(backlog=backlog)))
    assert [one.since_s for one in told] == [AT_TWO + 180]


def test_the_log_tells_each_fault_once_and_when_it_is_over(caplog):
    caplog.set_level("INFO")
    chronicle = Chronicle()
    for backlog in (7, 8, 0, 0):
        chronicle.look(HealthFacts(NOW, recording=Recording(backlog=backlog)))
    assert [(record.message, record.cause) for record in caplog.records] == [
        ("degraded", "database_behind"), ("no longer degraded", "database_behind")]


def test_a_thousand_nodes_are_looked_at_in_milliseconds():
    seen = HealthFacts(NOW, tuple(source(f"s{k}", targets=[target(n, up=n % 9 > 0) for n in range(1000)])
                                  for k in range(4)))
    began = time.process_time()
    found(seen)
    assert time.process_time() - began < 0.2 * slowness()


@pytest.mark.parametrize(("age_s", "good"), [(0, True), (600, True), (601, False), (-30, True), (-3600, False)])
def test_what_is_too_old_or_from_the_future_is_not_believed(age_s, good):
    assert believed(1e9, 1e9 + age_s, 600) is good


def test_what_was_never_read_is_not_believed():
    assert not believed(None, 1e9, float("inf"))
