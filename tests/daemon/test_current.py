"""No advice on old data, and one degraded state: seen from the service, its view, its metrics."""

from dataclasses import replace

import pytest

from idlewatt.daemon.advice.advisor import Advice
from idlewatt.daemon.advice.recommender import Recommendations
from idlewatt.daemon.counterfactual import Counterfactual
from idlewatt.daemon.current import Ages, current
from idlewatt.daemon.degraded import ClockWatch
from idlewatt.daemon.facts import Known
from idlewatt.daemon.moments import moment
from idlewatt.daemon.view import DaemonView
from idlewatt.storage.history import Recording
from idlewatt.storage.records import SchedulerSnapshot

ADVICE_METRICS = ("advice_info", "advice_reason_info", "advice_expected_start_timestamp_seconds", "power_down_info",
                  "advice_speedup_ratio", "communication_cost", "recommendation_rows", "pending_jobs", "elastic_info",
                  "elastic_time_ratio", "move_info", "allocation_info", "allocation_cpus", "allocation_jobs",
                  "unused_cpus", "elastic_unknown_jobs", "power_down_needed_timestamp_seconds",
                  "power_down_saving_joules")


@pytest.fixture
def service(rig, monkeypatch):
    made = rig.service()
    for cycle in (made.jobs, made.scrape, made.assess, made.advise):
        cycle()
    for subject in ("elastic", "moves", "allocation"):
        made.recommend(subject)
    return made


@pytest.fixture
def view(service):
    return DaemonView(service, lambda: service.settings)


def lose_slurm(rig):
    rig.server.site._slurm.clear()
    return rig.now_s


def test_advice_says_when_the_scheduler_was_read_that_it_rests_on(service, view, rig):
    read_s = service.known.snapshot.time_s
    rig.now_s += 30
    service.advise()
    assert service.known.advice.snapshot_s == read_s
    rows = view.recommendations()
    assert {(row.snapshot_s, row.issued_s) for row in rows} == {(read_s, rig.now_s)}
    assert {row.snapshot_s for row in view.recommended("allocation")} == {read_s}
    assert set(view.published().advice_snapshot_timestamp_seconds.values()) == {read_s}


def test_with_the_scheduler_gone_for_two_hours_nothing_is_advised_anywhere(service, view, rig):
    assert view.published().advice_info
    assert view.published().allocation_jobs
    gone_s = lose_slurm(rig)
    rig.watch(service, 7200, step_s=600)
    service.advise()
    for subject in ("elastic", "moves", "allocation"):
        service.recommend(subject)
    facts = view.published()
    assert [name for name in ADVICE_METRICS if getattr(facts, name)] == []
    assert [list(view.recommended(subject)) for subject in ("elastic", "moves", "allocation")] == [[], [], []]
    assert list(view.recommendations()) == []
    assert {row.power_down for row in view.nodes()} == {""}
    said = f"Slurm not read since {moment(gone_s, rig.now_s)}"
    assert view.status().no_advice == f"no advice: {said}"
    assert view.missing() == (said,)
    assert said in {one.words for one in view.status().degraded}


def test_the_age_of_the_last_advice_stays_so_that_the_alert_can_fire(service, view, rig):
    issued_s, read_s = rig.now_s, service.known.snapshot.time_s
    lose_slurm(rig)
    rig.watch(service, 3600, step_s=600)
    service.advise()
    facts = view.published()
    assert set(facts.advice_timestamp_seconds.values()) == {issued_s}
    assert set(facts.advice_snapshot_timestamp_seconds.values()) == {read_s}
    assert facts.advice_snapshot_timestamp_seconds.keys() == {"limit-aged+best-fit+easy", "fifo+first-fit"}
    assert facts.degraded["scheduler_unread"] == 1
    assert facts.degraded_since_timestamp_seconds["scheduler_unread"] == read_s


def test_advice_leaves_by_itself_when_no_cycle_comes_round_any_more(service, view, rig):
    rig.now_s += 601
    assert list(view.recommendations()) == []
    assert not view.published().advice_info


def test_nothing_is_recorded_as_advice_while_the_scheduler_is_not_read(service, rig, monkeypatch):
    lose_slurm(rig)
    rig.watch(service, 1200, step_s=600)
    monkeypatch.setattr(service._history, "record_recommendations", lambda rows: pytest.fail("advice on old data"))
    service.advise()


def test_when_the_scheduler_answers_again_so_does_the_advice(service, view, rig):
    answers = rig.server.site._slurm.copy()
    lose_slurm(rig)
    rig.watch(service, 1200, step_s=600)
    rig.server.site._slurm.update(answers)
    rig.watch(service, 15)
    service.advise()
    assert view.recommendations()
    assert view.missing() == ()
    assert view.status().no_advice == ""
    assert view.published().degraded["scheduler_unread"] == 0


def test_ready_as_long_as_the_scheduler_was_read_lately_and_not_later(service, view, rig):
    lose_slurm(rig)
    rig.watch(service, 600)
    assert view.missing() == ()
    rig.watch(service, 15)
    assert view.missing() == (f"Slurm not read since {moment(rig.now_s - 615, rig.now_s)}",)


def test_the_clock_set_back_while_the_scheduler_is_gone_makes_nothing_fresh(service, view, rig):
    lose_slurm(rig)
    rig.now_s -= 3600
    service.jobs()
    assert view.missing()
    assert list(view.recommendations()) == []
    service.advise()
    assert not view.published().advice_info


def test_the_clock_set_back_with_all_well_costs_one_read(service, view, rig):
    rig.now_s -= 3600
    rig.watch(service, 15)
    service.advise()
    assert view.missing() == ()
    assert view.recommendations()
    assert view.published().degraded["scheduler_unread"] == 0


def test_a_clock_set_back_does_not_ask_accounting_for_the_future(service, rig, monkeypatch):
    asked = []
    source = service._collection.of("scheduler")[0].source
    monkeypatch.setattr(source, "completed", lambda since_s: asked.append(since_s) or (), raising=False)
    service.record()
    rig.now_s -= 86400
    service.record()
    assert asked[-1] == rig.now_s - 3600


def test_after_the_machine_slept_no_old_advice_and_no_energy_for_the_night(service, view, rig):
    rig.watch(service, 30)
    before = sum(view.published().energy_joules_total.values())
    rig.now_s += 8 * 3600
    assert list(view.recommendations()) == []
    service.assess()
    assert sum(view.published().energy_joules_total.values()) == pytest.approx(before, rel=0.5)
    rig.watch(service, 15)
    service.advise()
    assert view.status().no_advice == ""
    assert service.known.advice.snapshot_s == rig.now_s


def test_a_step_of_the_clock_is_told_as_degraded(rig):
    hands = [0.0]
    service = rig.service()
    service._steps = ClockWatch(rig.clock, 1.0, lambda: hands[0])
    service.jobs()
    rig.now_s -= 7200
    assert "clock_step" in {one.cause for one in service.degraded()}


def test_a_daemon_that_starts_with_a_clock_behind_the_schedulers_is_degraded_though_its_database_is_empty(rig):
    service = rig.service()
    rig.now_s -= 7200
    service.jobs()
    (told,) = [one.words for one in service.degraded() if one.cause == "clock_step"]
    assert "after now: the clock of this machine or of the scheduler is wrong" in told


def test_once_the_clock_was_set_back_nothing_is_recorded_in_the_future(service, rig):
    rig.watch(service, 30)
    rig.now_s -= 3600
    rig.watch(service, 15)
    recorded = service._history.node_changes(0.0, float("inf"))
    assert recorded
    assert max(change.time_s for change in recorded) <= rig.now_s


def test_sources_that_are_down_are_told_and_each_once(service, rig):
    rig.server.site._pages = {}
    rig.watch(service, 300)
    causes = [one.cause for one in service.degraded()]
    assert causes == ["source_down"] * 3 + ["unmeasured"]


def test_a_history_that_is_behind_is_told(service, view, monkeypatch):
    monkeypatch.setattr(service._history, "recording", Recording(backlog=12))
    (one,) = [one for one in service.degraded() if one.cause == "database_behind"]
    assert one.words.startswith("12 facts not written to the database since")
    assert view.published().recorder_backlog_records == 12


def test_while_policies_are_compiled_it_says_so_and_not_that_nothing_waits(rig, monkeypatch):
    service = rig.service()
    monkeypatch.setattr(service._warm_up, "over", lambda: False)
    service.jobs()
    view = DaemonView(service, lambda: service.settings)
    assert view.status().no_advice == "no advice yet: policies are being compiled"
    monkeypatch.setattr(service._warm_up, "over", lambda: True)
    assert view.status().no_advice == "no advice yet: the first round has not ended"


def test_without_a_scheduler_there_is_nothing_to_be_late():
    known = Known(counterfactual=Counterfactual())
    assert current(known, 1e9, Ages(600.0)).advice is None


@pytest.mark.parametrize(("every_s", "stands"), [(60.0, False), (3600.0, True)])
def test_recommendations_that_are_given_seldom_rest_on_older_answers_of_a_scheduler_that_is_read(every_s, stands):
    said = Recommendations(1e9 - 1800, snapshot_s=1e9 - 1800)
    known = Known(snapshot=SchedulerSnapshot(1e9), recommended={"moves": said})
    assert current(known, 1e9, Ages(600.0, 30.0, {"moves": every_s})).recommended["moves"].withdrawn is not stands


def test_advice_whose_cycle_hangs_is_withdrawn_although_the_scheduler_is_read():
    known = Known(snapshot=SchedulerSnapshot(1e9), advice=Advice(1e9 - 900, snapshot_s=1e9 - 900))
    assert current(known, 1e9, Ages(600.0, 30.0)).advice == replace(known.advice, withdrawn=True)
