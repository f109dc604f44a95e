"""Decisions on agents, their silences and standings: recorded by the daemon or beside it, read by anybody."""

import math

import pytest
from alembic import command
from sqlalchemy import text

from idlewatt.storage import database
from idlewatt.storage.errors import SchemaTooOld
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Abstention, Decision, Promotion, ShadowResult, active_model, states
from idlewatt.storage.retention import Retention

DAY = 86400.0


def decided(time_s: float, model: str, decision: Decision, by: str = "operator", **figures) -> Promotion:
    return Promotion(time_s, model, decision, by, "because", figures)


def test_decisions_come_back_in_the_order_in_which_they_were_taken_whatever_the_clocks_say(history):
    taken = [decided(20.0, "scorer@1", Decision.SHADOW, "nightly", rows=[{"policy": "x", "jct": 1.5}]),
             decided(10.0, "scorer@1", Decision.PROMOTE)]
    before = history.last_decision()
    for decision in taken:
        history.decide(decision)
    assert list(history.decisions()) == taken
    assert history.last_decision() > before


def test_figures_that_are_no_numbers_and_text_that_is_none_do_not_spoil_a_decision(history):
    history.decide(decided(1.0, "a\0b@1", Decision.REFUSE, ratio=math.nan, tail=math.inf, who="\udce4"))
    (read,) = history.decisions()
    assert (read.model, read.figures) == ("ab@1", {"ratio": None, "tail": None, "who": "?"})


def test_a_promotion_puts_whoever_was_active_into_shadow():
    found = states([decided(1.0, "a@1", Decision.PROMOTE), decided(2.0, "b@1", Decision.SHADOW),
                    decided(3.0, "b@1", Decision.PROMOTE)])
    assert active_model(found) == "b@1"
    assert (found["a@1"].decision, found["a@1"].reason) == (Decision.SHADOW, "replaced by b@1")


def test_after_a_demotion_the_heuristic_is_active():
    found = states([decided(1.0, "a@1", Decision.PROMOTE), decided(2.0, "a@1", Decision.DEMOTE, "daemon")])
    assert active_model(found) is None
    assert active_model({}) is None


def test_a_command_decides_beside_the_running_daemon(history, url):
    with Ledger.open(url) as ledger:
        ledger.decide(decided(5.0, "scorer@1", Decision.PROMOTE))
        assert active_model(states(ledger.decisions())) == "scorer@1"
    assert active_model(states(history.decisions())) == "scorer@1"


def test_a_ledger_does_not_migrate(history, url):
    with history._writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '0001'"))
    with pytest.raises(SchemaTooOld, match="db upgrade"):
        Ledger.open(url)


def test_a_silence_that_goes_on_is_one_row(history):
    for rounds, last_s in enumerate((10.0, 40.0, 70.0), start=1):
        history.record_abstentions([Abstention("a@1", "doubt", f"round {rounds}", 10.0, last_s, rounds)])
    history.record_abstentions([Abstention("a@1", "doubt", "told late", 10.0, 40.0, 2)])
    history.record_abstentions([Abstention("a@1", "stale", "old", 100.0, 100.0),
                                Abstention("b@1", "doubt", "other", 10.0, 10.0)])
    history.record_abstentions([Abstention("a@1", "doubt", "again", 130.0, 130.0)])
    assert [(one.model, one.cause, one.words, one.last_s) for one in history.abstentions()] == [
        ("a@1", "doubt", "round 3", 70.0), ("b@1", "doubt", "other", 10.0), ("a@1", "stale", "old", 100.0),
        ("a@1", "doubt", "again", 130.0)]
    assert history.abstained() == {("a@1", "doubt"): 4, ("a@1", "stale"): 1, ("b@1", "doubt"): 1}
    assert [one.cause for one in history.abstentions(since_s=90.0)] == ["stale", "doubt"]


def test_standings_of_a_window_replace_those_before_and_hostile_ones_are_left_out(history):
    first = ShadowResult("a@1", 0.0, 300.0, 9.0, 10.0, 1.0, 2.0)
    history.record_standings([first, ShadowResult("b@1", 0.0, 300.0, math.nan, 10.0, 1.0, 2.0)])
    again = ShadowResult("a@1", 0.0, 600.0, 19.0, 20.0, 1.0, 2.0, "fifo+first-fit")
    history.record_standings([again, ShadowResult("a@1", 600.0, 900.0, 1.0, 1.0, 0.0, 0.0)])
    assert history.standings() == (again, ShadowResult("a@1", 600.0, 900.0, 1.0, 1.0, 0.0, 0.0))
    assert len(history.standings(since_s=1.0)) == 1


def test_old_silences_and_standings_go_and_decisions_stay(history):
    history.decide(decided(0.0, "a@1", Decision.PROMOTE))
    for time_s in (4 * DAY, 6 * DAY, 9 * DAY):
        history.record_abstentions([Abstention("a@1", "doubt", "", time_s, time_s)])
        history.record_standings([ShadowResult("a@1", time_s, time_s + 300, 1.0, 1.0, 0.0, 0.0)])
    history.compact(10 * DAY, Retention(recommendations_s=5 * DAY))
    assert [one.first_s for one in history.abstentions()] == [6 * DAY, 9 * DAY]
    assert [one.since_s for one in history.standings()] == [6 * DAY, 9 * DAY]
    assert len(history.decisions()) == 1


def test_advice_of_an_older_schema_outlives_the_upgrade(url):
    engine = database.connect(database.parse(url))
    with engine.connect().execution_options(writing=True) as connection:
        command.upgrade(database._alembic(connection), "0001")
        connection.execute(text(
            "INSERT INTO recommendations (job_id, submit_s, partition, policy, shadow, objective, action, reason, "
            "alternatives, issued_s, last_issued_s) VALUES ('7', 1, 'gpu', 'easy', false, 'wait', 'hold', 'full', "
            "'[]', 2, 3)"))
        connection.commit()
    engine.dispose()
    with History.open(url) as history:
        (issued,) = history.recommendations(0, 10)
    assert (issued.recommendation.job_id, issued.recommendation.reason, issued.last_issued_s) == ("7", "full", 3)
    assert (issued.recommendation.reasons, issued.recommendation.instead) == ((), None)


def test_a_decision_of_a_newer_version_is_told_and_its_model_is_not_asked(history):
    history.decide(decided(1.0, "scorer@1", Decision.SHADOW, "nightly", tried_since_s=0.5))
    history.decide(decided(2.0, "scorer@2", Decision.PROMOTE))
    with history._writing() as connection:
        connection.execute(text("UPDATE promotions SET decision = 'quarantine' WHERE model = 'scorer@1'"))
    newer, own = history.decisions()
    assert (newer.decision, newer.figures) == (Decision.REFUSE, {"tried_since_s": 0.5})
    assert "'quarantine'" in newer.reason
    assert newer.reason.endswith("because")
    assert own.decision is Decision.PROMOTE
