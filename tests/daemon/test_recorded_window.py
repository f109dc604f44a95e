"""A recorded history whose truth is known: two nodes, a few jobs, energy of every five minutes."""

import json
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from idlewatt.daemon import counterfactual, simulator_error
from idlewatt.daemon.cli import main
from idlewatt.daemon.counterfactual import Counterfactual, ReplayedWindow, WindowReplayer, WindowRequest
from idlewatt.daemon.policies import named
from idlewatt.daemon.recorded_window import measured, past, recorded_cluster
from idlewatt.daemon.replay.cluster import ClusterError
from idlewatt.daemon.replay.power import PowerModel
from idlewatt.daemon.replay.timeline import energies
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import (
    Allocation,
    Job,
    JobState,
    Node,
    NodeState,
    Partition,
    SchedulerSnapshot,
    WasteReading,
)
from idlewatt.storage.records import (
    Request as Asked,
)
from idlewatt.storage.simulated import Simulated

NOW, HOUR, DAY = 1_795_219_200.0, 3600.0, 86400.0
SINCE = NOW - 2 * DAY
NODES = ("n0", "n1")
MODEL = PowerModel(idle=50.0, context=90.0, limit=390.0, host=700.0)
LOAD = 0.9


def job(number, submit, start, end, gpus, node):
    """Return a job that ran on one node; one without end still runs."""
    return Job(str(number), submit, JobState.RUNNING if end is None else JobState.COMPLETED, "all", Asked(gpus, 1),
               user="u", start_s=start, end_s=end, limit_s=4 * HOUR, allocations=(Allocation(node, gpus),))


def truth():
    """Return jobs that FIFO and first-fit would have placed just so: an 8-GPU job every two hours, taking turns."""
    return [job(number, SINCE + number * HOUR, SINCE + number * HOUR, SINCE + number * HOUR + 1.5 * HOUR, 8,
                NODES[number % 2]) for number in range(46)]


def swapped(at, number):
    """Return jobs of an hour of which two wait, and the scheduler lets the younger of them go first."""
    minutes = [(0, 0, 20, "n0"), (0, 0, 50, "n1"), (1, 30, 40, "n0"), (1, 20, 30, "n0")]
    return [job(number + place, at + 60 * submit + place % 2, at + 60 * start, at + 60 * end, 8, node)
            for place, (submit, start, end, node) in enumerate(minutes)]


def watts(jobs, at):
    """Return the cluster's watts by class at a moment."""
    held = {name: 0 for name in NODES}
    for one in jobs:
        if one.start_s <= at < one.end_s:
            held[one.allocations[0].node] += one.allocations[0].gpus
    used, floor = sum(held.values()), MODEL.context * (1 - LOAD)
    busy = sum(gpus > 0 for gpus in held.values())
    return {PowerClass.PRODUCTIVE: used * (MODEL.at_load(LOAD) - floor), PowerClass.ALLOCATED_UNDERUSED: used * floor,
            PowerClass.IDLE_UNALLOCATED: (16 - used) * MODEL.idle, PowerClass.HOST_ACTIVE: busy * MODEL.host,
            PowerClass.NODE_OVERHEAD_EMPTY: (2 - busy) * MODEL.host}


def write(url, jobs, *, watched=True, since=SINCE):
    nodes = tuple(Node(name, ("all",), 8, cpus=64) for name in NODES)
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(since - 10, nodes, (Partition("all", NODES),)))
        for one in sorted(jobs, key=lambda one: one.start_s):
            history.record_snapshot(SchedulerSnapshot(one.start_s, nodes, (Partition("all", NODES),), (one,)))
        history.record_finished(one for one in jobs if one.end_s is not None)
        if watched:
            moments = np.arange(since, NOW, 300.0)
            history.record_waste(WasteReading(float(at), 300.0, "all", power_class, 300.0 * value)
                                 for at in moments for power_class, value in watts(jobs, at).items())


@pytest.fixture
def url(tmp_path):
    return f"sqlite:///{tmp_path}/history.db"


def test_the_recorded_incumbent_replayed_is_what_happened(url):
    write(url, truth())
    with History.read_only(url) as history:
        found = simulator_error.check(history, SINCE, NOW, "fifo+first-fit+easy")
    assert (found.jobs, found.jobs_missed) == (46, 0)
    assert found.start_error_s == {"p10": 0.0, "p50": 0.0, "p90": 0.0, "p99": 0.0}
    assert found.energy_error_ratio == pytest.approx(0.0, abs=1e-6)
    assert found.schedule_energy_error_ratio == pytest.approx(0.0, abs=1e-6)


def test_a_scheduler_that_holds_jobs_back_shows_as_start_error(url):
    late = [job(one.job_id, one.submit_s - 600, one.start_s, one.end_s, 8, one.allocations[0].node) for one in truth()]
    write(url, late)
    with History.read_only(url) as history:
        found = simulator_error.check(history, SINCE, NOW, "fifo+first-fit+easy")
    assert found.start_error_s["p50"] == -600.0
    assert found.start_error_abs_mean_s == pytest.approx(600.0, rel=0.05)
    assert found.jobs_waited == 45  # the first one was submitted before the window
    assert found.wait_error_ratio == pytest.approx(1.0, abs=0.1)
    assert found.schedule_energy_error_ratio == pytest.approx(0.0, abs=1e-6)


def test_only_jobs_that_waited_count_for_the_error_of_waits():
    submit, real = np.zeros(100), np.array([*[0.0] * 90, *[1000.0] * 10])
    half_off, as_it_was = np.array([*[0.0] * 90, *[1500.0] * 10]), real.copy()

    assert simulator_error.wait_error(submit, real, half_off) == (10, 0.5, None)
    assert simulator_error.wait_error(submit, real, as_it_was) == (10, 0.0, None)
    assert simulator_error.wait_error(submit, np.zeros(100), np.zeros(100)) == (0, None, None)
    assert simulator_error.wait_error(submit, np.zeros(100), half_off) == (10, 25.0, None)  # nobody really waited


def days_of(shares: Sequence[float], waits: Sequence[float] | None = None) -> tuple[int, float | None, float | None]:
    """Return the error of waits where ten jobs a day start too late by a share of their wait, which differs by day."""
    waits = waits or [1000.0] * len(shares)
    submit = np.repeat(86400.0 * np.arange(len(shares)), 10)
    wait = np.repeat(waits, 10)
    return simulator_error.wait_error(submit, submit + wait, submit + wait * (1 + np.repeat(shares, 10)))


def test_the_error_of_waits_has_a_limit_where_jobs_waited_on_six_days():
    assert days_of([0.2] * 5) == (50, pytest.approx(0.2), None)
    assert days_of([0.2] * 6, [100.0, 200.0, 400.0, 800.0, 1600.0, 3200.0]) == (
        60, pytest.approx(0.2), pytest.approx(0.2))
    _, ratio, limit = days_of([0.1] * 9 + [1.1])
    assert ratio == pytest.approx(0.2)
    assert limit == pytest.approx(0.2 + 2.262 * 0.1, abs=0.001)  # t of nine degrees, standard error 0.1


def test_the_limit_is_above_the_truth_as_often_as_it_says():
    draws = np.random.default_rng(16)
    found = [days_of(draws.gamma(4.0, 0.05, 20), list(draws.gamma(4.0, 300.0, 20))) for _ in range(2000)]
    above = sum(limit is not None and limit > 0.2 for _, _, limit in found) / len(found)
    assert 0.92 < above < 0.985  # 97.5 % of normal days; these are skewed, and few


def test_what_was_not_watched_is_no_energy_error(url):
    write(url, truth(), watched=False)
    with History.read_only(url) as history:
        found = simulator_error.check(history, SINCE, NOW, "fifo+first-fit+easy")
    assert found.measured_joules is None
    assert found.energy_error_ratio is None


def test_every_run_of_a_requeued_job_is_there_and_waits_for_the_one_before(url):
    first = job(1, SINCE + HOUR, SINCE + HOUR, SINCE + 3 * HOUR, 8, "n0")
    nodes = tuple(Node(name, ("all",), 8, cpus=64) for name in NODES)
    lost = replace(first, state=JobState.PENDING, start_s=None, end_s=None, restarts=1, allocations=())
    again = replace(first, start_s=SINCE + 5 * HOUR, end_s=SINCE + 6 * HOUR, restarts=1,
                    allocations=(Allocation("n1", 8),))
    seen = [(SINCE - 10, ()), (SINCE + HOUR, (replace(first, state=JobState.RUNNING, end_s=None),)),
            (SINCE + 3 * HOUR, (lost,)), (SINCE + 5 * HOUR, (replace(again, state=JobState.RUNNING, end_s=None),))]
    with closing(History.open(url)) as history:
        for at, jobs in seen:
            history.record_snapshot(SchedulerSnapshot(at, nodes, (Partition("all", NODES),), jobs))
        waiting = past(history, SINCE, SINCE + 4 * HOUR)
        history.record_finished([again])
        window = past(history, SINCE, NOW)
    assert [(one.start_s, one.end_s) for one in window.jobs] == [
        (SINCE + HOUR, SINCE + 3 * HOUR), (SINCE + 5 * HOUR, SINCE + 6 * HOUR)]
    assert window.workload.dependency.tolist() == [-1, 0]
    assert window.workload.submit.tolist() == [SINCE + HOUR, SINCE + 3 * HOUR]
    assert window.occupation(SINCE, NOW).gpu.tolist() == [16 * HOUR, 8 * HOUR]
    assert len(waiting.jobs) == 2  # put back within the window, started after it


def test_a_job_that_was_put_back_and_waits_is_not_taken_for_running(url):
    first = job(1, SINCE - 9 * HOUR, SINCE - 9 * HOUR, None, 8, "n0")
    nodes = tuple(Node(name, ("all",), 8, cpus=64) for name in NODES)
    lost = replace(first, state=JobState.PENDING, start_s=None, restarts=1, allocations=())
    with closing(History.open(url)) as history:
        for at, one in ((SINCE - 9 * HOUR, first), (SINCE - 8 * HOUR, lost)):
            history.record_snapshot(SchedulerSnapshot(at, nodes, (Partition("all", NODES),), (one,)))
        window = past(history, SINCE, NOW)
    assert [(one.start_s, one.state) for one in window.jobs] == [(None, JobState.PENDING)]
    assert window.occupation(SINCE, NOW).gpu.sum() == 0


def test_a_reserved_node_is_for_those_who_name_the_reservation(url):
    nodes = [Node("n0", ("all",), 8, cpus=64), Node("n1", ("all",), 8, cpus=64)]
    course = [nodes[0], replace(nodes[1], reservation="course")]
    mine = replace(job(1, SINCE + HOUR, SINCE + HOUR, SINCE + 5 * HOUR, 8, "n1"),
                   request=Asked(8, 1, reservation="course"))
    others = [job(number, SINCE + HOUR + number, SINCE + HOUR + number, SINCE + 2 * HOUR + number, 8, "n0")
              for number in (2, 3)]
    with closing(History.open(url)) as history:
        for at, inventory in ((SINCE - 10, course), (SINCE + 10 * HOUR, nodes)):
            history.record_snapshot(SchedulerSnapshot(at, tuple(inventory), (Partition("all", NODES),)))
        history.record_finished([mine, *others])
        late = job(4, SINCE + 11 * HOUR, SINCE + 11 * HOUR, SINCE + 12 * HOUR, 8, "n0")
        history.record_finished([late, replace(late, job_id="5", allocations=(Allocation("n1", 8),))])
        window = past(history, SINCE, NOW)
    assert [(change.time_s, change.node, change.name) for change in window.reserved] == [
        (SINCE, "n1", "course"), (SINCE + 10 * HOUR, "n1", "")]
    run, _ = energies(window.cluster, window.workload, named("fifo+first-fit"), (SINCE, NOW), MODEL,
                      reserved=window.reserved)
    where = {one.job_id: (run.start[row], run.state.held(row).node.tolist()) for row, one in enumerate(window.jobs)}
    assert where["1"] == (SINCE + HOUR, [1])
    assert where["2"] == (SINCE + HOUR + 2, [0])
    assert where["3"] == (SINCE + 2 * HOUR + 2, [0])  # the free node is not its own
    assert {tuple(where[number][1]) for number in "45"} == {(0,), (1,)}


def test_a_job_waits_beside_a_reserved_node_under_every_policy_that_is_replayed(url):
    course = [Node("n0", ("all",), 8, cpus=64), Node("n1", ("all",), 8, cpus=64, reservation="course")]
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(SINCE - 10, tuple(course), (Partition("all", NODES),)))
        history.record_finished([job(number, SINCE + HOUR, SINCE + number * HOUR, SINCE + (number + 1) * HOUR, 8, "n0")
                                 for number in (1, 2)])
    policies = ("fifo+first-fit+easy", "limit-aged+best-fit+easy")
    window = counterfactual.replayed(WindowRequest(url, SINCE, SINCE + 4 * HOUR, policies))
    assert window.wait_s == dict.fromkeys(policies, HOUR)


def test_the_policy_against_itself_saves_exactly_nothing(url):
    write(url, truth())
    request = WindowRequest(url, NOW - 3 * HOUR, NOW - HOUR, ("fifo+first-fit+easy", "fifo+first-fit+easy"))
    once = counterfactual.replayed(request)
    again = counterfactual.replayed(WindowRequest(url, NOW - 3 * HOUR, NOW - HOUR, ("fifo+first-fit+easy",
                                                                                    "fifo+best-fit")))
    assert once.joules["fifo+first-fit+easy"] - again.joules["fifo+first-fit+easy"] == 0.0
    assert once.joules["fifo+first-fit+easy"] > 0


def test_two_policies_that_decide_alike_take_the_same_joules_to_the_last_digit(url):
    write(url, truth())
    policies = ("fifo+first-fit+easy", "fifo+first-fit")
    window = counterfactual.replayed(WindowRequest(url, NOW - 3 * HOUR, NOW - HOUR, policies))
    assert len(set(window.joules.values())) == 1
    assert window.error_ratio == pytest.approx(0.0, abs=1e-6)


def test_waiting_is_counted_within_the_window_and_beside_what_was_recorded(url):
    late = [job(one.job_id, one.submit_s - 600, one.start_s, one.end_s, 8, one.allocations[0].node) for one in truth()]
    write(url, late)
    # Two jobs of eight GPUs hold the cluster for half of every hour; the scheduler let each wait for ten minutes.
    window = counterfactual.replayed(WindowRequest(url, NOW - 6 * HOUR, NOW - 3 * HOUR, ("fifo+first-fit+easy",)))
    assert window.wait_s["fifo+first-fit+easy"] == 0.0
    with History.read_only(url) as history:
        found = past(history, NOW - DAY, NOW - 3 * HOUR)
    run, _ = energies(found.cluster, found.workload, named("fifo+first-fit"), (NOW - DAY, NOW), MODEL)
    assert simulator_error.waited(run, found.started, NOW - 6 * HOUR, NOW - 3 * HOUR) == pytest.approx(3 * 600.0)
    assert simulator_error.waited(run, np.full_like(found.started, np.nan), NOW - 4 * HOUR, NOW - 3 * HOUR) > 10 * HOUR


def test_errors_of_waits_that_cancel_in_the_sum_are_errors_and_the_same_as_the_check_tells(url):
    policy = "fifo+first-fit+easy"
    write(url, [one for hour in range(31) for one in swapped(SINCE + hour * HOUR, 4 * hour)])
    until = SINCE + 30 * HOUR
    window = counterfactual.replayed(WindowRequest(url, until - HOUR, until, (policy,)))
    with History.read_only(url) as history:
        told = simulator_error.check(history, until - HOUR - DAY, until, policy)
    assert told.jobs_waited == 50
    assert window.wait_error_ratio == told.wait_error_ratio == pytest.approx(600 / 1439.5)


def test_of_few_jobs_that_waited_the_error_is_unknown_and_not_zero(url):
    write(url, truth())
    window = counterfactual.replayed(WindowRequest(url, NOW - 6 * HOUR, NOW - 3 * HOUR, ("fifo+first-fit+easy",)))
    assert window.wait_error_ratio is None
    assert simulator_error.FEWEST_WAITED == 10


def test_a_signed_error_of_waits_that_an_earlier_version_recorded_is_not_told_as_this_one():
    before = Simulated("fifo", NOW, 1.0, 1.0, 0.1, -0.3)
    assert Counterfactual.restored([before]).wait_error_ratio is None
    assert Counterfactual.restored([replace(before, wait_error_ratio=0.3)]).wait_error_ratio == 0.3


def test_windows_add_up_to_one_long_window(url):
    write(url, truth())
    cuts = [NOW - 6 * HOUR, NOW - 4 * HOUR, NOW - HOUR]
    sums = Counterfactual()
    for since, until in zip(cuts, cuts[1:], strict=False):
        window = counterfactual.replayed(WindowRequest(url, since, until, ("fifo+first-fit+easy",)))
        sums = sums.plus(window, "fifo+first-fit+easy")
    whole = counterfactual.replayed(WindowRequest(url, cuts[0], cuts[-1], ("fifo+first-fit+easy",)))
    assert sums.until_s == cuts[-1]
    assert sums.joules["fifo+first-fit+easy"] == pytest.approx(whole.joules["fifo+first-fit+easy"], rel=1e-9)


def test_the_replay_in_a_process_of_its_own_says_the_same(url):
    write(url, truth())
    request = WindowRequest(url, NOW - 3 * HOUR, NOW - HOUR, ("fifo+first-fit+easy",))
    assert WindowReplayer().replay(request, 200.0) == counterfactual.replayed(request)


def test_a_database_that_is_gone_is_logged_and_costs_nothing_else(tmp_path, caplog):
    request = WindowRequest(f"sqlite:///{tmp_path}/none.db", NOW - HOUR, NOW, ("fifo",))
    assert WindowReplayer().replay(request, 200.0) is None
    assert "none.db" in caplog.records[-1].error


def test_after_the_end_nothing_is_replayed(url):
    replayer = WindowReplayer()
    replayer.end()
    assert replayer.replay(WindowRequest(url, 0.0, 1.0, ("fifo",)), 1.0) is None


def test_windows_follow_each_other_without_gap_or_overlap_and_never_reach_into_what_is_open():
    known = Counterfactual()
    first = known.next(NOW, HOUR)
    assert first[1] - first[0] == HOUR
    assert NOW - 1200 <= first[1] <= NOW - 900
    known = known.plus(ReplayedWindow(first[1], {"fifo": 1.0}, None), "fifo")
    second = known.next(NOW + HOUR, HOUR)
    assert second[0] == first[1]
    since, until = known.next(NOW + 90 * DAY, HOUR)
    assert until - since == 7 * DAY


def test_a_job_that_ran_into_the_window_keeps_its_node_until_its_end(url):
    long = job(1, SINCE, SINCE + 60, SINCE + 20 * HOUR, 8, "n1")
    write(url, [long])
    begin = SINCE + 10 * HOUR
    with History.read_only(url) as history:
        window = past(history, begin, begin + 15 * HOUR)
    assert window.workload.submit.tolist() == [begin - 1.0]
    assert window.workload.submit[0] + window.workload.run[0] == long.end_s
    assert window.jobs[0].request.required_nodes == ("n1",)
    spent = window.occupation(begin, begin + 15 * HOUR)
    assert spent.gpu.tolist() == [0.0, 8 * 10 * HOUR]
    assert spent.busy.tolist() == [0.0, 10 * HOUR]


def test_an_outage_is_replayed_as_an_outage(url):
    write(url, truth()[:1])
    nodes = (Node("n0", ("all",), 8, state=NodeState.DOWN), Node("n1", ("all",), 8))
    with closing(History.open(url)) as history:
        history.record_snapshot(SchedulerSnapshot(SINCE + 5 * HOUR, nodes))
    with History.read_only(url) as history:
        during = recorded_cluster(history, SINCE, NOW)
        after = recorded_cluster(history, SINCE + 6 * HOUR, NOW)
    assert [(event.time, event.node, event.kind) for event in during.events] == [(SINCE + 5 * HOUR, "n0", "down")]
    assert [(event.time, event.node, event.kind) for event in after.events] == [(SINCE + 6 * HOUR, "n0", "down")]


def test_a_history_without_nodes_says_what_to_do(url):
    History.open(url).close()
    with History.read_only(url) as history, pytest.raises(ClusterError, match="describe the cluster with --cluster"):
        recorded_cluster(history)


def test_energy_of_a_half_watched_window_is_scaled_and_known_to_be(url):
    write(url, truth())
    with History.read_only(url) as history:
        half = measured(history, SINCE - DAY, SINCE + DAY)
    assert half.coverage == pytest.approx(0.5)


def test_the_command_line_replays_the_history_on_its_own_cluster(url, tmp_path):
    write(url, truth())
    words = ["replay", url, "--format", "json", "--state-dir", str(tmp_path / "state")]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    assert {row["jobs"] for row in json.loads(result.stdout)} == {46}


def test_the_command_line_shows_how_far_the_simulator_was_off_when_the_daemon_last_watched(url, monkeypatch):
    write(url, truth())
    monkeypatch.setattr("time.time", lambda: NOW + 30 * DAY)
    result = CliRunner().invoke(main, ["replay", url, "--check", "--since", "2d", "--format", "json"])
    assert result.exit_code == 0, result.output
    row = json.loads(result.stdout)[0]
    assert (row["policy"], row["jobs"], row["start_error_p99_s"]) == ("fifo+first-fit+easy", 46, 0.0)
    assert "verdict: the replay of fifo+first-fit+easy reproduces the starts of 46 jobs" in result.stderr
    table = CliRunner().invoke(main, ["replay", url, "--check", "--since", "2d"]).stdout.splitlines()
    assert any("99 % quantile" in line and " 0 s" in line for line in table), table
    assert max(map(len, table[:-1])) <= 80, table
    assert table[-1].startswith("verdict: the replay of"), "a check ends with its verdict"
