"""`idlewatt train`, `models`, `evaluate`, `promote`, `demote`: the whole way as a user goes it, on a trace."""

import contextlib
import json
import os
import re
import shutil
import signal
import sqlite3
import time
from dataclasses import replace

import pytest
import scattered
from chooser import chooser, train  # noqa: F401
from click.testing import CliRunner
from postgres import database
from sites import SINCE, record, site, write_trace

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.kinds import AgentKind
from idlewatt.daemon.cli import main
from idlewatt.daemon.cli._history import JobSource
from idlewatt.daemon.learning.models_owner import OWNER
from idlewatt.daemon.learning.training import TrainingJob
from idlewatt.daemon.learning.trials import judged_by_hand
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion

pytestmark = pytest.mark.usefixtures("chooser")


class Desk:
    """A folder with a trace, a database, a configuration that names it, and a shell."""

    def __init__(self, folder) -> None:
        self.folder = folder
        self.trace = write_trace(site(days=14, jobs=1500), folder / "site.csv")
        self.config = folder / "idlewatt.yml"
        self.config.write_text(f"storage: {{url: 'sqlite:///{folder}/idlewatt.db'}}\n")

    def run(self, *arguments):
        command, *rest = arguments
        return CliRunner().invoke(main, [command, "--config.file", str(self.config), *map(str, rest)],
                                  env={"COLUMNS": "250"})

    def train(self, *arguments):
        return self.run("train", "--agent", "chooser", "--from", self.trace, "--cluster", "4x8", *arguments)

    def rows(self):
        return [row for row in json.loads(self.run("models", "--format", "json").stdout) if "@" in row["model"]]


@pytest.fixture
def desk(tmp_path):
    made = Desk(tmp_path)
    History.open(f"sqlite:///{tmp_path}/idlewatt.db").close()
    return made


@pytest.fixture
def trained(desk):
    done = desk.train()
    assert done.exit_code == 0, done.output
    return desk


def test_a_training_says_where_the_model_is_what_it_is_worth_and_what_next(trained):
    done = trained.train("--seed", "1")
    assert done.exit_code == 0
    name = re.search(r"model: +(chooser@[\d.-]+), in (\S+)", done.stdout)
    assert (trained.folder / "models" / "chooser" / name[1].partition("@")[2]).samefile(name[2])
    for policy in (name[1], "fifo+first-fit+easy", "random-feasible", "sjf-oracle+best-fit+easy"):
        assert policy in done.stdout
    assert "verdict: " in done.stdout
    assert "next: " in done.stdout
    assert re.search(r"100%  chooser: 0\.\d+ of fifo\+first-fit\+easy", done.stderr)


def test_models_lists_cards_with_held_out_figures(trained):
    (row,) = trained.rows()
    assert row["state"] == "undecided"
    assert row["card"]["source"] == f"{trained.trace} on 4x8"
    figures = row["card"]["metrics"]
    assert (figures["earned"], 0 < figures["days"] <= 5) == (0.0, True)
    assert "jct_over_incumbent" not in figures  # of five days nothing is concluded
    assert row["card"]["curve"][-1][0] == 1.0
    assert row["card"]["history_from_s"] >= SINCE - 1
    table = trained.run("models").stdout
    assert "held out: 5 d, " in table
    assert row["model"] in table
    assert trained.run("models", "--format", "csv").stdout.startswith("model,trained,state,")


def test_a_training_by_hand_tells_of_the_drafts_that_it_removes(desk):
    draft = desk.folder / "models/chooser/.4711"
    draft.mkdir(parents=True)
    assert "note: 1 draft that an ended process had left among the models was removed" in desk.train("--resume").stderr
    assert not draft.exists()


def test_a_training_on_the_own_history_into_the_folder_of_another_database_is_refused_before_it_begins(desk):
    record(f"sqlite:///{desk.folder}/idlewatt.db", site(days=2, jobs=50, dependency=-1))
    note = desk.folder / "models" / OWNER
    note.parent.mkdir(parents=True)
    for content, told in (('[{"identity": "another", "place": "/elsewhere/idlewatt.db"}]', "/elsewhere/idlewatt.db"),
                          ("{", "cannot be read")):
        note.write_text(content)
        done = desk.run("train", "--agent", "chooser")
        assert done.exit_code == 1
        assert told in done.stderr
        assert str(note) in done.stderr


def test_no_models_say_how_to_make_one(desk):
    assert "`idlewatt train` makes one" in desk.run("models").stdout


def test_a_damaged_model_is_listed_as_such(trained):
    (row,) = trained.rows()
    (trained.folder / "models/chooser" / row["model"].partition("@")[2] / "weights.safetensors").write_bytes(b"")
    (row,) = trained.rows()
    assert (row["state"], row["card"]) == ("damaged", None)
    assert "digest differs" in row["why"]
    for code, words in ((2, ["evaluate", "chooser"]), (1, ["promote", row["model"], "--reason", "x"])):
        done = trained.run(*words)
        assert done.exit_code == code
        assert "Traceback" not in done.output


def test_a_model_whose_card_was_changed_to_know_less_is_not_judged_by_days_that_it_knows(trained):
    (row,) = trained.rows()
    path = trained.folder / "models/chooser" / row["model"].partition("@")[2] / "card.json"
    card = json.loads(path.read_text())
    path.write_text(json.dumps(card | {"history_until_s": card["history_until_s"] - 3 * 86400}))
    for command in (["evaluate", row["model"]], ["promote", row["model"], "--reason", "watched it"]):
        done = trained.run(*command)
        assert done.exit_code == 1
        assert "the card was changed after the training; restore it together with weights.safetensors" in done.stderr
    assert trained.rows()[0]["state"] == "damaged"


def test_evaluation_judges_on_what_came_after_the_training(trained):
    done = trained.run("evaluate", "chooser", "--format", "json")
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    (row,) = trained.rows()
    assert found["model"] == row["model"]
    assert found["since_s"] >= row["card"]["history_until_s"]
    assert "it was trained on a part of this history" not in found["reasons"]
    assert {entry["policy"] for entry in found["rows"]} >= {"random-feasible", "sjf-oracle+best-fit+easy", row["model"]}


def table(done):
    """Return what is told of the jobs, everybody's figures and the verdict."""
    lines = done.stdout.splitlines()
    first = next(number for number, line in enumerate(lines) if "held-out days with" in line)
    last = next(number for number, line in enumerate(lines) if line.startswith("verdict: "))
    return [line.rstrip() for line in lines[first:last + 1]]


def test_a_training_and_an_evaluation_say_the_same_of_the_same_jobs_and_seed(desk):
    told = desk.train("--seed", "4")
    again = desk.run("evaluate", "chooser")
    assert table(told) == table(again)
    assert "not the jobs that its training" not in again.output
    assert table(desk.run("evaluate", "chooser", "--seed", "5")) != table(again), "the seed stands in the title"


@pytest.mark.long
def test_on_the_own_history_both_say_the_same_until_later_jobs_have_ended_and_then_evaluation_says_so(desk):
    url = f"sqlite:///{desk.folder}/idlewatt.db"
    lived = site(days=20, jobs=1700, dependency=-1)
    record(url, lived)
    until_s = SINCE + 16 * 86400
    told = desk.run("train", "--agent", "chooser", "--until", f"{SINCE + 25 * 86400:.0f}")
    assert told.exit_code == 0, told.output
    again = desk.run("evaluate", "chooser")
    assert table(told) == table(again)
    assert "not the jobs that its training" not in again.output
    told = desk.run("train", "--agent", "chooser", "--until", f"{until_s:.0f}")
    later = desk.run("evaluate", "chooser")
    assert table(told) != table(later)
    count = int(re.search(r"not the jobs that its training was judged by: (\d+) of them ended or came after",
                          later.stderr)[1])
    running = count - int((lived.workload.submit >= until_s).sum())
    assert 0 < running < 50, "those that ran when it was trained have ended since"


@pytest.mark.long
def test_the_own_history_is_no_foreign_one_when_it_is_named_by_its_url(desk):
    url = f"sqlite:///{desk.folder}/./idlewatt.db"
    record(url, site(days=20, jobs=1700, dependency=-1))
    done = desk.run("train", "--agent", "chooser", "--seed", "3")
    assert done.exit_code == 0, done.output
    assert table(desk.run("evaluate", "chooser", "--from", url)) == table(desk.run("evaluate", "chooser"))
    done = desk.run("evaluate", "chooser", "--from", url, "--incumbent", "random-feasible")
    assert done.exit_code == 0, done.output
    assert desk.rows()[0]["card"]["incumbent"] == "random-feasible", "what came of it is written down"


def test_what_a_model_has_seen_of_a_database_is_known_under_its_other_name(trained, tmp_path):
    order = TrainingJob("chooser", f"sqlite:///{trained.folder}/idlewatt.db", 1.0)
    folder = trained.folder / "models/chooser" / trained.rows()[0]["model"].partition("@")[2]
    replace(order, source="history").write(folder)
    where = JobSource(order.source, trained.config)
    assert order.after(folder, where.same_as).known_until_s == trained.rows()[0]["card"]["history_until_s"]
    assert not where.same_as(f"sqlite:///{trained.folder}/other.db")
    assert not where.same_as(str(trained.trace))
    assert JobSource(str(trained.trace), trained.config).same_as(str(trained.trace))


def test_a_database_is_known_by_what_stands_in_it_where_its_names_share_nothing(desk):
    record(f"sqlite:///{desk.folder}/idlewatt.db", site(days=2, jobs=50))
    record(f"sqlite:///{desk.folder}/another.db", site(days=2, jobs=50))
    os.link(desk.folder / "idlewatt.db", desk.folder / "linked.db")
    where = JobSource("history", desk.config)
    assert where.same_as(f"sqlite:///{desk.folder}/linked.db")
    assert not where.same_as(f"sqlite:///{desk.folder}/another.db")
    for empty in ("first", "second"):
        History.open(f"sqlite:///{desk.folder}/{empty}.db").close()
    assert not JobSource(f"sqlite:///{desk.folder}/first.db").same_as(f"sqlite:///{desk.folder}/second.db")


def test_evaluation_on_another_history_writes_nothing_on_the_card(trained):
    before = trained.rows()[0]["card"]["metrics"]
    other = write_trace(site(days=14, jobs=900, seed=5), trained.folder / "other.csv")
    done = trained.run("evaluate", "chooser", "--from", other, "--cluster", "4x8", "--format", "csv")
    assert done.exit_code == 0, done.output
    assert "trained on a part" not in done.stderr
    assert trained.rows()[0]["card"]["metrics"] == before


@pytest.mark.long
def test_days_that_a_model_saw_in_an_export_are_left_out_where_its_own_site_evaluates_it_and_the_other_way(trained):
    seen_until_s = trained.rows()[0]["card"]["history_until_s"]
    record(f"sqlite:///{trained.folder}/idlewatt.db", site(days=14, jobs=1500, dependency=-1))
    done = trained.run("evaluate", "chooser", "--from", "history", "--format", "json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["since_s"] >= seen_until_s
    assert "the days that chooser@" in done.stderr
    done = trained.run("train", "--agent", "chooser", "--from", "history", "--until", f"{SINCE + 12 * 86400:.0f}")
    assert done.exit_code == 0, done.output
    done = trained.run("evaluate", "chooser", "--from", trained.trace, "--cluster", "4x8", "--format", "json")
    assert re.search(r"the days that chooser@\S+ learned from under another name are left out; it learned on history",
                     done.stderr)


def test_data_that_a_resumed_model_was_trained_on_is_not_used_as_test(trained):
    done = trained.train("--start", "chooser", "--until", f"{SINCE + 9 * 86400:.0f}")
    assert done.exit_code == 0, done.output
    newer, older = (row["card"] for row in trained.rows())
    assert newer["history_until_s"] == older["history_until_s"]
    assert "it was trained on a part of this history, which is then no test" in done.stdout


def test_days_that_a_model_saw_in_an_exported_trace_are_no_test_on_the_own_history(trained):
    folder = trained.folder / "models/chooser" / trained.rows()[0]["model"].partition("@")[2]
    seen_until_s = trained.rows()[0]["card"]["history_until_s"]
    child = TrainingJob("chooser", "history", 1.0).after(folder)
    assert child.known_until_s == seen_until_s, "the same days under another name"
    child.write(folder)
    grandchild = TrainingJob("chooser", "elsewhere.csv", 1.0).after(folder)
    assert {span.source for span in grandchild.lineage} == {str(trained.trace), "history"}
    assert grandchild.known_until_s == seen_until_s


def test_promotion_and_demotion_are_recorded_decisions(trained):
    name = trained.rows()[0]["model"]
    assert trained.run("promote", name, "--reason", "tried it").exit_code == 0
    (row,) = trained.rows()
    assert (row["state"], row["why"], row["by"]) == ("active", "tried it", "operator")
    trained.train("--seed", "2")
    newer = trained.rows()[0]["model"]
    trained.run("promote", newer, "--reason", "newer")
    assert {row["model"]: row["state"] for row in trained.rows()} == {newer: "active", name: "candidate"}
    assert trained.run("demote", newer, "--reason", "large jobs wait").exit_code == 0
    assert trained.rows()[0]["state"] == "demoted"


def test_a_model_that_does_not_meet_the_criteria_needs_a_reason(trained):
    (row,) = trained.rows()
    folder = trained.folder / "models/chooser" / row["model"].partition("@")[2]
    card = json.loads((folder / "card.json").read_text())
    (folder / "card.json").write_text(json.dumps(card | {"metrics": {}}))
    done = trained.run("promote", row["model"])
    assert done.exit_code == 2
    assert "Say --reason" in done.output
    card |= {"metrics": {"earned": 1.0}}
    (folder / "card.json").write_text(json.dumps(card))
    assert "not on this site's own history" in trained.run("promote", row["model"]).output
    card |= {"source": "history"}
    (folder / "card.json").write_text(json.dumps(card | {"incumbent": "random-feasible"}))
    output = " ".join(trained.run("promote", row["model"]).output.split())
    assert "compared with random-feasible, and this site runs fifo+first-fit+easy" in output
    assert f"`idlewatt evaluate {row['model']} --incumbent fifo+first-fit+easy` compares it with that" in output
    (folder / "card.json").write_text(json.dumps(card | {"incumbent": "fifo+first-fit+easy"}))
    assert "was never judged by the jobs of this database" in trained.run("promote", row["model"]).output
    judge(trained, row["model"])
    assert trained.run("promote", row["model"]).exit_code == 0
    assert trained.run("demote", row["model"], "--reason", "large jobs wait").exit_code == 0
    done = trained.run("promote", row["model"])
    assert done.exit_code == 2
    assert "was demoted since: large jobs wait" in done.output


def test_a_model_before_its_trial_needs_a_reason(trained):
    (row,) = trained.rows()
    path = trained.folder / "models/chooser" / row["model"].partition("@")[2] / "card.json"
    told = {"metrics": {"earned": 1.0}, "source": "history", "incumbent": "fifo+first-fit+easy"}
    path.write_text(json.dumps(json.loads(path.read_text()) | told))
    with Ledger.open(f"sqlite:///{trained.folder}/idlewatt.db") as ledger:
        ledger.decide(Promotion(1.0, row["model"], Decision.SHADOW, "nightly", "chooser@1 is on trial"))
    done = trained.run("promote", row["model"])
    assert done.exit_code == 2
    assert "has not had its turn: chooser@1 is on trial" in done.output


def test_a_model_of_a_night_that_made_room_for_one_by_hand_has_still_not_had_its_turn(trained):
    (row,) = trained.rows()
    path = trained.folder / "models/chooser" / row["model"].partition("@")[2] / "card.json"
    told = {"metrics": {"earned": 1.0}, "source": "history", "incumbent": "fifo+first-fit+easy"}
    path.write_text(json.dumps(json.loads(path.read_text()) | told))
    with Ledger.open(f"sqlite:///{trained.folder}/idlewatt.db") as ledger:
        ledger.decide(Promotion(1.0, row["model"], Decision.SHADOW, "nightly", "chooser@1 is on trial"))
        ledger.decide(Promotion(2.0, row["model"], Decision.REFUSE, "operator", "newer ones are in shadow"))
    done = trained.run("promote", row["model"])
    assert done.exit_code == 2
    assert "has not had its turn: chooser@1 is on trial" in done.output


def test_what_another_seed_makes_of_a_model_is_shown_and_no_further_chance(trained):
    before = trained.rows()[0]["card"]
    done = trained.run("evaluate", "chooser", "--seed", "7", "--incumbent", "random-feasible")
    assert done.exit_code == 0, done.output
    assert "not written to its card: the best of several seeds is as many chances, and 0 is that of its" in done.stderr
    assert trained.rows()[0]["card"] == before
    assert "not written" not in trained.run("evaluate", "chooser").output


@pytest.mark.long
def test_an_interrupted_training_that_is_judged_afterwards_counts_also_when_its_model_is_gone(desk):
    record(f"sqlite:///{desk.folder}/idlewatt.db", site(days=20, jobs=1700, dependency=-1))
    assert desk.run("train", "--agent", "chooser").exit_code == 0
    model = desk.rows()[0]["model"]
    with contextlib.closing(sqlite3.connect(desk.folder / "idlewatt.db")) as connection, connection:
        connection.execute("DELETE FROM promotions")  # as if it had been interrupted: nobody judged it
    assert desk.run("evaluate", "chooser").exit_code == 0
    assert desk.run("evaluate", "chooser").exit_code == 0
    with History.read_only(f"sqlite:///{desk.folder}/idlewatt.db") as reader:
        (decision,) = reader.decisions()
    assert (decision.model, decision.decision, decision.by) == (model, Decision.SHADOW, "operator")
    shutil.rmtree(desk.folder / "models/chooser")
    assert judged_by_hand([decision], decision.time_s) == {model}


def test_one_of_many_trainings_by_hand_needs_a_reason_and_few_take_their_share_of_a_year(trained):
    (row,) = trained.rows()
    store = trained.folder / "models/chooser"
    first = store / row["model"].partition("@")[2]
    told = {"metrics": {"earned": 1.0}, "source": "history", "incumbent": "fifo+first-fit+easy"}
    card = json.loads((first / "card.json").read_text()) | told
    for number in range(4):
        copy = store / f"1999.{number}"
        shutil.copytree(first, copy)
        (copy / "card.json").write_text(json.dumps(card | {"version": copy.name}))
    judge(trained, "chooser@1999.1")
    done = trained.run("promote", "chooser@1999.1")
    assert done.exit_code == 0, done.output
    assert decided_last(trained).figures["judged_by_hand"] == 4
    judge(trained, row["model"])
    (first / "card.json").write_text(json.dumps(card))
    done = trained.run("promote", row["model"])
    assert done.exit_code == 2
    output = " ".join(done.output.split())
    assert "is one of 5 agents that were judged within a year (5 of trainings by hand, 0 by night)" in output
    assert trained.run("promote", row["model"], "--reason", "an operator's choice").exit_code == 0
    assert "judged_by_hand" not in decided_last(trained).figures


def judge(desk, model):
    """Record that an operator's training or evaluation judged a model."""
    with Ledger.open(f"sqlite:///{desk.folder}/idlewatt.db") as ledger:
        ledger.decide(Promotion(time.time(), model, Decision.SHADOW, "operator", "judged", {"against": {"fifo": {}}}))


def decided_last(desk):
    with History.read_only(f"sqlite:///{desk.folder}/idlewatt.db") as reader:
        return reader.decisions()[-1]


def test_the_card_tells_whose_order_a_model_was_compared_with(trained):
    assert trained.rows()[0]["card"]["incumbent"] == "fifo+first-fit+easy"
    assert trained.run("evaluate", "chooser", "--incumbent", "random-feasible").exit_code == 0
    assert trained.rows()[0]["card"]["incumbent"] == "random-feasible"


def test_evaluation_compares_with_the_incumbent_of_the_training_as_its_help_says(trained):
    trained.config.write_text(trained.config.read_text() + "counterfactual: {incumbent: fifo+best-fit+easy}\n")
    assert trained.run("evaluate", "chooser").exit_code == 0
    assert trained.rows()[0]["card"]["incumbent"] == "fifo+first-fit+easy"
    told = " ".join(trained.run("evaluate", "--help").stdout.split())
    assert "[that of its training; for other jobs (--from) the configuration's]" in told
    done = trained.run("evaluate", "chooser", "--incumbent", "slurm")
    assert (done.exit_code, "'slurm' is no rule" in done.output) == (2, True)


def test_ctrl_c_keeps_the_best_so_far_and_resume_goes_on_with_what_it_began_with(desk, monkeypatch):
    whole = dict(kinds._KINDS)["chooser"]

    def interrupted(config):
        for progress in train(config):
            if progress.saved:
                os.kill(os.getpid(), signal.SIGINT)
            yield progress

    monkeypatch.setitem(kinds._KINDS, "chooser", AgentKind("chooser", interrupted, whole.load))
    done = desk.train("--seed", "7")
    assert done.exit_code == 130
    assert "the best so far is kept" in done.stderr
    (row,) = desk.rows()
    assert row["card"]["curve"][-1][0] == pytest.approx(0.33)
    monkeypatch.setitem(kinds._KINDS, "chooser", whole)
    done = desk.run("train", "--agent", "chooser", "--resume")
    assert done.exit_code == 0, done.output
    assert " 33%" not in done.stderr, "the first round is not done again"
    first, second = (row["card"] for row in desk.rows())
    assert (first["seed"], first["source"]) == (second["seed"], second["source"])
    assert desk.run("train", "--agent", "chooser", "--resume").exit_code == 1, "it is done"


def test_ctrl_c_before_anything_was_learned_keeps_nothing(desk, monkeypatch):
    def interrupted(config):
        os.kill(os.getpid(), signal.SIGINT)
        yield from train(config)

    monkeypatch.setitem(kinds._KINDS, "chooser", AgentKind("chooser", interrupted, None))
    done = desk.train()
    assert done.exit_code == 130
    assert "nothing is kept" in done.stderr
    assert desk.rows() == []


@pytest.mark.parametrize(("arguments", "status", "why"), [
    (["--agent", "gambler"], 2, "there is no agent 'gambler'; there are chooser"),
    (["--resume"], 1, "there is no interrupted training"),
    (["--incumbent", "slurm"], 2, "'slurm' is no rule"),
    (["--until", "yesterday"], 2, "nor a date"),
    (["--until", f"{SINCE + 3 * 86400:.0f}"], 1, "too short to learn from"),
    (["--cluster", "1x1"], 1, "can never run on this cluster"),
    (["--from", "history"], 1, "the history holds no nodes"),
    (["--budget", "soon"], 2, "not a duration"),
])
def test_an_impossible_training_is_refused_with_the_reason(desk, arguments, status, why):
    if arguments == ["--from", "history"]:
        done = desk.run("train", "--agent", "chooser", *arguments)
    else:
        done = desk.train(*arguments)
    assert done.exit_code == status
    assert why in done.output
    assert "Traceback" not in done.output
    assert desk.rows() == []


def test_what_is_learned_on_the_own_history_is_listened_to_at_once_and_two_of_a_kind_at_most(desk):
    # The simulated cluster's clock is ahead of ours, in decisions too.
    record(f"sqlite:///{desk.folder}/idlewatt.db", site(days=20, jobs=1700, dependency=-1))
    for seed in range(3):
        done = desk.run("train", "--agent", "chooser", "--seed", seed)
        assert done.exit_code == 0, done.output
    assert [row["state"] for row in desk.rows()] == ["candidate", "candidate", "not a candidate"]
    newest = desk.rows()[0]
    assert (newest["card"]["source"], newest["by"]) == ("history", "operator")
    assert newest["card"]["known"] == {}, "one unnamed partition, GPUs of no known type"
    assert newest["card"]["history_until_s"] == pytest.approx(SINCE + 15 * 86400, abs=7200)
    done = desk.run("evaluate", newest["model"])
    assert done.exit_code == 0, done.output
    assert "trained on a part" not in done.stdout
    assert desk.run("promote", newest["model"], "--reason", "x").exit_code == 0
    assert desk.rows()[0]["state"] == "active"


@pytest.mark.long
@pytest.mark.postgres
def test_models_learn_from_a_postgresql_history_and_what_is_decided_on_them_is_kept_there(tmp_path, postgres):
    url = database(postgres, "learned")
    record(url, site(days=20, jobs=1700, dependency=-1))
    desk = Desk(tmp_path)
    desk.config.write_text(f"storage: {{url: '{url}', models: {tmp_path}/models}}\n")
    done = desk.run("train", "--agent", "chooser")
    assert done.exit_code == 0, done.output
    (row,) = desk.rows()
    assert (row["state"], row["by"], row["card"]["source"]) == ("candidate", "operator", "history")
    done = desk.run("evaluate", row["model"], "--format", "json")
    assert json.loads(done.stdout)["fidelity"]["jobs"] > 100
    assert desk.run("promote", row["model"], "--reason", "tried it").exit_code == 0
    assert desk.rows()[0]["state"] == "active"
    assert desk.run("demote", row["model"], "--reason", "large jobs wait").exit_code == 0
    with History.read_only(url) as reader:
        assert [one.decision.value for one in reader.decisions()] == ["shadow", "promote", "demote"]
    # The same history, named as a source of its own.
    done = desk.run("train", "--agent", "chooser", "--from", url, "--seed", "1")
    assert done.exit_code == 0, done.output
    assert desk.rows()[0]["card"]["source"] == url


def test_where_torch_trains_is_for_agents_that_train_with_it(desk):
    done = desk.train("--device", "cuda")
    assert done.exit_code == 2
    assert "chooser does not train with torch but on the CPU" in done.output
    assert desk.train("--device", "auto").exit_code == 0


def test_the_device_reaches_the_training(desk, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    asked = []

    def noted(config):
        asked.append(config.device)
        return train(config)

    monkeypatch.setitem(kinds._KINDS, "chooser", AgentKind("chooser", noted, kinds._KINDS["chooser"].load, torch=True))
    assert desk.train("--device", "cuda").exit_code == 0
    assert asked == ["cuda"]


def test_curves_are_written_for_tensorboard_where_wanted(desk, monkeypatch):
    monkeypatch.setattr("idlewatt.daemon.learning.training.TrainingDirectory.clear", lambda training_directory: None)
    done = desk.train("--tensorboard")
    assert done.exit_code == 0, done.output
    assert "tensorboard --logdir" in done.stderr
    assert list((desk.folder / "models/.training/chooser/tensorboard").glob("events.*"))


def test_values_that_are_not_finite_end_a_training_with_the_reason(desk, monkeypatch):
    def broken(config):
        yield from ()
        raise FloatingPointError("the loss is nan after 3 steps")

    monkeypatch.setitem(kinds._KINDS, "chooser", AgentKind("chooser", broken, None))
    done = desk.train()
    assert done.exit_code == 1
    assert "came to numbers that are none: the loss is nan after 3 steps" in done.output


def test_a_folder_that_cannot_be_written_is_said(desk):
    (desk.folder / "models").write_text("a file")
    done = desk.train()
    assert done.exit_code == 1
    assert "models cannot be kept there" in done.output


@pytest.mark.parametrize(("source", "written"), [
    ("postgresql://idlewatt:s3:cret@db/idlewatt", "postgresql://idlewatt:***@db/idlewatt"),
    ("postgresql://idlewatt:s3/cret@db/idlewatt", "postgresql://idlewatt:***@db/idlewatt"),
    ("postgresql://db/idlewatt?user=u&password=s3cret", "postgresql://db/idlewatt?user=u&password=***"),
    ("postgresql://idlewatt@db/idlewatt", "postgresql://idlewatt@db/idlewatt"), ("history", "history")])
def test_no_password_is_written_down(source, written):
    from idlewatt.daemon.cli._training import shown

    assert shown(source) == shown(written) == written


@pytest.mark.parametrize("trace", ["philly", "jobs.csv", "64x8.yaml", "64x8-jobs.csv"])
def test_a_trace_is_written_down_so_that_it_is_found_from_any_folder(tmp_path, monkeypatch, trace):
    from idlewatt.daemon.cli._training import shown

    (tmp_path / "philly").mkdir()
    for file in ("jobs.csv", "64x8.yaml", "64x8-jobs.csv"):
        (tmp_path / file).write_text("job")
    monkeypatch.chdir(tmp_path)
    written = shown(trace)
    monkeypatch.chdir("/")
    assert written == str(tmp_path / trace)
    assert JobSource(str(tmp_path / trace)).same_as(written)


@pytest.mark.parametrize("word", ["history", "site", "flat", "64x8", "2x8:a100,2x8"])
def test_a_word_that_means_something_is_written_down_as_it_is_beside_a_folder_of_its_name(tmp_path, monkeypatch, word):
    from idlewatt.daemon.cli._training import shown

    (tmp_path / word).mkdir()
    monkeypatch.chdir(tmp_path)
    assert shown(word) == word


def test_resume_with_other_options_is_refused(desk):
    (desk.folder / "models/.training/chooser").mkdir(parents=True)
    (desk.folder / "models/.training/chooser/order.json").write_text(
        json.dumps({"agent": "chooser", "source": "old.csv", "budget_s": 60}))
    done = desk.train("--resume")
    assert done.exit_code == 2
    assert "has source 'old.csv'" in done.output


def test_a_second_training_at_the_same_time_is_refused(desk):
    from idlewatt.daemon.learning.models import ModelStore
    from idlewatt.daemon.learning.training import TrainingDirectory

    with TrainingDirectory(ModelStore(desk.folder / "models"), "chooser").locked():
        done = desk.train()
    assert done.exit_code == 1
    assert f"under way already (process {os.getpid()})" in done.output


def test_only_what_came_before_until_is_known(desk):
    until_s = SINCE + 13 * 86400
    assert desk.train("--until", until_s).exit_code == 0
    card = desk.rows()[0]["card"]
    assert card["history_until_s"] == pytest.approx(until_s - 5 * 86400, abs=3600)


def test_a_history_is_learned_from_with_the_speeds_that_are_asked_for(desk):
    (desk.folder / "idlewatt.db").unlink()
    _, _, lived = scattered.write(f"sqlite:///{desk.folder}/idlewatt.db", days=8.0, jobs=300)
    until = f"{max(lived.end) + 1:.0f}"
    done = desk.run("train", "--agent", "chooser", "--until", until, "--since", "30d")
    assert done.exit_code == 0, done.output
    assert "note: speeds are site: 3 groups of like jobs from 300 runs" in done.stderr
    assert "GPU time by what they rest on: 100% measured" in done.stderr
    flat = desk.run("train", "--agent", "chooser", "--until", until, "--since", "30d", "--speeds", "flat")
    assert "note: speeds are flat" in flat.stderr
    newest, first = (row["card"]["speeds"] for row in desk.rows())
    assert newest == ""
    assert first.startswith("site ")
    trace = desk.train("--speeds", "site")
    assert trace.exit_code == 2
    assert "a trace records no speeds" in trace.output
