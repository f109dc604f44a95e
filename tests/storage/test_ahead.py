"""A clock that was ahead and is set right: recording goes on at once, and nothing stays in the future."""

from dataclasses import replace

import pytest
from sqlalchemy import text

from idlewatt.storage.ahead import AHEAD_S, MOST_S
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, Job, JobState, Node, NodeState, SchedulerSnapshot, WasteReading
from idlewatt.storage.rules import SchedulerRules, SchedulerSettings

NOW = 100_000.0
AHEAD = NOW + 3600.0
"""What the clock said before it was set right, an hour back."""
HELD = Allocation("a", 2, (0, 1))


def see(history: History, now_s: float, *jobs: Job, nodes: tuple[Node, ...] = (), read_s: float | None = None) -> None:
    history.record_snapshot(SchedulerSnapshot(now_s if read_s is None else read_s, nodes, jobs=jobs), now_s)


def runs(history: History, job_id: str = "1") -> list[tuple[float, float | None, str]]:
    return [(run.start_s, run.end_s, run.state.value) for run in history.job(job_id).runs]


def states(history: History) -> list[tuple[float, str]]:
    return [(change.time_s, change.node.state.value) for change in history.node_changes(0, 1e9)]


def latest_s(history: History) -> float:
    """Return the newest time that the recorder itself has set."""
    with history._reading() as connection:
        return max(connection.execute(text(f"SELECT coalesce(max({column}), 0) FROM {table}")).scalar_one()
                   for column, table in (("changed_s", "jobs"), ("time_s", "job_changes"), ("time_s", "node_changes")))


@pytest.mark.parametrize("restarted", [False, True])
def test_once_the_clock_is_set_right_a_job_that_runs_and_a_node_that_is_down_are_recorded(url, make, restarted):
    first = history = History.open(url)
    see(history, AHEAD, make.job(), nodes=(make.node(),))
    if restarted:
        first.close()
        history = History.open(url)
    with history:
        see(history, NOW, make.job(), nodes=(make.node(),))
        for later_s in (15.0, 30.0):
            see(history, NOW + later_s, make.running(NOW + 10, HELD), nodes=(make.node(state=NodeState.DOWN),))
        assert history.job("1").job.state == JobState.RUNNING
        assert runs(history) == [(NOW + 10, None, "running")]
        assert [state for _, state in states(history)] == ["up", "down"]
        assert history.nodes()[0].state == NodeState.DOWN
        assert latest_s(history) <= NOW + 30


def test_a_job_that_starts_and_ends_before_the_clock_has_caught_up_has_its_own_end(history, make):
    see(history, AHEAD, make.job())
    see(history, NOW + 45, make.running(NOW + 30, HELD))
    see(history, NOW + 915, make.ended(NOW + 30, NOW + 900, JobState.FAILED, exit_code=1))
    assert (history.job("1").job.state, history.job("1").job.exit_code) == (JobState.FAILED, 1)
    assert runs(history) == [(NOW + 30, NOW + 900, "failed")]
    assert latest_s(history) <= NOW + 915


def test_a_run_that_was_ended_in_the_future_goes_on_while_the_scheduler_shows_it(history, make):
    see(history, AHEAD, make.job(), make.job("2"))
    for job_id in ("1", "2"):  # as versions before recorded it once the clock was set right
        history.record_snapshot(SchedulerSnapshot(NOW, jobs=(make.running(NOW - 5, HELD, job_id=job_id),)))
    assert runs(history) == [(NOW - 5, AHEAD, "unknown")]
    see(history, NOW + 15, make.running(NOW - 5, HELD), make.job("2", restarts=1))
    assert runs(history) == [(NOW - 5, None, "running")]
    assert runs(history, "2") == [(NOW - 5, NOW + 15, "unknown")]


def test_the_end_of_a_requeued_job_that_vanished_as_the_clock_was_set_is_still_learnt(history, make):
    see(history, AHEAD, make.job(restarts=1))
    see(history, NOW, make.job("2"))
    history.record_finished([make.ended(NOW + 10, NOW + 20)])
    assert history.job("1").job.state == JobState.COMPLETED


def test_states_that_a_clock_ahead_has_recorded_keep_their_order_and_their_distances(history, make):
    see(history, NOW - 10, nodes=(make.node(),))
    for later_s, state in ((0.0, NodeState.DOWN), (1.0, NodeState.UP), (21.0, NodeState.DRAINED)):
        see(history, AHEAD + later_s, nodes=(make.node(state=state),))
    see(history, NOW + 30, nodes=(make.node(),))
    assert states(history) == [pytest.approx(one, abs=0.01) for one in (
        (NOW - 10, "up"), (NOW + 9, "down"), (NOW + 10, "up"), (NOW + 30, "drained"), (NOW + 30, "up"))]


def test_settings_that_change_after_the_clock_was_set_right_are_recorded(history):
    def told(now_s: float, power_down_s: float) -> None:
        rules = SchedulerRules(site=SchedulerSettings(power_down_s=power_down_s))
        history.record_snapshot(SchedulerSnapshot(now_s, rules=rules), now_s)

    told(AHEAD, 60.0)
    told(NOW, 60.0)
    told(NOW + 15, 120.0)
    assert history.scheduler_configuration(NOW + 20).rules.site.power_down_s == 120.0
    assert history.scheduler_configuration(NOW + 10).rules.site.power_down_s == 60.0


def test_times_of_the_scheduler_stay_its_own_even_in_the_future(history, make):
    own = make.running(AHEAD - 20, HELD, submit_s=AHEAD - 30)
    see(history, AHEAD, own)
    see(history, NOW, own)
    assert [(change.time_s, change.state.value) for change in history.job("1").changes] == [
        (AHEAD - 30, "pending"), (AHEAD - 20, "running")]
    assert runs(history) == [(AHEAD - 20, None, "running")]


def test_a_page_that_was_read_before_the_clock_was_set_counts_as_read_now(history, make):
    see(history, AHEAD, make.job())
    see(history, NOW, make.job(), read_s=AHEAD + 15)
    see(history, NOW + 15, make.running(NOW + 10, HELD))
    assert runs(history) == [(NOW + 10, None, "running")]
    assert latest_s(history) <= NOW + 15


def test_a_late_page_still_moves_nothing_backwards(history, make):
    see(history, NOW, make.running(NOW - 5, HELD), nodes=(make.node(state=NodeState.DOWN),))
    see(history, NOW + 60, make.job(), nodes=(make.node(),), read_s=NOW - 10)
    assert history.job("1").job.state == JobState.RUNNING
    assert states(history) == [(NOW, "down")]


def test_what_is_barely_in_the_future_still_bounds(url, make):
    with History.open(url) as history:
        see(history, NOW + AHEAD_S, make.running(NOW - 5, HELD))
    with History.open(url) as history:
        see(history, NOW, make.job())
        assert history.job("1").job.state == JobState.RUNNING


def test_a_clock_that_is_behind_by_years_does_not_carry_the_history_along(url, make, caplog):
    with History.open(url) as history:
        see(history, NOW + MOST_S + 10, make.running(NOW - 5, HELD), nodes=(make.node(),))
    with History.open(url) as history:
        see(history, NOW, make.job(), nodes=(make.node(state=NodeState.DOWN),))
        assert states(history) == [(NOW + MOST_S + 10, "up")]
        assert history.job("1").job.state == JobState.RUNNING
    assert "set the clock right" in caplog.text


def test_a_restart_without_a_step_changes_nothing_that_is_recorded(url, make):
    job, node = make.running(NOW - 5, HELD), make.node()
    for now_s in (NOW, NOW + 60):
        with History.open(url) as history:
            see(history, now_s, replace(job, priority=now_s), nodes=(node,))
    with History.read_only(url) as history:
        assert states(history) == [(NOW, "up")]
        assert runs(history) == [(NOW - 5, None, "running")]


def test_the_newest_that_the_recorder_has_dated_is_known(history, make):
    assert history.newest_s() is None
    see(history, NOW, make.running(AHEAD, HELD), nodes=(make.node(),))
    assert history.newest_s() == NOW, "a job's times are the scheduler's"
    history.record_waste([WasteReading(NOW + 300, 300.0, "p", PowerClass.STRANDED, 1.0, "a")])
    assert history.newest_s() == NOW + 300


def test_a_node_that_was_given_back_while_the_clock_was_ahead_is_free_once_it_is_set(history, make):
    see(history, AHEAD, make.running(NOW - 100, HELD, replace(HELD, node="b")))
    see(history, AHEAD + 15, make.running(NOW - 100, HELD))
    see(history, NOW, make.running(NOW - 100, HELD))
    (run,) = history.job("1").runs
    assert run.released == {"b": NOW}
    assert [one.gpus for one in history.charges(NOW + 60, 1e9)] == [2]
