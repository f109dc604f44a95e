"""Nightly training: when it begins, what it decides, who may do it, and how it is ended. Real trainings, small ones."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from dataclasses import replace
from datetime import datetime

import numpy as np
import pytest
import scattered
from chooser import CHOICES, LIKE, SCHEMA, chooser  # noqa: F401
from click.testing import CliRunner
from cost import widened
from sites import SINCE, record, site

from idlewatt.daemon import config
from idlewatt.daemon.advice.model_roles import ModelRoles
from idlewatt.daemon.agents.checkpoint import CARD, save, verify
from idlewatt.daemon.agents.histories import DAY_S, TooLittle
from idlewatt.daemon.agents.kinds import Objective, TrainingError
from idlewatt.daemon.cli import main
from idlewatt.daemon.facts import _learned
from idlewatt.daemon.learning import nightly, training_scheduler
from idlewatt.daemon.learning.begun_trials import BEGUN, note, noted, recall
from idlewatt.daemon.learning.candidates import STATES, candidates
from idlewatt.daemon.learning.models import ModelStore, speeds_of
from idlewatt.daemon.learning.models_owner import OWNER
from idlewatt.daemon.learning.night_records import COOLING_S, recheck_active, too_soon
from idlewatt.daemon.learning.nightly import NightDecisions
from idlewatt.daemon.learning.promotion_criteria import TRIALS, PromotionCriteria
from idlewatt.daemon.learning.start_models import newest
from idlewatt.daemon.learning.training import ORDER, SHADOWS, TrainingDirectory, TrainingJob, TrainingUnderWay
from idlewatt.daemon.learning.training_scheduler import (
    NIGHT,
    NOTE,
    TASK,
    Night,
    TrainingScheduler,
    TrainingTask,
    last_night,
)
from idlewatt.daemon.learning.trials import (
    COMBINATIONS,
    JUDGED,
    TRIED,
    WEIGHTS,
    Tried,
    agent_on_trial,
    error_of_each,
    no_turn,
    trials,
)
from idlewatt.daemon.learning.verdict import Verdict
from idlewatt.storage.errors import StoreLocked, StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion, active_model, states
from idlewatt.storage.records import ModelCard, SchedulerSnapshot

NOW = SINCE + 20 * DAY_S + 3600


@pytest.fixture(scope="module")
def lived(tmp_path_factory):
    """The database of three weeks of a crowded site."""
    folder = tmp_path_factory.mktemp("lived")
    record(f"sqlite:///{folder}/idlewatt.db", site(days=20, jobs=1700, dependency=-1))
    return folder / "idlewatt.db"


@pytest.fixture
def task(lived, tmp_path):
    (tmp_path / "idlewatt.db").write_bytes(lived.read_bytes())
    text = f"storage: {{url: 'sqlite:///{tmp_path}/idlewatt.db'}}\ntraining: {{budget: 20s}}"
    return replace(TrainingTask.of(config.parse(text), NOW), agent="chooser")


def decisions(task):
    with History.read_only(task.url) as reader:
        return reader.decisions()


@pytest.mark.usefixtures("chooser")
def test_a_night_ends_with_a_judged_model_and_a_recorded_decision(task):
    night = nightly.carry_out(task)
    assert night.result == "done", night.message
    (model,) = ModelStore(task.models).models()
    assert model.name == night.model
    assert not model.fault
    assert model.card.metrics["days"] >= 4.9
    (decision,) = [one for one in decisions(task) if "@" in one.model]
    assert (decision.model, decision.by, decision.time_s) == (model.name, "nightly", NOW)
    assert decision.decision in (Decision.PROMOTE, Decision.SHADOW)
    assert decision.figures["fidelity"]["jobs"] > 100
    assert last_night(task.models) == night
    assert not TrainingDirectory(ModelStore(task.models), nightly.FOLDER).folder.exists()


@pytest.mark.long
@pytest.mark.usefixtures("chooser")
def test_the_next_night_goes_on_from_the_model_before_and_old_ones_make_room(task, monkeypatch):
    started = []
    whole = nightly.TrainingRun.__iter__

    def watched(lesson):
        started.append(lesson.start)
        return whole(lesson)

    monkeypatch.setattr(nightly.TrainingRun, "__iter__", watched)
    nights = [nightly.carry_out(replace(task, now_s=NOW + 60 * number, keep=1)) for number in range(4)]
    assert [night.result for night in nights] == ["done"] * 4
    names = [model.name for model in ModelStore(task.models).models()]
    assert started[0] is None
    assert [path.name for path in started[1:]] == [night.model.partition("@")[2] for night in nights[:3]]
    in_force = states(decisions(task))
    listened = {name for name, last in in_force.items() if "@" in name and last.decision is not Decision.REFUSE}
    assert set(names) == listened
    assert nights[-1].model in names
    assert len(listened) <= 1 + SHADOWS


@pytest.mark.usefixtures("chooser")
def test_a_model_of_an_older_idlewatt_is_no_start(task, monkeypatch):
    first = nightly.carry_out(task)
    monkeypatch.setattr("chooser.SCHEMA", {"choices": ["others"]})
    assert newest(ModelStore(task.models), "chooser", NOW) is None
    assert nightly.carry_out(replace(task, now_s=NOW + 60)).result == "done"
    assert ModelStore(task.models).find(first.model).fault == ""


@pytest.mark.usefixtures("chooser")
def test_what_has_earned_it_waits_for_an_operator_where_the_configuration_says_so(task, monkeypatch):
    easy = nightly.examined

    def generous(*arguments, **options):
        return replace(easy(*arguments, **options), decision=Decision.PROMOTE, reasons=("better",))

    monkeypatch.setattr(nightly, "examined", generous)
    first = nightly.carry_out(replace(task, promote=False))
    assert decisions(task)[-1].decision is Decision.SHADOW
    assert "an operator decides" in decisions(task)[-1].reason
    second = nightly.carry_out(replace(task, now_s=NOW + 60))
    assert active_model(states(decisions(task))) == first.model, "who is on trial goes on to be judged"
    # Tonight's model is no better than the one that is now active, so that stays.
    last = next(one for one in decisions(task) if one.model == second.model)
    assert last.decision is Decision.SHADOW
    assert f"under {first.model}, which is active: " in last.reason


@pytest.mark.usefixtures("chooser")
def test_one_agent_of_a_kind_is_on_trial_at_a_time_and_a_year_holds_only_some(task):
    first = nightly.carry_out(task)
    second = nightly.carry_out(replace(task, now_s=NOW + 60))
    tried = trials(decisions(task), NOW + 60)
    assert [one.name for one in tried if "@" in one.name] == [first.model]
    assert agent_on_trial(tried, "chooser").name == first.model
    assert TRIED not in next(one for one in decisions(task) if one.model == second.model).figures
    assert first.model in no_turn(tried, "chooser")
    old = [Tried(f"chooser@{number}", NOW - 80 * DAY_S, over=True) for number in range(TRIALS)]
    assert "each is a chance to be wrong" in no_turn(old, "chooser")
    assert no_turn(old[1:], "chooser") == ""


def terms(text):
    """Return the terms that an operator wrote down."""
    return PromotionCriteria.of(config.parse(f"training: {{terms: {text}}}"))


@pytest.fixture
def clairvoyant(chooser, monkeypatch):  # noqa: F811
    """Let the chooser choose what nobody else can do: to know how long jobs will run."""
    choices = (*CHOICES, "sjf-oracle+best-fit+easy")
    monkeypatch.setattr("chooser.CHOICES", choices)
    monkeypatch.setattr("chooser.SCHEMA", {"choices": list(choices)})
    monkeypatch.setattr("chooser.LIKE", {"jct": np.zeros(len(choices), np.float32)})


@pytest.mark.usefixtures("clairvoyant")
def test_who_is_surely_better_on_held_out_days_is_active_the_next_morning(task, tmp_path, monkeypatch):
    url = f"sqlite:///{tmp_path}/lazy.db"  # all ask for two days: only who knows better can do better
    record(url, site(days=20, jobs=1900, dependency=-1, limit=np.full(1900, 2 * DAY_S)))
    monkeypatch.setattr("idlewatt.daemon.learning.pairs.LEAST_S", 3600.0)  # as if each hour were a day
    monkeypatch.setattr("idlewatt.daemon.learning.pairs.MOST_S", 7200.0)
    task = replace(task, url=url, terms=terms("{tail: 9, group: 3, missed: 0.25, days: 4}"))  # and long jobs pay for it
    night = nightly.carry_out(task)
    (decision,) = [one for one in decisions(task) if "@" in one.model]
    assert decision.decision is Decision.PROMOTE, decision.reason
    assert (decision.model, decision.by) == (night.model, "nightly")
    compared = decision.figures["against"]
    assert set(compared) == {decision.figures["incumbent"], decision.figures["best"]}
    assert all(interval["high"] < 1.0 for interval in compared.values())
    assert 0.5 < decision.figures["tail"]["total"] <= 9
    assert ModelStore(task.models).find(night.model).card.metrics["earned"] == 1.0


@pytest.fixture
def quick(monkeypatch):
    """Blocks of an hour or two, as if each were a day."""
    monkeypatch.setattr("idlewatt.daemon.learning.pairs.LEAST_S", 3600.0)
    monkeypatch.setattr("idlewatt.daemon.learning.pairs.MOST_S", 7200.0)


@pytest.mark.usefixtures("chooser", "quick")
def test_a_heuristic_that_is_surely_better_is_active_the_next_morning_and_seen_by_everybody(task, tmp_path):
    url = f"sqlite:///{tmp_path}/busy.db"
    record(url, site(days=20, jobs=1950, dependency=-1))
    night = nightly.carry_out(replace(task, url=url, terms=terms("{tail: 9, group: 9, missed: 0.25, days: 4}")))
    assert night.result == "done", night.message
    leader = active_model(states(decisions(replace(task, url=url))))
    assert leader in COMBINATIONS
    config_file = tmp_path / "site.yml"
    config_file.write_text(f"storage: {{url: '{url}', models: {tmp_path}/models}}\n")
    listed = CliRunner().invoke(main, ["models", "--config.file", str(config_file), "--format", "json"])
    rows = {row["model"]: row for row in json.loads(listed.stdout)}
    assert set(rows) == {night.model, *COMBINATIONS}, "agents and heuristics together"
    assert rows[leader]["state"] == "active"
    assert re.fullmatch(r"0\.\d{3} \(0\.\d{3}-0\.\d{3}\)", rows[leader]["over_incumbent"])
    assert ": better" in rows[leader]["why"]
    assert {row["state"] for row in rows.values()} <= set(STATES)
    with History.open(url) as history:
        roles = ModelRoles(config.load(config_file), history, 1.0, NOW)
        roles._read_decisions(NOW)
        roles.end()
    told = _learned(roles.learned)
    assert {state for name, state, _ in told["candidate_info"] if name == leader} == {"active"}
    assert {name for name, _, _ in told["candidate_info"]} == set(rows)
    assert 0 < told["candidate_jct_ratio"][leader, "high"] < 1


@pytest.mark.usefixtures("chooser")
def test_a_night_says_of_every_heuristic_why_it_is_not_tried(task, tmp_path):
    url = f"sqlite:///{tmp_path}/lazy.db"
    record(url, site(days=20, jobs=1700, dependency=-1, limit=np.full(1700, 2 * DAY_S)))
    task = replace(task, url=url)
    assert nightly.carry_out(task).result == "done"
    known = {one.name: one for one in candidates(decisions(task), NOW)}
    for order in ("sjf-limit", "limit-aged", "wfp3"):
        one = known[f"{order}+best-fit+easy"]
        assert one.state == "not a candidate"
        assert one.reason.startswith("100% of the jobs have the same time limit")
        assert one.estimate is None
    assert known["fifo+first-fit+easy"].state == "candidate", "which is the incumbent itself"
    (agent,) = [one for one in known.values() if one.learned]
    assert agent.state == "on trial"
    last = next(one for one in decisions(task) if one.model == agent.name)
    assert set(last.figures["unfit"]) == {f"{order}+best-fit+easy" for order in ("sjf-limit", "limit-aged", "wfp3")}
    assert not {row["policy"] for row in last.figures["rows"]} & set(last.figures["unfit"])


@pytest.mark.usefixtures("chooser")
def test_a_heuristic_whose_limits_turn_out_to_tell_nothing_ends_its_trial(task, tmp_path):
    url = f"sqlite:///{tmp_path}/lazy.db"
    record(url, site(days=20, jobs=1700, dependency=-1, limit=np.full(1700, 2 * DAY_S)))
    task, tried = replace(task, url=url), "sjf-limit+best-fit+easy"
    with Ledger.open(url) as ledger:
        begun = Promotion(NOW - 60, tried, Decision.SHADOW, "nightly", "", {TRIED: NOW - 8 * DAY_S})
        ledger.decide(begun)
    assert nightly.carry_out(task).result == "done"
    assert states(decisions(task))[tried].decision is Decision.REFUSE
    known = {one.name: one for one in candidates(decisions(task), NOW)}
    assert known[tried].state == "not a candidate"
    assert "first come, first served" in known[tried].reason


@pytest.mark.usefixtures("chooser")
def test_a_heuristic_that_is_active_is_not_tried_anew_the_next_night_and_so_stays(task):
    held = "sjf-limit+best-fit+easy"
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - 60, held, Decision.PROMOTE, "nightly", "", {TRIED: NOW - 14 * DAY_S}))
    assert nightly.carry_out(task).result == "done"
    assert active_model(states(decisions(task))) == held
    assert [one.time_s for one in decisions(task) if one.model == held] == [NOW - 60]


@pytest.mark.parametrize(("by", "beaten", "stays"), [
    ("nightly", "fifo+first-fit+easy", True), ("nightly", "random-feasible", False),
    ("operator", "random-feasible", True)])
def test_who_beat_another_order_than_the_site_runs_now_has_shown_nothing_here(task, by, beaten, stays):
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - DAY_S, "scorer@1", Decision.PROMOTE, by, "better", {"incumbent": beaten}))
        recheck_active(ledger, task)
    last = states(decisions(task))["scorer@1"]
    assert last.decision is (Decision.PROMOTE if stays else Decision.SHADOW)
    assert stays or last.reason == (
        "it was shown to be better than random-feasible, and the site runs fifo+first-fit+easy now")


def begun(ledger, names, since_s):
    """Record that a shortlist was judged for the first time."""
    for name in names:
        ledger.decide(Promotion(since_s + 14 * DAY_S, name, Decision.SHADOW, "nightly", "", {TRIED: since_s}))


def test_who_is_left_of_a_shortlist_has_no_larger_error_than_it_began_with(task, monkeypatch):
    errors = []

    def judged(policy, incumbent, heuristics, windows, *, terms, **options):
        errors.append(terms.error)
        return Verdict(policy.name, Decision.SHADOW, ("not yet",), incumbent, incumbent)

    monkeypatch.setattr(nightly, "judge", judged)
    monkeypatch.setattr(nightly, "held_out", lambda material, since_s: ())
    with Ledger.open(task.url) as ledger:
        begun(ledger, COMBINATIONS[:10], NOW - 20 * DAY_S)
        for name in COMBINATIONS[1:10]:
            ledger.decide(Promotion(NOW - 60, name, Decision.REFUSE, "nightly", "its limits tell nothing"))
        tried = trials(ledger.decisions(), NOW)
        NightDecisions(ledger, ModelStore(task.models), task, None, None)._heuristics(
            [(COMBINATIONS[0], NOW - 20 * DAY_S)], tried)
    assert errors == [error_of_each(TRIALS * 10)]


@pytest.mark.usefixtures("chooser")
def test_a_trial_is_judged_from_its_beginning_on_however_short_the_history_to_learn_from(task):
    tried = "fifo+best-fit+easy"
    with Ledger.open(task.url) as ledger:
        begun(ledger, [tried], NOW - 15 * DAY_S)
    assert nightly.carry_out(replace(task, history_s=8 * DAY_S)).result == "done"
    (*_, judged) = [one for one in decisions(task) if one.model == tried]
    assert judged.figures["since_s"] == pytest.approx(NOW - 15 * DAY_S, abs=7200)
    (agent,) = [model.card for model in ModelStore(task.models).models()]
    assert agent.history_from_s == pytest.approx(NOW - 8 * DAY_S, abs=7200)


@pytest.mark.usefixtures("chooser")
def test_a_year_that_has_held_its_shortlists_begins_no_other_and_says_so(task):
    with Ledger.open(task.url) as ledger:
        for number in range(TRIALS):
            begun(ledger, COMBINATIONS[:2], NOW - (80 + number) * DAY_S)
    before = len(decisions(task))
    assert nightly.carry_out(task).result == "done"
    assert all("@" in one.model for one in decisions(task)[before:]), "no heuristic was judged"
    known = {one.name: one for one in candidates(decisions(task), NOW)}
    assert "4 shortlists were tried within a year" in known[COMBINATIONS[-1]].reason


@pytest.mark.usefixtures("chooser")
def test_terms_that_the_operator_set_hold_at_night(task):
    assert nightly.carry_out(replace(task, terms=terms("{days: 30, tail: 1.5}"))).result == "done"
    (decision,) = [one for one in decisions(task) if "@" in one.model]
    assert decision.decision is Decision.SHADOW
    assert "30 days and 100 jobs are needed" in decision.reason
    assert decision.figures["terms"]["tail"] == 1.5


@pytest.mark.usefixtures("chooser")
@pytest.mark.parametrize("exchanged", [False, True])
def test_a_trial_does_not_go_on_with_other_weights_under_the_same_name(task, tmp_path, monkeypatch, exchanged):
    card = ModelCard("chooser", "", NOW - DAY_S, 7, "", "", "", kind="chooser")
    save(tmp_path / "draft", card, {"jct": LIKE["jct"] + 1}, SCHEMA)
    model = ModelStore(task.models).keep(tmp_path / "draft", verify(tmp_path / "draft"))
    verdict, seeds = Verdict(model.name, Decision.SHADOW, ("not yet",), task.incumbent, task.incumbent), []
    monkeypatch.setattr(nightly, "held_out", lambda material, since_s: ())
    monkeypatch.setattr(nightly, "examined", lambda *arguments, seed, **options: seeds.append(seed) or verdict)
    with Ledger.open(task.url) as ledger:
        sitting = NightDecisions(ledger, ModelStore(task.models), task, None, None)
        sitting._go_on(model.name, NOW - 20 * DAY_S)
        if exchanged:
            save(model.folder, model.card, {"jct": LIKE["jct"] + 2}, SCHEMA)
        sitting._go_on(model.name, NOW - 20 * DAY_S)
    last = states(decisions(task))[model.name]
    assert last.decision is (Decision.REFUSE if exchanged else Decision.SHADOW)
    assert ("weights are others than those that its trial began with" in last.reason) is exchanged
    assert set(seeds) == {7}


@pytest.fixture
def on_trial(task, tmp_path):
    """A model whose trial began twenty days ago."""
    save(tmp_path / "draft", ModelCard("chooser", "", NOW - DAY_S, 7, "", "", "", kind="chooser"),
         {"jct": LIKE["jct"] + 1}, SCHEMA)
    model = ModelStore(task.models).keep(tmp_path / "draft", verify(tmp_path / "draft"))
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - DAY_S, model.name, Decision.SHADOW, "nightly", "", {TRIED: NOW - 20 * DAY_S}))
    return model


@pytest.mark.usefixtures("chooser")
@pytest.mark.parametrize("order", [None, "{}", "[" * 100_000])
def test_a_model_on_trial_whose_order_is_damaged_costs_itself_and_no_night(task, on_trial, monkeypatch, order):
    monkeypatch.setattr(nightly, "held_out", lambda material, since_s: ())
    if order is not None:
        (on_trial.folder / ORDER).write_text(order)
    with Ledger.open(task.url) as ledger:
        NightDecisions(ledger, ModelStore(task.models), task, None, None)._go_on(on_trial.name, NOW - 20 * DAY_S)
    last = states(decisions(task))[on_trial.name]
    assert last.decision is Decision.REFUSE
    assert "what it was trained on is not known any more" in last.reason


@pytest.mark.usefixtures("chooser")
def test_a_trial_whose_card_is_damaged_ends_for_that_and_not_for_other_weights(task, on_trial, monkeypatch):
    monkeypatch.setattr(nightly, "held_out", lambda material, since_s: ())
    with Ledger.open(task.url) as ledger:
        before = states(ledger.decisions())[on_trial.name]
        ledger.decide(replace(before, time_s=NOW, figures={**before.figures, WEIGHTS: on_trial.card.weights_digest}))
        (on_trial.folder / CARD).write_text("[")
        NightDecisions(ledger, ModelStore(task.models), task, None, None)._go_on(on_trial.name, NOW - 20 * DAY_S)
    last = states(decisions(task))[on_trial.name]
    assert last.decision is Decision.REFUSE
    assert "must not be used: " in last.reason
    assert "not JSON" in last.reason


def test_a_night_whose_clock_stepped_back_ends_no_trial(task, on_trial, monkeypatch):
    def too_little(material, since_s):
        raise TooLittle("only 0 jobs lie in the part that judges")

    monkeypatch.setattr(nightly, "held_out", too_little)
    with Ledger.open(task.url) as ledger:
        NightDecisions(ledger, ModelStore(task.models), task, None, None)._go_on(on_trial.name, NOW - 20 * DAY_S)
    assert agent_on_trial(trials(decisions(task), NOW), "chooser").name == on_trial.name


@pytest.mark.parametrize(("then", "told"), [
    ({"terms": {"days": 30, "error": 0.5, "tail": 1.25}}, "days was 30 and is 14"),
    ({"terms": {"power_down_s": 600.0}}, "power_down_s was 600.0 and is None"),
    ({"incumbent": "random-feasible"}, "incumbent was random-feasible and is fifo+first-fit+easy"),
    ({"terms": {"days": 14, "error": 0.5}, "incumbent": "fifo+first-fit+easy"}, "")])
def test_a_trial_ends_where_its_terms_are_changed_and_says_which(task, monkeypatch, then, told):
    name, since_s = "fifo+best-fit+easy", NOW - 20 * DAY_S
    monkeypatch.setattr(nightly, "held_out", lambda material, since_s: ())
    monkeypatch.setattr(nightly, "judge", lambda policy, incumbent, *others, **options: Verdict(
        policy.name, Decision.PROMOTE, ("better",), incumbent, incumbent))
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - DAY_S, name, Decision.SHADOW, "nightly", "", {TRIED: since_s, **then}))
        tried = trials(ledger.decisions(), NOW)
        NightDecisions(ledger, ModelStore(task.models), task, None, None)._heuristics([(name, since_s)], tried)
    last = states(decisions(task))[name]
    assert last.decision is (Decision.REFUSE if told else Decision.PROMOTE)
    assert told in last.reason
    assert len(trials(decisions(task), NOW)) == 1, "the trial that ended counts in its year"


@pytest.mark.parametrize(("judged", "decided", "reason"), [
    (Decision.PROMOTE, Decision.SHADOW, "another heuristic is better: as judged"),
    (Decision.REFUSE, Decision.REFUSE, "as judged"), (Decision.SHADOW, Decision.SHADOW, "as judged")])
def test_who_would_be_promoted_waits_where_another_one_comes_first(task, judged, decided, reason):
    verdict = Verdict("chooser@1", judged, ("as judged",), task.incumbent, task.incumbent)
    with Ledger.open(task.url) as ledger:
        night = NightDecisions(ledger, ModelStore(task.models), task, None, None)
        found = night.decide(verdict, (), NOW, "another heuristic is better")
    assert (found.decision, found.reason) == (decided, reason)


@pytest.mark.parametrize(("configured", "aim"), [(True, "energy"), (False, "utilization+jct_mean")])
def test_a_night_trains_for_the_configured_objective_else_for_that_of_the_kind(task, monkeypatch, configured, aim):
    def refused(*arguments, objective, **options):
        raise TooLittle(objective.aim)

    monkeypatch.setattr(nightly, "TrainingJob", refused)
    wanted = replace(task, agent="gist_mdrl", objective=Objective(0.0, 0.0, 0.0, energy=1.0), aims=configured)
    assert nightly.carry_out(wanted).message == aim


def test_soon_after_a_demotion_what_has_earned_it_waits_in_shadow(task):
    verdict = Verdict("chooser@2", Decision.PROMOTE, ("it is better",), task.incumbent, task.incumbent)
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - DAY_S, "chooser@1", Decision.DEMOTE, "daemon", "three bad days"))
        sitting = NightDecisions(ledger, ModelStore(task.models), task, None, None)
        soon = sitting.decide(verdict, (), NOW, "")
        later = replace(sitting, task=replace(task, now_s=NOW + 7 * DAY_S)).decide(verdict, (), NOW, "")
    assert (soon.decision, soon.reason) == (
        Decision.SHADOW, "an agent was demoted 1.0 days ago; 7 must pass: it is better")
    assert later.decision is Decision.PROMOTE


@pytest.mark.parametrize(("theirs", "ours"), [(Decision.PROMOTE, Decision.SHADOW), (Decision.DEMOTE, Decision.PROMOTE)])
def test_what_an_operator_decides_while_a_night_judges_stands(task, theirs, ours):
    verdict = Verdict("chooser@1", ours, ("by the night",), task.incumbent, task.incumbent)
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - DAY_S, "chooser@1", Decision.SHADOW, "nightly", "", {TRIED: NOW - 2 * DAY_S}))
        ledger.decide(Promotion(NOW + 600, "chooser@1", theirs, "operator", "watched it"))
        found = NightDecisions(ledger, ModelStore(task.models), task, None, None).decide(verdict, (), NOW, "")
    assert (found.decision, found.by) == (theirs, "operator")
    assert states(decisions(task))["chooser@1"].decision is theirs


@pytest.mark.parametrize("theirs", [Decision.PROMOTE, Decision.DEMOTE])
def test_a_trial_counts_that_began_while_an_operator_decided(task, theirs):
    name = "fifo+best-fit+easy"
    verdict = Verdict(name, Decision.SHADOW, ("by the night",), task.incumbent, task.incumbent)
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW + 600, name, theirs, "operator", "watched it"))
        NightDecisions(ledger, ModelStore(task.models), task, None, None).decide(verdict, (), NOW, "")
        assert recall(ledger, task.models, NOW + DAY_S) == "", "no trial was forgotten"
        assert [one.name for one in trials(ledger.decisions(), NOW + DAY_S)] == [name]
        last = states(ledger.decisions())[name]
    assert (last.decision, last.by) == (theirs, "operator")


def test_who_an_operator_makes_active_while_a_night_compares_is_compared_too(task, monkeypatch):
    rivals = []

    def stays(self, verdict, rival, test):
        rivals.append(rival)
        if rival == "chooser@1":
            self.ledger.decide(Promotion(NOW + 600, "chooser@2", Decision.PROMOTE, "operator", "watched it"))
        return "worse" if rival == "chooser@2" else ""

    monkeypatch.setattr(NightDecisions, "_stays", stays)
    verdict = Verdict("chooser@3", Decision.PROMOTE, ("better",), task.incumbent, task.incumbent)
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - DAY_S, "chooser@1", Decision.PROMOTE, "nightly", "better"))
        found = NightDecisions(ledger, ModelStore(task.models), task, None, None).decide(verdict, (), NOW, "")
    assert rivals == ["chooser@1", "chooser@2"]
    assert (found.decision, found.reason) == (Decision.SHADOW, "worse")
    assert active_model(states(decisions(task))) == "chooser@2"


def test_chances_that_an_operator_takes_while_a_night_compares_are_not_taken_twice(task, monkeypatch):
    def stays(self, verdict, rival, test):
        self.ledger.decide(Promotion(NOW + 600, "chooser@2", Decision.PROMOTE, "operator", "", {JUDGED: TRIALS}))
        return ""

    monkeypatch.setattr(NightDecisions, "_stays", stays)
    verdict = Verdict("chooser@3", Decision.PROMOTE, ("better",), task.incumbent, task.incumbent)
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(NOW - DAY_S, "chooser@1", Decision.PROMOTE, "nightly", "better"))
        found = NightDecisions(ledger, ModelStore(task.models), task, None, None).decide(verdict, (), NOW, "")
    assert found.decision is Decision.SHADOW
    assert "4 agents were tried within a year" in found.reason
    assert TRIED not in found.figures
    assert noted(task.models) == ()


def test_a_night_that_has_lost_its_lock_to_another_one_records_nothing(task):
    def taken():
        raise StoreLocked("another nightly training decides")

    verdict = Verdict("fifo+best-fit+easy", Decision.SHADOW, ("not yet",), task.incumbent, task.incumbent)
    with Ledger.open(task.url) as ledger, pytest.raises(StoreLocked):
        NightDecisions(ledger, ModelStore(task.models), task, None, None, taken).decide(verdict, (), NOW, "")
    assert decisions(task) == ()
    assert noted(task.models) == ()


@pytest.mark.usefixtures("chooser")
@pytest.mark.parametrize("fails_at", [1, pytest.param(3, marks=pytest.mark.long)])
def test_a_shortlist_begins_whole_or_not_at_all_wherever_the_database_fails(task, monkeypatch, fails_at):
    decide, calls = Ledger.decide, []

    def failing(ledger, *taken):
        calls.append(taken)
        if len(calls) == fails_at:
            raise StoreUnavailable("database is full")
        decide(ledger, *taken)

    with monkeypatch.context() as broken:
        broken.setattr(Ledger, "decide", failing)
        assert nightly.carry_out(task).result == "failed"
    assert len(noted(task.models)) == (0 if fails_at == 1 else 6)
    assert nightly.carry_out(replace(task, now_s=NOW + 60)).result == "done"
    running = [one for one in trials(decisions(task), NOW + 60) if "@" not in one.name and not one.over]
    assert len(running) == 6


@pytest.mark.parametrize("killed_before", [True, False])
def test_a_night_that_is_killed_while_a_shortlist_begins_takes_no_chance_and_loses_no_trial(
        task, monkeypatch, killed_before):
    """By a real SIGKILL, right before or right after the transaction that records the shortlist."""
    shortlist, decide = [(name, NOW - 14 * DAY_S) for name in COMBINATIONS[:3]], Ledger.decide

    def killing(ledger, *taken):
        if not killed_before:
            decide(ledger, *taken)
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(Ledger, "decide", killing)
    child = os.fork()
    if child == 0:
        try:
            with Ledger.open(task.url) as ledger:
                NightDecisions(ledger, ModelStore(task.models), task, None, None)._begin(shortlist)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    monkeypatch.undo()
    with Ledger.open(task.url) as ledger:
        assert recall(ledger, task.models, NOW + DAY_S) == "", "nothing is over that nobody has looked at"
        running = [(one.name, one.since_s) for one in trials(ledger.decisions(), NOW + DAY_S) if not one.over]
    assert running == ([] if killed_before else shortlist)
    assert set(noted(task.models)) == set(running)


@pytest.mark.usefixtures("chooser")
def test_days_that_have_begun_a_shortlist_begin_no_other(task):
    assert nightly.carry_out(task).result == "done"
    tried = [one for one in trials(decisions(task), NOW) if "@" not in one.name]
    with Ledger.open(task.url) as ledger:  # as where the terms were changed and changed back
        for one in tried:
            ledger.decide(Promotion(NOW, one.name, Decision.REFUSE, "nightly", "its terms were changed"))
    assert nightly.carry_out(replace(task, now_s=NOW + 60)).result == "done"
    assert tried
    assert all(one.over for one in trials(decisions(task), NOW + 60) if "@" not in one.name)
    known = {one.name: one for one in candidates(decisions(task), NOW + 60)}
    assert "have begun a trial of heuristics before" in known[tried[0].name].reason


@pytest.mark.usefixtures("chooser")
def test_a_night_that_cannot_be_noted_tells_so_and_its_result_stands(task):
    (task.models / NOTE).mkdir(parents=True)
    night = nightly.carry_out(replace(task, forgets="storage.retention.jobs keeps too little"))
    assert night.result == "refused"
    assert re.search(r"keeps too little; .*cannot be noted beside the models: .*night\.json", night.message)


def test_a_folder_of_models_that_cannot_be_written_is_a_failure_and_not_a_refusal(task):
    task.models.mkdir()
    (task.models / ".training").write_text("")
    night = nightly.carry_out(task)
    assert night.result == "failed"
    assert "models cannot be kept there" in night.message


def test_on_a_full_disk_a_training_has_its_lock_all_the_same(task):
    (task.models / ".training").mkdir(parents=True)
    (task.models / ".training/lock").symlink_to("/dev/full")
    training_directory = TrainingDirectory(ModelStore(task.models), "chooser")
    with training_directory.locked(), pytest.raises(TrainingUnderWay), training_directory.locked():
        pass


def test_a_damaged_note_of_trials_keeps_nobody_active_that_beat_another_incumbent(task):
    note(task.models, [("scorer@1", NOW)], NOW)
    (task.models / BEGUN).write_bytes(b"")
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(SINCE, "scorer@1", Decision.PROMOTE, "nightly", "", {"incumbent": "random-feasible"}))
    night = nightly.carry_out(task)
    assert night.result == "failed"
    assert re.search(r"trials\.json: .*; scorer@1 is active no more: ", night.message)
    assert active_model(states(decisions(task))) is None


@pytest.mark.usefixtures("chooser")
def test_a_young_history_is_refused_and_not_called_a_failure(tmp_path, task):
    url = f"sqlite:///{tmp_path}/young.db"
    record(url, site(days=2, jobs=100, dependency=-1))
    night = nightly.carry_out(replace(task, url=url, now_s=SINCE + 2 * DAY_S))
    assert night.result == "refused"
    assert "too short to learn from" in night.message
    assert last_night(task.models) == night


@pytest.mark.parametrize(("kept", "why"), [
    ("30d", "storage.retention.jobs keeps jobs for 30 days, and a trial needs those of 77: what it has shown would be "
            "forgotten while it lasts, so nobody is trained or tried by night; set it to 77d or more"), ("77d", "")])
def test_where_the_history_would_forget_the_beginning_of_a_trial_nobody_is_tried_and_that_is_said(
        tmp_path, monkeypatch, kept, why):
    monkeypatch.setattr(nightly, "_trained", lambda task, *others: Night(task.now_s, "done", ""))
    text = f"storage: {{url: 'sqlite:///{tmp_path}/idlewatt.db', retention: {{jobs: {kept}}}}}"
    History.open(f"sqlite:///{tmp_path}/idlewatt.db").close()
    night = nightly.carry_out(TrainingTask.of(config.parse(text), NOW))
    assert night == last_night(tmp_path / "models") == Night(NOW, "refused" if why else "done", why)


@pytest.mark.usefixtures("chooser")
def test_nights_that_are_refused_or_fail_do_not_make_a_restart_forget_the_last_that_was_done(task, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(nightly, "_trained", lambda task, *others: Night(task.now_s, "done", ""))
        assert nightly.carry_out(task).result == "done"
    for nights, refused in enumerate(({"forgets": "keeps too little"}, {"agent": "nobody"}), 1):
        night = nightly.carry_out(replace(task, now_s=NOW + nights * DAY_S, **refused))
        assert night.result != "done"
        shift = TrainingScheduler(task.models, NOW + nights * DAY_S + 60)
        assert shift.look(settings(task.models, enabled="false"), NOW + nights * DAY_S + 60).last_success_s == NOW


@pytest.mark.parametrize("refused", [{"forgets": "storage.retention.jobs keeps too little"}, {"agent": "nobody"},
                                     {"now_s": SINCE + DAY_S}], ids=["forgets", "unknown agent", "young"])
@pytest.mark.parametrize(("beaten", "said"), [
    ("random-feasible", "scorer@1 is active no more: it was shown to be better than random-feasible, and the site runs "
                        "fifo+first-fit+easy now"),
    ("fifo+first-fit+easy", "scorer@1 was shown to be better than fifo+first-fit+easy, which the site still runs")])
def test_a_night_that_trains_nobody_sees_all_the_same_whether_the_site_runs_another_order(task, refused, beaten, said):
    task = replace(task, **refused)
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(SINCE, "scorer@1", Decision.PROMOTE, "nightly", "better", {"incumbent": beaten}))
    night = nightly.carry_out(task)
    assert night.result in ("refused", "failed")
    assert night.message.endswith(f"; {said}")
    assert active_model(states(decisions(task))) == (None if "no more" in said else "scorer@1")


@pytest.mark.usefixtures("chooser")
def test_a_database_that_is_gone_is_a_failure_with_its_name(task, tmp_path):
    night = nightly.carry_out(replace(task, url=f"sqlite:///{tmp_path}/none.db"))
    assert night.result == "failed"
    assert "none.db" in night.message


@pytest.mark.usefixtures("chooser")
def test_only_one_trains(task):
    with TrainingDirectory(ModelStore(task.models), "chooser").locked():
        night = nightly.carry_out(task)
    assert night.result == "refused"
    assert "under way already" in night.message


def test_a_night_removes_what_killed_ones_left_and_leaves_alone_what_a_training_is_making(task):
    draft = task.models / "chooser/.4711"
    draft.mkdir(parents=True)
    with TrainingDirectory(ModelStore(task.models), "chooser").locked():
        assert nightly.carry_out(task).result == "refused"
        assert draft.exists(), "it may be of the training that is under way"
    first, second = (nightly.carry_out(replace(task, forgets="too little is kept")) for _ in range(2))
    assert first.message == "too little is kept; 1 draft that an ended process had left among the models was removed"
    assert second.message == "too little is kept", "it is said once"
    assert not draft.exists()


@pytest.mark.usefixtures("chooser")
def test_a_night_leaves_an_interrupted_training_by_hand_and_removes_what_a_killed_night_of_any_kind_left(
        task, monkeypatch):
    by_hand, of_night = (TrainingDirectory(ModelStore(task.models), name) for name in ("chooser", nightly.FOLDER))
    by_hand.begin(TrainingJob("chooser", "big.csv", 36000.0))
    of_night.begin(TrainingJob("scorer", "history", 20.0))
    for directory in (by_hand, of_night):
        directory.unfinished.mkdir()
        (directory.unfinished / "rounds.npy").write_bytes(b"hours of work")
    begun = []

    def failed(training_run):
        begun.append((training_run.order.agent, of_night.interrupted().agent, of_night.unfinished.exists()))
        raise TrainingError("no more")

    monkeypatch.setattr(nightly.TrainingRun, "__iter__", failed)
    assert nightly.carry_out(task).message == "no more"
    assert begun == [("chooser", "chooser", False)]
    assert by_hand.interrupted().source == "big.csv"
    assert (by_hand.unfinished / "rounds.npy").read_bytes() == b"hours of work"


def test_two_databases_that_share_a_folder_of_models_end_no_trial_of_each_other(task, tmp_path):
    task = replace(task, forgets="too little is kept")  # which recalls trials and trains nobody
    url, tried = f"sqlite:///{tmp_path}/other.db", "fifo+best-fit+easy"
    record(url, site(days=2, jobs=100, dependency=-1))
    other = replace(task, url=url)
    for one, since_s in ((task, NOW - 20 * DAY_S), (other, NOW - 19 * DAY_S)):
        with Ledger.open(one.url) as ledger:
            begun(ledger, [tried], since_s)
    nights = [nightly.carry_out(replace(one, now_s=NOW + number)) for number, one in enumerate([task, other] * 2)]
    for one in (task, other):
        assert [trial.over for trial in trials(decisions(one), NOW)] == [False], "its own, which goes on"
    assert [night.result for night in nights] == ["refused", "failed"] * 2
    assert f"belong to the database {tmp_path}/idlewatt.db, and this one is {tmp_path}/other.db" in nights[1].message
    assert last_night(task.models) == nights[2], "what is noted is of the nights of the database that has the folder"
    apart = nightly.carry_out(replace(other, models=tmp_path / "apart"))
    assert (apart.result, apart.message) == ("refused", "too little is kept")


def test_a_night_in_the_folder_of_another_database_looks_all_the_same_who_is_active(task):
    (task.models / OWNER).parent.mkdir(parents=True)
    (task.models / OWNER).write_text('[{"identity": "another", "place": "/elsewhere/idlewatt.db"}]')
    with Ledger.open(task.url) as ledger:
        ledger.decide(Promotion(SINCE, "scorer@1", Decision.PROMOTE, "nightly", "", {"incumbent": "random-feasible"}))
    night = nightly.carry_out(task)
    assert night.result == "failed"
    assert re.search(r"belong to the database /elsewhere/idlewatt\.db, .*; scorer@1 is active no more: ", night.message)
    assert active_model(states(decisions(task))) is None


@pytest.mark.long
@pytest.mark.usefixtures("chooser")
def test_a_database_that_is_restored_from_a_backup_gives_no_trial_again(task, tmp_path):
    backup = (tmp_path / "idlewatt.db").read_bytes()
    first = nightly.carry_out(task)
    before = {(one.name, one.since_s) for one in trials(decisions(task), NOW)}
    assert first.model in {name for name, _ in before}
    for path in tmp_path.glob("idlewatt.db*"):
        path.unlink()
    (tmp_path / "idlewatt.db").write_bytes(backup)
    second = nightly.carry_out(replace(task, now_s=NOW + 60))
    after = {(one.name, one.since_s): one.over for one in trials(decisions(task), NOW + 60)}
    assert before <= set(after), "every chance that was taken counts"
    assert after[first.model, max(since_s for name, since_s in before if name == first.model)]
    assert f"the database had forgotten {len(before)} trials" in second.message


@pytest.mark.usefixtures("chooser")
def test_only_one_trains_into_a_database_whichever_folder_of_models_it_has(task, tmp_path):
    with Ledger.open(task.url) as ledger, ledger.training():
        night = nightly.carry_out(replace(task, models=tmp_path / "of another host"))
    assert night.result == "refused"
    assert "another nightly training decides in" in night.message
    assert decisions(task) == ()


@pytest.mark.usefixtures("chooser")
def test_the_timers_run_refuses_where_the_daemon_trains_and_works_where_it_does_not(task, tmp_path, monkeypatch):
    path = tmp_path / "idlewatt.yml"
    storage = f"storage: {{url: '{task.url}'}}\n"
    path.write_text(storage + "training: {enabled: true}\n")
    monkeypatch.setattr("time.time", lambda: NOW)
    done = CliRunner().invoke(main, ["train", "--nightly", "--config.file", str(path)])
    assert done.exit_code == 1
    assert "never both" in done.output
    settings = config.parse(storage)
    chosen = settings.training.model_copy(update={"agent": "chooser"})
    assert nightly.by_hand(settings.model_copy(update={"training": chosen})).result == "done"


def at(hour, minute=0, day=21):
    """Return a moment of local time."""
    return datetime(2026, 11, day, hour, minute).astimezone().timestamp()


@pytest.fixture
def started(monkeypatch):
    """The tasks that were started, of which none is ever done."""
    tasks = []
    monkeypatch.setattr(training_scheduler, "_started", lambda task: tasks.append(task) or subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True))
    return tasks


def settings(tmp_path, **training):
    words = {"enabled": "true", **training}
    return config.parse(f"storage: {{models: {tmp_path}}}\n"
                        f"training: {{{', '.join(f'{key}: {value}' for key, value in words.items())}}}")


def test_it_begins_at_the_time_of_day_and_once_a_night(tmp_path, started):
    shift, wanted = TrainingScheduler(tmp_path, at(2)), settings(tmp_path)
    for hour, minute, count in ((2, 30, 0), (2, 59, 0), (3, 0, 1), (3, 1, 1), (23, 0, 1)):
        found = shift.look(wanted, at(hour, minute))
        assert (len(started), found.running) == (count, count == 1)
    shift.end()
    again = TrainingScheduler(tmp_path, at(4))
    assert not again.look(wanted, at(23)).running, "a daemon that comes late waits for the next night"
    assert again.look(wanted, at(3, day=22)).running
    again.end()


def test_a_night_that_was_missed_is_made_up_for(tmp_path, started):
    (tmp_path / ".training").mkdir()
    night = training_scheduler.Night(at(3, day=20), "done", "", "")
    (tmp_path / training_scheduler.NOTE).write_bytes(NIGHT.dump_json(night))
    shift = TrainingScheduler(tmp_path, at(9))
    found = shift.look(settings(tmp_path), at(9, 1))
    assert found.running
    assert found.last_success_s == at(3, day=20)
    shift.end()


def test_without_being_told_to_nothing_is_trained(tmp_path, started):
    shift = TrainingScheduler(tmp_path, at(2))
    assert not shift.look(settings(tmp_path, enabled="false"), at(4)).running
    assert started == []


def test_after_the_end_nothing_begins(tmp_path, started):
    shift = TrainingScheduler(tmp_path, at(2))
    shift.look(settings(tmp_path), at(4))
    began = time.monotonic()
    shift.end()
    assert time.monotonic() - began < widened(5)
    assert not shift.look(settings(tmp_path), at(4, day=22)).running
    assert len(started) == 1


def test_a_training_that_never_ends_is_ended_and_called_a_failure(tmp_path, started, monkeypatch):
    shift = TrainingScheduler(tmp_path, at(2))
    assert shift.look(settings(tmp_path), at(3)).running
    late_s = 600 + training_scheduler.PATIENCE_S + 1
    monkeypatch.setattr(training_scheduler, "monotonic", lambda: time.monotonic() + late_s)
    found = shift.look(settings(tmp_path), at(3, 1))
    assert (found.running, found.runs["failed"]) == (False, 1)


def test_a_training_that_dies_without_a_word_is_a_failure_that_is_logged(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(training_scheduler, "_started", lambda task: subprocess.Popen(
        [sys.executable, "-c", "raise SystemExit(7)"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
    shift = TrainingScheduler(tmp_path, at(2))
    shift.look(settings(tmp_path), at(3))
    shift._child.wait(30)
    with caplog.at_level(logging.INFO):
        found = shift.look(settings(tmp_path), at(3, 1))
    assert found.runs["failed"] == 1
    assert "status 7" in caplog.records[-1].said


def test_its_process_ends_when_the_daemon_is_gone(task):
    busy = replace(task, agent="scorer", budget_s=600.0)
    child = subprocess.Popen([sys.executable, "-m", "idlewatt.daemon.learning.nightly"], stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, start_new_session=True)
    child.stdin.write(TASK.dump_json(busy) + b"\n")
    child.stdin.flush()
    lock, pause, deadline = task.models / ".training/lock", threading.Event(), time.monotonic() + 120
    while not (lock.exists() and lock.read_text() == str(child.pid)):
        assert child.poll() is None, child.stdout.read()
        assert time.monotonic() < deadline
        pause.wait(0.05)
    assert os.getpriority(os.PRIO_PROCESS, child.pid) == 19
    child.stdin.close()
    assert child.wait(30) == -9
    child.stdout.close()
    with TrainingDirectory(ModelStore(task.models), "scorer").locked():
        pass  # nobody holds the lock any more


def test_the_daemon_trains_and_publishes_how_it_went(rig):
    """The service's own cycle on the simulated cluster, whose history is too short: said, and nothing else happens."""
    from idlewatt.daemon.view import DaemonView

    service = rig.service(training=f"{{enabled: true, at: \"{datetime.fromtimestamp(rig.now_s + 600):%H:%M}\"}}")
    service.jobs()
    service.training()
    assert service.known.training.running is False
    at_first = DaemonView(service, lambda: service.settings).published().training_runs_total
    assert at_first == {"done": 0.0, "refused": 0.0, "failed": 0.0, "interrupted": 0.0}
    rig.now_s += 660
    service.training()
    assert service.known.training.running
    service._nights._child.wait(300)
    service.training()
    facts = DaemonView(service, lambda: service.settings).published()
    assert facts.training_runs_total == at_first | {"refused": 1.0}
    assert facts.training_running == 0.0
    assert "too short" in last_night(service.settings.storage.models_folder).message


@pytest.mark.long
@pytest.mark.usefixtures("chooser")
def test_a_night_learns_and_judges_by_the_sites_speeds_and_begins_anew_on_another_network(tmp_path):
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    _, _, lived = scattered.write(url)
    now_s = float(np.nanmax(lived.end)) + 100
    told = f"storage: {{url: '{url}'}}\ntraining: {{budget: 20s}}"
    task = replace(TrainingTask.of(config.parse(told), now_s), agent="chooser")
    first = nightly.carry_out(task)
    assert first.result == "done", first.message
    assert "site: 3 groups of like jobs from 700 runs" in first.message
    assert "trained anew" not in first.message
    model = ModelStore(task.models).find(first.model)
    assert model.card.speeds.startswith("site ")
    assert speeds_of(model.folder).identity == model.card.speeds
    assert "trained anew" not in nightly.carry_out(replace(task, now_s=now_s + 10)).message
    crossed = tuple(replace(node, leaf=f"leaf{number % 4}") for number, node in enumerate(scattered.NODES))
    with History.open(url) as history:
        history.record_snapshot(SchedulerSnapshot(now_s + 20, crossed))
    third = nightly.carry_out(replace(task, now_s=now_s + 60))
    assert "trained anew: 8 nodes hang together with others than when the last one learned" in third.message


def test_after_a_demotion_nothing_is_promoted_by_itself_for_a_week():
    demoted = Promotion(0.0, "a@1", Decision.DEMOTE, "daemon", "")
    assert "demoted 1.0 days ago" in too_soon([demoted], DAY_S)
    assert too_soon([demoted], COOLING_S) == ""
    assert too_soon([], DAY_S) == ""
    assert "demoted 0.0 days ago" in too_soon([demoted], -3600.0), "the night began before, and judges still"
    by_hand = Promotion(0.0, "a@1", Decision.DEMOTE, "operator", "")
    assert too_soon([by_hand], DAY_S) == "", "an operator knows"
