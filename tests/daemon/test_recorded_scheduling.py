"""Replays of the past order jobs as the site's own scheduler was configured to at the time."""

from contextlib import closing
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.agents.histories import held_out, recorded, split
from idlewatt.daemon.learning.training_scheduler import TrainingTask
from idlewatt.daemon.policies import named
from idlewatt.daemon.recorded_scheduling import recorded_scheduling, used, with_recorded_scheduler
from idlewatt.daemon.recorded_window import past
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import ClusterError
from idlewatt.daemon.replay.priority.calculator import PriorityCalculator
from idlewatt.daemon.replay.priority.site import Scheduling
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.settings.advice import CounterfactualSettings
from idlewatt.daemon.settings.priority import PRIORITY_LINES, PrioritySettings
from idlewatt.daemon.settings.sections import FIRST_COME, Sections
from idlewatt.storage.charges import Charge
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot
from idlewatt.storage.rules import Association, Qos, SchedulerRules, SchedulerSettings

NOW, HOUR, DAY = 1_795_219_200.0, 3600.0, 86400.0
INCUMBENT = "multifactor+slurm-placement+slurm-backfill"
WEIGHTS = (("PriorityType", "priority/multifactor"), ("PriorityWeightQOS", "1000"),
           ("PriorityWeightFairShare", "100000"), ("PriorityDecayHalfLife", "1-00:00:00"))
RULES = SchedulerRules(
    qos=(Qos("low", usage_factor=0.5), Qos("high", priority=10.0)),
    associations=(Association("lab"), Association("lab", "ann"), Association("lab", "bob")),
    site=SchedulerSettings(parameters=("bf_interval=7",), priority=WEIGHTS))


def job(number, user, qos, submit, start=None, end=None):
    state = JobState.PENDING if start is None else JobState.COMPLETED
    held = () if start is None else (Allocation("n0", 8, cpus=64),)
    return Job(str(number), submit, state, "all", Request(8, 1, cpus=64), user=user, account="lab", qos=qos,
               start_s=start, end_s=end, limit_s=2 * HOUR, allocations=held)


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/idlewatt.db"


def write(url, jobs, rules=RULES, told_s=NOW - 3 * DAY):
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(told_s, (Node("n0", ("all",), 8, cpus=64),),
                                                  (Partition("all", ("n0",)),), rules=rules))
        history.record_finished(jobs)


def queue():
    """One node that ann's job holds until 2 h; then bob's wait, of low standing before of high."""
    return [job(1, "ann", "low", NOW, NOW, NOW + 2 * HOUR),
            job(2, "bob", "low", NOW + 60, NOW + 2 * HOUR, NOW + 3 * HOUR),
            job(3, "bob", "high", NOW + 120, NOW + 3 * HOUR, NOW + 4 * HOUR)]


def test_the_past_is_replayed_by_the_weights_that_the_scheduler_told_then(url):
    write(url, queue(), replace(RULES, site=replace(RULES.site, priority=WEIGHTS[:2])))
    with History.read_only(url) as reader:
        window = past(reader, NOW - HOUR, NOW + 5 * HOUR)

    assert window.cluster.scheduling.priority.qos == 1000.0
    assert window.cluster.scheduling.backfill.interval_s == 7.0
    result = engine.run(window.cluster, window.workload, named(INCUMBENT))
    by_id = dict(zip(window.workload.ids, result.start.tolist(), strict=True))
    assert by_id["3"] < by_id["2"]


def test_a_job_that_was_submitted_with_a_nice_value_lets_others_go_first(url):
    first, second, third = (replace(one, qos="high") for one in queue())
    write(url, [first, second, third])
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(NOW + 4 * HOUR, jobs=(replace(second, nice=100),), rules=RULES))
    with History.read_only(url) as reader:
        window = past(reader, NOW - HOUR, NOW + 5 * HOUR)

    assert window.workload.charged.nice.tolist() == [0.0, 100.0, 0.0]
    result = engine.run(window.cluster, window.workload, named(INCUMBENT))
    by_id = dict(zip(window.workload.ids, result.start.tolist(), strict=True))
    assert by_id["3"] < by_id["2"]


def test_a_job_that_has_waited_for_days_when_the_window_begins_is_as_old_as_it_is(url):
    """Five days of seven are 7143 points of age, and a high QOS is 1000 points."""
    weights = (*WEIGHTS[:2], ("PriorityWeightAge", "10000"), ("PriorityMaxAge", "7-00:00:00"))
    write(url, [job(1, "ann", "low", NOW - 6 * DAY, NOW - 2 * HOUR, NOW + 2 * HOUR),
                job(2, "bob", "low", NOW - 5 * DAY, NOW + 2 * HOUR, NOW + 3 * HOUR),
                job(3, "bob", "high", NOW + 120, NOW + 3 * HOUR, NOW + 4 * HOUR)],
          replace(RULES, site=replace(RULES.site, priority=weights)))
    with History.read_only(url) as reader:
        window = past(reader, NOW - HOUR, NOW + 5 * HOUR)

    result = engine.run(window.cluster, window.workload, named(INCUMBENT))
    by_id = dict(zip(window.workload.ids, result.start.tolist(), strict=True))
    assert (by_id["2"], by_id["3"]) == (NOW + 2 * HOUR, NOW + 3 * HOUR)
    waited = dict(zip(window.workload.ids, window.workload.charged.waited.tolist(), strict=True))
    assert waited == {"1": 0.0, "2": 5 * DAY - HOUR, "3": 0.0}, "the first ran into the window"


def test_who_has_used_much_before_the_window_comes_later_in_it(url):
    before = [job(10 + number, "ann", "low", NOW - 2 * DAY + number * HOUR, NOW - 2 * DAY + number * HOUR,
                  NOW - 2 * DAY + (number + 1) * HOUR) for number in range(5)]
    waiting = [job(1, "bob", "low", NOW, NOW, NOW + HOUR),
               job(2, "ann", "low", NOW + 60, NOW + HOUR, NOW + 2 * HOUR),
               job(3, "bob", "low", NOW + 120, NOW + 2 * HOUR, NOW + 3 * HOUR)]
    write(url, before + waiting)
    with History.read_only(url) as reader:
        window = past(reader, NOW - HOUR, NOW + 5 * HOUR)

    usage = window.cluster.scheduling.usage
    assert set(usage) == {("lab", "ann")}
    booked = 0.5 * 64 * 5 * HOUR  # a low QOS counts half, and a day is one half-life
    assert booked / 8 < usage["lab", "ann"] < booked / 2
    result = engine.run(window.cluster, window.workload, named(INCUMBENT))
    by_id = dict(zip(window.workload.ids, result.start.tolist(), strict=True))
    assert by_id["3"] < by_id["2"]


def test_who_held_much_of_what_partitions_charge_for_comes_later(url):
    ran = (NOW - DAY, NOW - DAY, NOW - DAY + HOUR)
    many_cpus, gpus = job(10, "ann", "high", *ran), job(11, "bob", "high", *ran)
    before = [replace(many_cpus, allocations=(Allocation("n0", 0, cpus=64),)),
              replace(gpus, allocations=(Allocation("n0", 8, cpus=8),))]
    write(url, before)
    partition = Partition("all", ("n0",), billing_weights=(("cpu", 1.0), ("gpu", 16.0)))
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(NOW - 2 * DAY, partitions=(partition,), rules=RULES))
    with History.read_only(url) as reader:
        by_cpus = recorded_scheduling(reader, NOW - 2.5 * DAY)
        usage = recorded_scheduling(reader, NOW).usage

    assert by_cpus.billing == {}  # nothing was recorded by then
    assert usage["lab", "bob"] / usage["lab", "ann"] == pytest.approx((8 + 8 * 16) / 64)


def test_usage_has_decayed_where_a_replay_begins_later_than_it_was_added_up(url):
    before = job(10, "ann", "low", NOW - 2 * DAY, NOW - 2 * DAY, NOW - DAY)
    write(url, [before, *queue()])
    with History.read_only(url) as reader:
        window = past(reader, NOW - HOUR, NOW + 5 * HOUR)
    late = replace(window.workload, submit=window.workload.submit + 30 * DAY)
    standings = []
    for workload in (window.workload, late):
        state = ClusterState.of(window.cluster, workload)
        calculator = PriorityCalculator(window.cluster, workload, state.arrays)
        calculator.update(state.arrays, float(workload.submit[0]))
        standings.append(float(calculator._usage[0]))
    assert standings[1] == pytest.approx(standings[0] * 2.0 ** -30, rel=0.01)


def test_the_past_is_replayed_with_the_preemption_that_the_scheduler_told_then(url):
    preempting = replace(RULES, qos=(Qos("low"), Qos("high", priority=10.0, preempts=("low",))),
                         site=replace(RULES.site, preempt_type="qos", preempt_mode=("REQUEUE",), returns_s=21.0))
    write(url, [job(1, "ann", "low", NOW, NOW, NOW + 2 * HOUR),
                job(2, "bob", "high", NOW + HOUR, NOW + HOUR + 1, NOW + 2 * HOUR)], preempting)
    with History.read_only(url) as reader:
        window = past(reader, NOW - HOUR, NOW + 5 * HOUR)

    assert window.cluster.scheduling.preemption.returns_s == 21.0
    result = engine.run(window.cluster, window.workload, named(INCUMBENT))
    by_id = dict(zip(window.workload.ids, result.state.arrays.jobs.preempted.tolist(), strict=True))
    assert by_id == {"1": 1, "2": 0}
    assert result.start.tolist()[1] == NOW + HOUR


def test_a_history_without_settings_has_those_of_nothing_told(url):
    write(url, queue(), SchedulerRules())
    with History.read_only(url) as reader:
        assert recorded_scheduling(reader, NOW) == Scheduling()


def test_a_setting_that_is_no_number_is_named(url):
    write(url, queue(), replace(RULES, site=SchedulerSettings(priority=(("PriorityWeightAge", "much"),))))
    with History.read_only(url) as reader, pytest.raises(ClusterError, match="PriorityWeightAge='much' is no number"):
        recorded_scheduling(reader, NOW)


def ten_days():
    """Return a job of bob's an hour until NOW, of a high standing first, that ran for up to 40 minutes."""
    return [job(1000 + hour, "bob", "high" if hour < 100 else "low", at, at, at + 300 + 10 * hour)
            for hour, at in ((hour, NOW - (240 - hour) * HOUR) for hour in range(240))]


def test_each_job_of_a_part_that_judges_has_its_own_quality_of_service(url):
    write(url, [*ten_days(), *queue()], replace(RULES, site=replace(RULES.site, priority=WEIGHTS[:2])))
    with History.read_only(url) as reader:
        (test,) = split(recorded(reader, NOW - 11 * DAY, NOW + 5 * HOUR, "the history")).test

    assert 50 < len(test.workload) < 200
    result = test.replayed(named(INCUMBENT))
    by_id = dict(zip(test.workload.ids, result.start.tolist(), strict=True))
    assert by_id["1"] < by_id["3"] < by_id["2"]


def retold(url, time_s, weight):
    """Record another weight of QOS, and the rest as it was."""
    others = tuple(line for line in WEIGHTS if line[0] != "PriorityWeightQOS")
    site = replace(RULES.site, priority=(*others, ("PriorityWeightQOS", weight)))
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(time_s, rules=replace(RULES, site=site)))


@pytest.mark.parametrize(("judging", "weight"), [
    (lambda found: split(found).test, 7.0), (lambda found: held_out(found, NOW - 2 * DAY), 9.0)])
def test_the_part_that_judges_has_the_weights_and_the_usage_of_its_own_beginning(url, judging, weight):
    anns = job(1, "ann", "high", NOW - 7 * DAY, NOW - 7 * DAY, NOW - 6.5 * DAY)
    write(url, [*ten_days(), anns], told_s=NOW - 10.5 * DAY)
    for time_s, told in ((NOW - 8 * DAY, "much"), (NOW - 7 * DAY, "7"), (NOW - 5 * DAY, "9")):
        retold(url, time_s, told)
    with History.read_only(url) as reader:
        found = recorded(reader, NOW - 11 * DAY, NOW, "the history")
        (window,) = judging(found)
        then = recorded_scheduling(reader, float(window.workload.submit[0]))

    assert found.cluster.scheduling.usage == {}
    assert window.cluster.scheduling.priority.qos == weight
    assert window.cluster.scheduling.usage["lab", "ann"] > 0
    assert window.cluster.scheduling == then


ALL_TOLD = {"PriorityType": "priority/multifactor", **{line: "0" for line in PRIORITY_LINES if line != "PriorityType"}}


@pytest.mark.parametrize(("lines", "configured", "incumbent"), [
    (ALL_TOLD, None, INCUMBENT),
    (ALL_TOLD, "fifo+best-fit+easy", "fifo+best-fit+easy"),  # who configures one knows better
    ({**ALL_TOLD, "PriorityType": "priority/basic"}, None, FIRST_COME),
    ({name: value for name, value in ALL_TOLD.items() if name != "PriorityWeightQOS"}, None, FIRST_COME),  # not guessed
    ({**ALL_TOLD, "PriorityMaxAge": "long"}, None, FIRST_COME), ({}, None, FIRST_COME)])
def test_the_incumbent_is_what_the_scheduler_told_of_itself_where_that_leaves_nothing_open(lines, configured, incumbent,
                                                                                        url):
    settings = Sections(counterfactual=CounterfactualSettings(incumbent=configured))
    write(url, queue(), SchedulerRules(site=SchedulerSettings(priority=tuple(lines.items()))))
    with History.read_only(url) as reader:
        assert with_recorded_scheduler(settings, reader).incumbent == incumbent


@pytest.mark.parametrize(("slurm_s", "configured", "power_down_s"), [
    (600.0, None, 600.0), (600.0, "never", None), (600.0, 60.0, 60.0), (None, None, None), (None, 1800.0, 1800.0)])
def test_candidates_are_judged_with_the_power_down_that_the_scheduler_told_unless_one_is_configured(
        slurm_s, configured, power_down_s, url):
    settings = Sections(counterfactual=CounterfactualSettings(power_down_after=configured))
    write(url, queue(), SchedulerRules(site=SchedulerSettings(power_down_s=slurm_s)))
    with History.read_only(url) as reader:
        found = with_recorded_scheduler(settings, reader)
    assert TrainingTask.of(found, NOW).terms.power_down_s == power_down_s
    assert found.incumbent == FIRST_COME


def test_an_incumbent_that_is_told_leaves_the_configured_power_down_as_it_is(url):
    settings = Sections(counterfactual=CounterfactualSettings(power_down_after=60.0))
    write(url, queue(), SchedulerRules(site=SchedulerSettings(priority=tuple(ALL_TOLD.items()), power_down_s=600.0)))
    with History.read_only(url) as reader:
        found = with_recorded_scheduler(settings, reader)
    assert (found.incumbent, found.power_down_s) == (INCUMBENT, 60.0)
    assert found.with_scheduler_lines({}, 600.0) is found, "nothing is new"


def test_without_a_record_the_incumbent_is_as_configured(url):
    with closing(History.open(url)) as history:
        assert with_recorded_scheduler(Sections(), history).incumbent == FIRST_COME


@given(st.floats(0, 1e6), st.floats(0, 1e6), st.floats(0, 1e6), st.sampled_from([0.0, 600.0, 86400.0]))
def test_usage_of_a_run_is_that_of_its_two_halves_and_never_more_than_it_held(start, took, since, half_life_s):
    at_s, end = start + took + since, start + took
    scheduling = Scheduling(PrioritySettings(half_life_s=half_life_s))
    whole = used([Charge("a", "u", "", 4, start, end)], at_s, scheduling).get(("a", "u"), 0.0)
    middle = (start + end) / 2
    halves = used([Charge("a", "u", "", 4, start, middle), Charge("a", "u", "", 4, middle, end)], at_s, scheduling)
    assert whole == pytest.approx(halves.get(("a", "u"), 0.0), rel=1e-6, abs=1e-5)
    assert 0.0 <= whole <= 4 * took + 1e-6


def test_usage_after_one_half_life_is_half_and_a_run_without_end_counts_until_now():
    ended, running = Charge("a", "u", "", 2, 0.0, 1.0), Charge("a", "v", "high", 2, 0.0, None)
    usage = used([ended, running], 601.0, Scheduling(PrioritySettings(half_life_s=600.0), usage_factor={"high": 3.0}))
    assert usage["a", "u"] == pytest.approx(1.0, rel=1e-2)
    assert usage["a", "v"] == pytest.approx(2 * 3.0 * 600 / 0.6931 * (1 - 2 ** (-601 / 600)), rel=1e-3)
