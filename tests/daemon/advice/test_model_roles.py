"""The daemon and its agents: who sits, who is silent, who loses its place. A real daemon, a real, untrained scorer."""

import re
from dataclasses import replace
from pathlib import Path
from threading import Event

import numpy as np
import pytest

from idlewatt.daemon.advice.advisor import Advisor
from idlewatt.daemon.advice.model_roles import MOST_SHADOWS, ModelLoader, ModelRoles, roles, wanted
from idlewatt.daemon.agents.checkpoint import CARD, WEIGHTS, write_card
from idlewatt.daemon.agents.scorer.agent import MEMBERS, save
from idlewatt.daemon.agents.scorer.network import SIZE
from idlewatt.daemon.counterfactual import WindowRequest, replayed
from idlewatt.daemon.learning.models import SPEEDS, ModelStore
from idlewatt.daemon.learning.noted_demotions import DEMOTED
from idlewatt.daemon.learning.regret import DAY_S
from idlewatt.daemon.learning.trials import COMBINATIONS, LISTED
from idlewatt.daemon.settings.advice import AdviceSettings
from idlewatt.daemon.view import DaemonView
from idlewatt.storage import schema
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion, ShadowResult
from idlewatt.storage.records import Job, JobState, ModelCard, Node, Partition, Request, SchedulerSnapshot

FIFO, EASY = "fifo+first-fit+easy", "limit-aged+best-fit+easy"
CURVE = ((0.5, 0.9), (1.0, 0.8))


def store_scorer(models: Path, version: str = "1") -> str:
    """Put a scorer into the store whose members agree: it orders at random, but it orders."""
    weights = np.repeat(np.random.default_rng(1).normal(0, 0.1, (1, SIZE)), MEMBERS, axis=0)
    card = ModelCard("scorer", version, 1e9, 0, "", "", "", kind="scorer", source="made up", curve=CURVE)
    save(models / "scorer" / version, weights, card)
    return f"scorer@{version}"


def decided(model: str, decision: Decision = Decision.PROMOTE, time_s: float = 1e9, by: str = "operator", **figures):
    return Promotion(time_s, model, decision, by, "because", figures)


# Who is asked.

def force(*decisions: Promotion) -> dict[str, Promotion]:
    return {one.model: one for one in decisions}


def test_the_active_one_is_asked_first_then_the_last_shadows_and_the_refused_never():
    shadows = [decided(f"s@{number}", Decision.SHADOW, 1e9 + number) for number in range(MOST_SHADOWS + 2)]
    found = wanted(force(*shadows, decided("d@1", Decision.DEMOTE, 2e9), decided("a@1"),
                         decided("r@1", Decision.REFUSE, 3e9)))
    assert list(found)[0] == "a@1"
    assert found == {"a@1": True, "s@3": False, "s@4": False, "d@1": False}


@pytest.fixture
def compiled_here(monkeypatch):
    """Agents need no child that compiles them ahead: they are compiled here, once for a worker."""
    monkeypatch.setattr(ModelLoader, "_compiled", lambda self, model: True)


@pytest.fixture
def agency(tmp_path, compiled_here) -> ModelLoader:
    store_scorer(tmp_path)
    return ModelLoader(tmp_path)


def served_model(agency: ModelLoader):
    (found,) = agency.served_models(force(decided("scorer@1")))
    return found


def test_an_agent_is_loaded_once_and_anew_when_its_files_change(agency, tmp_path):
    first = served_model(agency)
    assert first.agent.card.model == "scorer@1"
    assert served_model(agency).agent is first.agent
    store_scorer(tmp_path)
    assert served_model(agency).agent is not first.agent


@pytest.mark.parametrize(("spoil", "pattern"), [
    (lambda folder: (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:-8]), "digest differs"),
    (lambda folder: (folder / WEIGHTS).write_bytes(b"\0" * 100), "digest differs"),
    (lambda folder: (folder / WEIGHTS).unlink(), "cannot be read"),
    (lambda folder: (folder / CARD).write_text((folder / CARD).read_text().replace('"format": 1', '"format": 99')),
     "newer idlewatt"),
    (lambda folder: (folder / CARD).write_text("{"), "not JSON"),
    (lambda folder: write_card(folder, ModelCard("x", "1", 0, 0, "", "", "", kind="scorer")), "restore|trained|digest"),
])
def test_damaged_files_keep_an_agent_from_its_seat_until_they_are_whole_again(agency, tmp_path, spoil, pattern):
    before = served_model(agency)
    spoil(tmp_path / "scorer" / "1")
    damaged = served_model(agency)
    assert damaged.agent is None
    assert re.search(pattern, damaged.fault)
    store_scorer(tmp_path)
    assert served_model(agency).agent.card == before.agent.card


def test_speeds_that_are_spoilt_while_an_agent_is_loaded_cost_it_alone_until_they_are_whole(
        agency, tmp_path, monkeypatch):
    speeds, load = tmp_path / "scorer" / "1" / SPEEDS, ModelStore.load

    def loaded(store, name):
        found = load(store, name)
        speeds.write_text("groups: !!bool x")
        return found

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ModelStore, "load", loaded)
        spoilt = served_model(agency)
    for found in spoilt, served_model(agency):
        assert (found.agent, "speeds.yaml: not YAML" in found.fault) == (None, True)
    speeds.unlink()
    assert served_model(agency).fault == ""


def test_an_agent_that_is_not_in_the_store_is_a_fault_and_no_crash(agency):
    (found,) = agency.served_models(force(decided("scorer@nowhere")))
    assert "there is no model" in found.fault


# What is told of jobs that have ended.

def test_an_order_that_looks_back_advises_by_what_the_daemon_recorded_of_jobs_that_have_ended(tmp_path, rig):
    now, settings = 1e9, rig.service().settings
    quick = settings.model_copy(update={"advice": AdviceSettings(policy="sampled+best-fit+easy", shadow=())})
    first, then = (Job(name, now - waits, JobState.PENDING, "gpu", Request(8), user=user, limit_s=DAY_S)
                   for name, user, waits in (("90", "slow", 60.0), ("91", "quick", 30.0)))
    near = [Job(str(number), now - 9e3 + number, JobState.COMPLETED, "gpu", Request(8), user=user,
                start_s=now - 8e3, end_s=now - 8e3 + took_s)
            for number, (user, took_s) in enumerate([("slow", 7e3), ("quick", 60.0)] * 5)]
    snapshot = SchedulerSnapshot(now, (Node("dgx-1", ("gpu",), 8),), (Partition("gpu", ("dgx-1",)),), (first, then))
    started = {}
    for recorded in ([], near):
        with History.open(f"sqlite:///{tmp_path}/{len(recorded)}.db") as history:
            history.record_finished(recorded)
            known = ModelRoles(quick, history, 1.0, now)
            inputs = replace(known.advice_inputs(quick, now), heuristic="", predictor=None)
            known.end()
        rows = Advisor(quick.advice, inputs).advise(snapshot, now).recommendations
        started[len(recorded)] = [one.job_id for one in rows if one.action == "start" and not one.shadow]
    assert started == {0: ["90"], len(near): ["91"]}


# In the daemon.

@pytest.fixture
def service(rig, compiled_here):
    return collected(rig)


def collected(rig, **changes):
    """Return a daemon that has read everything once and advised."""
    made = rig.service(**changes)
    for cycle in (made.jobs, made.scrape, made.assess):
        cycle()
    made.advise()
    return made


def promote(rig, service, model: str) -> None:
    """Decide beside the daemon, as a command does, and advise until the agent has been compiled and asked."""
    with Ledger.open(service.settings.storage.url) as ledger:
        ledger.decide(decided(model))
    for _ in range(6000):
        service.advise()
        if model in service.known.learned.called:
            return
        Event().wait(0.05)
    raise AssertionError("the agent is never asked")


def published(service):
    return DaemonView(service, lambda: service.settings).published()


def test_without_agents_the_heuristic_is_active_and_nothing_is_claimed(service):
    facts = published(service)
    assert service.known.advice.active == EASY
    assert set(facts.policy_info) == {(FIFO, "incumbent"), (EASY, "active"), ("fifo+first-fit", "shadow")}
    assert facts.promotions_total == {"promote": 0, "shadow": 0, "demote": 0, "refuse": 0}
    assert facts.heldout_jct_seconds == facts.abstaining == facts.training_score_ratio == {}
    assert any(row.wait_change_s is not None for row in service.known.advice.recommendations)


@pytest.mark.long
def test_a_promoted_agent_advises_once_a_child_has_compiled_it_and_is_told_everywhere(rig):
    service = collected(rig)
    model = store_scorer(service.settings.storage.models_folder)
    promote(rig, service, model)
    advice, facts, view = service.known.advice, published(service), DaemonView(service, lambda: service.settings)
    assert advice.active == model
    first = view.recommendations()[0]
    assert (first.policy, first.shadow, first.instead.policy) == (model, False, EASY)
    assert {(model, "active"), (EASY, "fallback")} <= set(facts.policy_info)
    assert facts.abstaining == {model: 0}
    assert facts.model_info == {(model, "1"): 1}
    assert facts.training_score_ratio == {(model, "0.50"): 0.9, (model, "1.00"): 0.8}
    (row,) = [one for one in view.models() if one.model == model]
    assert (row.model, row.state, row.by, row.source, row.abstains) == (model, "active", "operator", "made up", "")
    assert [(one.model, one.decision) for one in view.decisions()] == [(model, "promote")]
    with service._history.read_only(service.settings.storage.url) as reader:
        recorded = {one.recommendation.policy for one in reader.recommendations(0, 1e12)}
    assert {model, EASY} <= recorded


def test_tampered_weights_put_the_heuristic_back_at_once_recorded_and_said(rig, service, caplog):
    model = store_scorer(service.settings.storage.models_folder)
    promote(rig, service, model)
    weights = service.settings.storage.models_folder / "scorer" / "1" / WEIGHTS
    weights.write_bytes(weights.read_bytes()[:-4])
    for _ in range(3):
        rig.now_s += 15
        service.jobs()
        service.advise()
    assert service.known.advice.active == EASY
    facts = published(service)
    assert facts.abstaining == {model: 1}
    assert facts.abstentions_total == {(model, "damaged"): 3}
    (silence,) = service._history.abstentions()
    assert (silence.cause, silence.rounds, silence.last_s - silence.first_s) == ("damaged", 3, 30)
    assert "digest differs" in DaemonView(service, lambda: service.settings).models()[0].abstains
    assert sum("an agent abstains" in record.message for record in caplog.records) == 1, "said once, counted thrice"


def test_a_cluster_that_changed_size_overnight_is_doubted(rig, service):
    models = service.settings.storage.models_folder
    model = store_scorer(models)
    folder = models / "scorer" / "1"
    write_card(folder, replace(ModelStore(models).find(model).card, seen={"nodes": (100.0, 200.0)}))
    promote(rig, service, model)
    assert service.known.advice.active == EASY
    assert service.known.learned.silent[model].cause == "doubt"
    assert "4 nodes" in service.known.learned.silent[model].words


def test_while_the_scheduler_is_silent_nobody_is_asked_and_nothing_is_advised(rig, service):
    model = store_scorer(service.settings.storage.models_folder)
    promote(rig, service, model)
    rig.now_s += 2 * service.settings.waste.scheduler_max_age
    service.advise()
    assert DaemonView(service, lambda: service.settings).recommendations() == ()


def test_an_agent_is_not_asked_about_what_is_older_than_three_reads(rig, compiled_here):
    service = collected(rig, waste="{scheduler_max_age: 1d}")
    model = store_scorer(service.settings.storage.models_folder)
    promote(rig, service, model)
    assert service.known.advice.active == model
    rig.now_s += 4 * service.settings.cycles.jobs
    service.advise()
    assert service.known.advice.active == EASY
    assert service.known.learned.silent[model].cause == "stale"


def test_until_its_code_is_compiled_the_heuristic_speaks_and_that_is_said(rig, service, monkeypatch):
    monkeypatch.setattr(ModelLoader, "_compiled", lambda self, model: False)
    model = store_scorer(service.settings.storage.models_folder)
    service._history.decide(decided(model))
    service.advise()
    assert service.known.advice.active == EASY
    assert DaemonView(service, lambda: service.settings).models()[0].abstains == "its code is being compiled"


def test_a_restart_goes_on_with_the_same_agent_and_the_same_counts(rig, service):
    model = store_scorer(service.settings.storage.models_folder)
    promote(rig, service, model)
    (service.settings.storage.models_folder / "scorer" / "1" / WEIGHTS).unlink()
    service.advise()
    rig.services.remove(service)
    service.stop()
    later = rig.service()
    later.jobs()
    later.advise()
    promote(rig, later, model)
    assert published(later).abstentions_total[model, "damaged"] >= 2


def test_a_judgement_is_published_policy_by_policy(rig, service):
    rows = [{"policy": name, "jct_mean_s": 10.0, "jct_p99_s": 90.0, "wait_mean_s": 1.0, "wait_p99_s": 9.0,
             "energy_joules": 5.0, "energy_ratio": {"estimate": 1.0, "low": 0.99, "high": None},
             "jct_ratio": {"estimate": 0.9, "low": 0.8, "high": None}}
            for name in ("scorer@1", FIFO, "sjf-oracle")]
    service._history.decide(decided("scorer@1", Decision.REFUSE, 1e9, "nightly", rows=rows))
    service.advise()
    facts = published(service)
    assert facts.heldout_jct_seconds["sjf-oracle", "p99"] == 90
    assert facts.heldout_jct_ratio["scorer@1", "estimate"] == 0.9
    assert facts.heldout_energy_joules["scorer@1", "on"] == 5.0
    assert facts.heldout_energy_ratio["scorer@1", "on", "low"] == 0.99
    assert facts.heldout_timestamp_seconds == 1e9
    assert facts.promotions_total["refuse"] == 1


def test_a_heuristic_that_was_promoted_leads_and_all_candidates_are_published_beside_it(rig, service):
    leader, blind = "sjf-prediction+best-fit+easy", "sjf-limit+best-fit+easy"
    against = {FIFO: {"estimate": 0.9, "low": 0.85, "high": 0.95}}
    service._history.decide(decided(leader, by="nightly", incumbent=FIFO, against=against))
    found = {LISTED: {blind: {"fit": False, "why": "limits leak"}}}
    service._history.decide(decided("scorer@1", Decision.SHADOW, 1e9 + 1, **found))
    service.advise()
    facts = published(service)
    assert (leader, "active", "because") in facts.candidate_info
    assert (blind, "not a candidate", "limits leak") in facts.candidate_info
    assert ("scorer@1", "candidate", "because") in facts.candidate_info
    assert {name for name, _, _ in facts.candidate_info} == {"scorer@1", *COMBINATIONS}
    assert [facts.candidate_jct_ratio[leader, bound] for bound in ("estimate", "low", "high")] == [0.9, 0.85, 0.95]
    assert facts.candidate_jct_ratio[blind, "estimate"] is None
    first = DaemonView(service, lambda: service.settings).models()[0]
    assert (first.model, first.state, first.abstains, first.jct_ratio) == (leader, "active", "", 0.9)


def standings(model: str, now_s: float, bad_days: int) -> list[ShadowResult]:
    first = now_s // DAY_S * DAY_S - bad_days * DAY_S
    return [ShadowResult(model, first + hour * 3600, first + (hour + 1) * 3600, 130.0, 100.0, 30.0, 0.0, FIFO)
            for hour in range(24 * bad_days)]


def test_weeks_of_bad_days_demote_and_the_next_round_is_the_heuristics(rig, service):
    model = store_scorer(service.settings.storage.models_folder)
    promote(rig, service, model)
    roles = service._model_roles
    roles.record_standings(standings(model, rig.now_s, 3), FIFO, rig.now_s)
    assert roles.learned.leader == model
    roles.record_standings(standings(model, rig.now_s, 25), EASY, rig.now_s)
    assert (roles.learned.leader, roles.learned.regrets) == (model, {}), "another incumbent decides now"
    roles.record_standings([], FIFO, rig.now_s)
    service.advise()
    assert service.known.advice.active == EASY
    facts = published(service)
    assert facts.regret_ratio[model] == pytest.approx(0.3)
    assert facts.regret_streak[model] == 25
    assert facts.promotions_total["demote"] == 1
    assert (model, "demoted") in facts.policy_info
    (row,) = [row for row in DaemonView(service, lambda: service.settings).models() if row.model == model]
    assert (row.state, row.by, row.bad_days) == ("demoted", "daemon", 25)


def test_a_database_that_is_restored_from_before_a_demotion_does_not_let_the_agent_advise_again(rig, service, caplog):
    name = store_scorer(service.settings.storage.models_folder)
    service._history.decide(decided(name, time_s=rig.now_s))
    service._history.decide(decided(name, Decision.DEMOTE, rig.now_s + 60.0, "daemon"))
    roles = ModelRoles(service.settings, service._history, 1.0, rig.now_s)
    roles._read_decisions(rig.now_s)
    with service._history._writing() as connection:  # as a backup of the minute between the two has it
        connection.execute(schema.promotions.delete().where(schema.promotions.c.decision == "demote"))
    again = ModelRoles(service.settings, service._history, 1.0, rig.now_s)
    again._read_decisions(rig.now_s)
    assert again.learned.leader is None
    assert again.learned.in_force[name].reason.startswith("because (decided once more: the database had forgotten it")
    assert "the database had forgotten demotions" in caplog.text
    for one in (roles, again):
        one.end()


def test_a_damaged_note_of_demotions_is_told_and_costs_no_advice(rig, service, caplog):
    path = service.settings.storage.models_folder / DEMOTED
    path.parent.mkdir(parents=True)
    path.write_text("[")
    service._history.decide(decided("scorer@1", time_s=rig.now_s))
    roles = ModelRoles(service.settings, service._history, 1.0, rig.now_s)
    roles._read_decisions(rig.now_s)
    assert roles.learned.leader == "scorer@1"
    assert "demotions cannot be compared" in caplog.text
    roles.end()


def test_bad_days_before_its_promotion_do_not_count_against_it(rig, service):
    model = store_scorer(service.settings.storage.models_folder)
    service._history.decide(decided(model, time_s=rig.now_s))
    service.advise()
    service._model_roles.record_standings(standings(model, rig.now_s, 25), FIFO, rig.now_s)
    assert service._model_roles.learned.leader == model


@pytest.mark.long
def test_closed_windows_are_replayed_under_agents_too_and_one_that_fails_spoils_nothing(rig, service):
    model = store_scorer(service.settings.storage.models_folder)
    rig.watch(service, 4500.0, 60.0)
    service.record()
    request = WindowRequest(service.settings.storage.url, rig.now_s - 3600, rig.now_s, (FIFO, EASY, model,
                                                                                        "scorer@gone"),
                            models=str(service.settings.storage.models_folder))
    window = replayed(request)
    assert set(window.system_s) == set(window.joules) == {FIFO, EASY, model}
    assert "there is no model" in window.faults["scorer@gone"]
    found = {one.policy: one for one in window.standings(FIFO)}
    assert set(found) == {EASY, model}
    assert {one.incumbent for one in found.values()} == {FIFO}
    assert all(one.system_s >= one.wait_s >= 0 and one.incumbent_system_s > 0 for one in found.values())


def test_without_a_policy_of_its_own_a_site_is_advised_by_its_own_order_until_a_heuristic_has_earned_it(rig):
    service = rig.service(advice="{shadow: []}", counterfactual=f"{{incumbent: {FIFO}}}")
    service.jobs()
    assert (FIFO, "active") in roles(service.settings, service.known.learned)
    service._history.decide(decided(EASY, Decision.PROMOTE, rig.now_s, "nightly"))
    service.advise()
    assert service.known.advice.active == EASY
    assert (EASY, "active") in roles(service.settings, service.known.learned)
    assert service.known.learned.leader == EASY
    assert service.known.learned.called == (), "a heuristic is no file to be loaded"
