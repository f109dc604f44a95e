"""Histories become splits that walk forward and windows that might have been; what teaches nothing is refused."""

import pickle
from contextlib import closing
from dataclasses import replace

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings
from sites import SINCE, site

from idlewatt.daemon.agents.histories import DAY_S, Material, TooLittle, held_out, recorded, split, subset
from idlewatt.daemon.agents.training_loop import FEWEST_JOBS
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.timeline import Reserved
from idlewatt.daemon.replay.workload import Charged, Workload
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Partition, Request, SchedulerSnapshot


@pytest.fixture(scope="module")
def parts():
    return split(site(), seed=3)


def hours_per_hour(work, since_s, until_s):
    """Return the GPUs that the jobs of a time would keep busy all the time."""
    within = (work.submit >= since_s) & (work.submit < until_s)
    return (work.run * work.gpus)[within].sum() / (until_s - since_s)


def test_the_parts_follow_each_other_and_the_last_is_untouched(parts):
    fit, (select,), (test,) = parts.fit, parts.select, parts.test
    assert fit.since_s == parts.since_s
    assert fit.workload.submit.max() < fit.until_s == select.since_s
    assert select.workload.submit.max() < test.since_s == parts.until_s
    assert select.workload.submit.min() < select.since_s - DAY_S  # a warm-up, which does not count
    counted = sum(int((part.workload.submit >= part.since_s).sum()) for part in (select, test))
    assert len(fit.workload) + counted == 2000
    assert test.workload.submit.max() - test.since_s == pytest.approx(5 * DAY_S)


@pytest.mark.parametrize(("days", "kept"), [(5, 2.0), (10, 4.0), (14, 5.0), (40, 10.0), (100, 14.0)])
def test_so_much_is_kept_for_judging(days, kept):
    found = split(site(days))
    assert (found.test[0].workload.submit.max() - found.until_s) / DAY_S == pytest.approx(kept, rel=0.01)


def test_the_same_number_is_the_same_stretch_and_another_is_another(parts):
    one, again, other = (parts.fit(number) for number in (1, 1, 2))
    assert np.array_equal(one.workload.submit, again.workload.submit)
    assert np.array_equal(one.workload.run, again.workload.run)
    assert one.cluster.events == again.cluster.events
    assert not np.array_equal(one.workload.submit, other.workload.submit)


@given(number=st.integers(0, 2**40))
@settings(max_examples=25, deadline=None)
def test_whatever_its_number_a_stretch_is_in_order_and_made_of_what_there_was(parts, number):
    window, fit = parts.fit(number), parts.fit
    work, events = window.workload, window.cluster.events
    assert (np.diff(work.submit) >= 0).all()
    assert set(work.ids) <= set(fit.workload.ids)
    assert fit.since_s <= work.submit.min() < window.since_s < work.submit.max()
    assert [event.time for event in events] == sorted(event.time for event in events)
    assert (work.run >= 0).all()
    assert np.isfinite(work.run).all()


def test_days_without_jobs_are_drawn_again_where_there_are_others(parts):
    work, since_s = parts.fit.workload, parts.fit.since_s
    bursts = subset(work, np.flatnonzero((work.submit - since_s) // DAY_S % 14 == 3))  # one day in two weeks
    drawn = [replace(parts.fit, workload=bursts)(number) for number in range(40)]
    assert min(int((window.workload.submit >= window.since_s).sum()) for window in drawn) >= 20


def test_it_can_be_sent_to_another_process(parts):
    received = pickle.loads(pickle.dumps(parts.fit))
    assert np.array_equal(received(5).workload.submit, parts.fit(5).workload.submit)


def test_a_window_is_as_loaded_as_the_site_or_up_to_a_third_more(parts):
    usual = hours_per_hour(parts.fit.workload, parts.fit.since_s, parts.fit.until_s)
    loads = []
    for number in range(60):
        window = parts.fit(number)
        first = parts.fit.since_s
        span = (window.since_s - first) * parts.fit.drawn
        loads.append(hours_per_hour(window.workload, first, first + span + 1) / usual)
    assert 0.7 < min(loads) < 0.9
    assert 1.2 < max(loads) < 1.45


def test_users_are_drawn_and_days_are_drawn_and_run_times_differ_a_little(parts):
    window, fit = parts.fit(0), parts.fit
    row = {identifier: place for place, identifier in enumerate(fit.workload.ids)}
    source = np.array([row[identifier] for identifier in window.workload.ids])
    assert len(set(np.unique(fit.workload.user))) > len(set(window.workload.user.tolist()))
    assert len({int((fit.workload.submit[place] - fit.since_s) // DAY_S) for place in source}) < fit.days
    factor = window.workload.run / fit.workload.run[source]
    assert 0.1 < np.log(factor).std() < 0.25
    assert (window.workload.run <= window.workload.limit).all()
    assert np.array_equal(window.workload.gpus, fit.workload.gpus[source])
    assert (window.workload.dependency == -1).all()


def test_a_job_that_was_ended_at_its_limit_still_is():
    limits = np.full(2000, 1800.0)
    found = split(site(limit=limits))
    work = found.fit(0).workload
    over = work.run > 1800
    assert over.any()
    assert np.isin(work.run[over], found.fit.workload.run).all()


def test_nodes_fail_now_and_then_and_come_back(parts):
    windows = [parts.fit(number) for number in range(60)]
    failures = [event for window in windows for event in window.cluster.events if event.kind == "down"]
    # Twelve days, four nodes, a failure a month each.
    assert 0.5 * 60 < len(failures) < 3 * 60
    for window in windows:
        kinds = [event.kind for event in window.cluster.events]
        assert kinds.count("down") == kinds.count("up") <= 2


def test_what_happened_to_nodes_happens_on_the_days_that_are_drawn():
    material = site()
    broken = SINCE + 2 * DAY_S
    cluster = material.cluster.with_events([NodeEvent(broken, "node0001", "drain"),
                                            NodeEvent(broken + 3 * DAY_S, "node0001", "up")])
    found = split(replace(material, cluster=cluster))
    drained = total = 0.0
    for number in range(40):
        window = found.fit(number)
        first, last = found.fit.since_s, window.workload.submit.max()
        events = [event for event in window.cluster.events if event.node == "node0001"]
        ends = [*(event.time for event in events[1:]), last]
        drained += sum(end - event.time for event, end in zip(events, ends, strict=True) if event.kind == "drain")
        total += last - first
    assert drained / total == pytest.approx(3 / found.fit.days, abs=0.1)
    # The judging part begins with nodes as they are then.
    assert {(event.kind, event.time >= found.test[0].since_s - 3 * DAY_S)
            for event in found.test[0].cluster.events} == {("up", True)}


def thin(burst):
    """Return 16 days on which hardly a job comes in the part to learn from, but for one day; most are one user's."""
    rng = np.random.default_rng(1)
    days = [rng.uniform(0, 0.9, burst), rng.uniform(1, 9, 34 if burst > 20 else 8), rng.uniform(9, 16, 200)]
    submit = SINCE + np.sort(np.concatenate(days)) * DAY_S
    user = rng.choice(5, len(submit), p=[0.8, 0.05, 0.05, 0.05, 0.05]).astype(np.int32)
    seconds = rng.lognormal(8.0, 1.0, len(submit))
    work = Workload.of(submit, seconds, rng.choice([1, 2, 4], len(submit)), limit=2 * seconds, user=user,
                       user_names=tuple("abcde"))
    return Material("thin", Cluster.from_spec("2x8"), work)


@pytest.mark.parametrize(("burst", "enough"), [(26, True), (5, False)])
def test_whether_there_are_jobs_enough_to_learn_from_is_no_matter_of_a_draw(burst, enough):
    windows = [split(thin(burst), seed=seed).fit(0) for seed in range(60)]
    counts = [int((window.workload.submit >= window.since_s).sum()) for window in windows]
    assert {count >= FEWEST_JOBS for count in counts} == {enough}, sorted(counts)


def test_without_users_days_alone_are_drawn():
    found = split(site(user=-1))
    assert len(found.fit(0).workload) > 100


def test_stretches_replay(parts):
    for window in (parts.fit(0), parts.select[0], parts.test[0]):
        ended = run(window.cluster, window.workload, named("fifo+first-fit+easy")).end
        assert np.isfinite(ended).all()


def test_what_depends_on_a_job_that_is_not_taken_depends_on_none():
    work = subset(site().workload, np.array([3, 4, 9]))
    assert work.dependency.tolist() == [-1, 0, -1]
    assert work.ids == ("3", "4", "9")


def test_who_is_charged_for_a_job_goes_with_it_where_jobs_are_dropped_or_repeated():
    charged = Charged(tuple("abcd"), ("low", "low", "high", "none"), np.array([0.0, 1.0, 2.0, 3.0]),
                      np.array([40.0, 30.0, 20.0, 10.0]))
    work = Workload.of(np.arange(4.0), [9.0] * 4, [1] * 4, charged=charged)
    taken = subset(work, np.array([1, 3, 3])).charged
    assert (taken.account, taken.qos, taken.nice.tolist()) == (tuple("bdd"), ("low", "none", "none"), [1.0, 3.0, 3.0])
    assert taken.waited.tolist() == [30.0, 10.0, 10.0]
    assert subset(replace(work, charged=None), np.array([2])).charged is None


@pytest.mark.parametrize(("material", "why"), [
    (site(days=3), "3.0 days with 2000 jobs, and 4 days with 200 jobs are the least"),
    (site(jobs=150), "too short to learn from"),
    (site(run=3600.0, gpus=1, limit=7200.0), "all jobs of site.csv are alike"),
    (replace(site(), cluster=Cluster.from_spec("1x2")), "can never run on this cluster .*is it the right one"),
])
def test_a_history_that_teaches_nothing_is_refused(material, why):
    with pytest.raises(TooLittle, match=why):
        split(material)


def test_days_without_jobs_in_the_judging_part_are_refused():
    material = site()
    late = np.append(np.arange(1300), [1999])
    with pytest.raises(TooLittle, match="only 1 jobs of site.csv lie in the part that judges"):
        split(replace(material, workload=subset(material.workload, late)))


def test_a_partition_without_jobs_is_said_and_not_known():
    material = site(partition=["batch"] * 2000)
    nodes = [Node(f"n{row}", ("batch", "debug"), 8, "A100") for row in range(4)]
    found = split(replace(material, cluster=Cluster.from_records(nodes)))
    assert found.known == {"partition": ("batch",), "gpu_model": ("A100",)}
    assert found.notes == ("partition debug has no jobs to learn from: the agent will give no advice there",)


def test_jobs_that_can_never_run_are_left_out_and_said():
    gpus = np.where(np.arange(2000) % 10 == 0, 64, 1)
    found = split(site(gpus=gpus, dependency=-1))
    assert found.notes == ("200 jobs are left out, as they can never run here: larger than the cluster",)
    assert found.fit.workload.gpus.max() == 1


def test_only_what_came_after_an_agents_history_judges_it(parts):
    (later,) = held_out(site(), parts.until_s)
    assert later.since_s == parts.test[0].since_s
    assert np.array_equal(later.workload.submit, parts.test[0].workload.submit)
    with pytest.raises(TooLittle, match="wait until more have ended"):
        held_out(site(), SINCE + 19.99 * DAY_S)


def test_a_recorded_history_brings_predictions_and_leaves_out_what_has_not_ended(tmp_path):
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    nodes = (Node("n0", ("all",), 8, "A100"),)
    jobs = [Job(str(number), SINCE + 600 * number, JobState.COMPLETED, "all", Request(2, 1, cpus=2), "ana",
                name=f"train_{number}", start_s=SINCE + 600 * number, end_s=SINCE + 600 * number + 500, limit_s=3600.0,
                allocations=(Allocation("n0", 2),)) for number in range(10)]
    jobs.append(Job("99", SINCE + 7000, JobState.PENDING, "all", Request(8), "ana"))
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(SINCE + 7200, nodes, (Partition("all", ("n0",)),), tuple(jobs)))
    with History.read_only(url) as reader:
        found = recorded(reader, SINCE - 1, SINCE + 8000, url)
    assert found.workload.ids == tuple(map(str, range(10)))
    assert found.workload.prediction[1:4] == pytest.approx([500.0] * 3)  # the first one's run, known at its end
    assert found.cluster.names == ("n0",)


def test_nodes_are_reserved_in_a_part_of_a_history_as_they_were_then(tmp_path):
    url, course = f"sqlite:///{tmp_path}/idlewatt.db", (SINCE + 2 * DAY_S, SINCE + 7 * DAY_S)
    jobs = [Job(str(number), SINCE + 2400 * number, JobState.COMPLETED, "all", Request(2, 1, cpus=2), "ana",
                start_s=SINCE + 2400 * number, end_s=SINCE + 2400 * number + 5 * number + 9, limit_s=3600.0,
                allocations=(Allocation("n0", 2),)) for number in range(10 * 36)]
    free, partitions = tuple(Node(name, ("all",), 8) for name in ("n0", "n1")), (Partition("all", ("n0", "n1")),)
    with closing(History.open(url)) as history:
        for time_s, name in ((SINCE - 2, ""), (course[0], "course"), (course[1], "")):
            nodes = free[0], replace(free[1], reservation=name)
            history.record_snapshot(SchedulerSnapshot(time_s, nodes, partitions))
        history.record_finished(jobs)
    with History.read_only(url) as reader:
        found = recorded(reader, SINCE - 1, SINCE + 10 * DAY_S, url)
    parts = split(found)
    (test,), (later,) = parts.test, held_out(found, SINCE + 9.2 * DAY_S)
    first_s = float(test.workload.submit[0])
    assert test.reserved == (Reserved(first_s, "n1", "course"), Reserved(course[1], "n1", ""))
    assert [change.name for change in later.reserved] == [""]
    drawn = [parts.fit(number).reserved for number in range(20)]
    assert any(change.name for reserved in drawn for change in reserved)
    assert all(list(reserved) == sorted(reserved, key=lambda change: change.time_s) for reserved in drawn)


@pytest.mark.parametrize(("waits_days", "held_days"), [(2.0, 2.0), (8.0, np.inf)])
def test_what_is_proved_ends_before_the_first_job_that_has_not_ended_but_waits_for_none_for_ever(
        tmp_path, waits_days, held_days):
    url, now_s = f"sqlite:///{tmp_path}/idlewatt.db", SINCE + 10 * DAY_S
    jobs = [Job(str(number), SINCE + 2400 * number, JobState.COMPLETED, "all", Request(2, 1, cpus=2), "ana",
                start_s=SINCE + 2400 * number, end_s=SINCE + 2400 * number + 500, limit_s=3600.0,
                allocations=(Allocation("n0", 2),)) for number in range(10 * 36)]
    jobs.append(Job("9999", now_s - waits_days * DAY_S, JobState.RUNNING, "all", Request(2), "ana",
                    start_s=now_s - waits_days * DAY_S, allocations=(Allocation("n0", 2),)))
    nodes = (Node("n0", ("all",), 8, "A100"),), (Partition("all", ("n0",)),)
    with closing(History.open(url)) as history:
        for time_s, some in ((SINCE - 2, ()), (now_s, tuple(jobs))):
            history.record_snapshot(SchedulerSnapshot(time_s, *nodes, some))
    with History.read_only(url) as reader:
        found = recorded(reader, SINCE - 1, now_s, url)
    assert found.settled_s == (now_s - held_days * DAY_S if np.isfinite(held_days) else np.inf)
    assert any("have not ended" in note for note in found.notes) is bool(np.isfinite(held_days))
    assert held_out(found, SINCE + 5 * DAY_S)[0].settled_s == found.settled_s
    assert split(replace(found, workload=replace(found.workload, run=np.linspace(10, 3000, len(found.workload)))))\
        .test[0].settled_s == found.settled_s
