"""`idlewatt train --all`: every kind in turn; those that cannot be trained say why; it goes on where it was left."""

import os
import signal

import pytest
from chooser import chooser, loaded, train  # noqa: F401
from click.testing import CliRunner
from sites import site, write_trace

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.kinds import AgentKind, Progress, TrainingError
from idlewatt.daemon.cli import main
from idlewatt.daemon.learning.models import ModelStore
from idlewatt.daemon.learning.training import TrainingDirectory
from idlewatt.storage.history import History


def refused(config):
    raise TrainingError("no job here can be resized")
    yield


@pytest.fixture
def desk(tmp_path, monkeypatch):
    """Return a shell on a machine that knows three kinds: two that learn and one that cannot here."""
    known = {name: AgentKind(name, learn, loaded) for name, learn in (("chooser", train), ("dull", refused))}
    monkeypatch.setattr(kinds, "_modules", lambda: iter(()))
    monkeypatch.setattr(kinds, "_KINDS", known)
    trace, config = write_trace(site(days=14, jobs=1500), tmp_path / "site.csv"), tmp_path / "idlewatt.yml"
    config.write_text(f"storage: {{url: 'sqlite:///{tmp_path}/idlewatt.db'}}\n")
    History.open(f"sqlite:///{tmp_path}/idlewatt.db").close()

    def run(*words):
        return CliRunner().invoke(main, ["train", "--config.file", str(config), "--from", str(trace), "--cluster",
                                         "4x8", "--all", *words])

    run.kinds, run.models = known, tmp_path / "models"
    return run


def test_every_kind_is_trained_in_turn_or_says_why_it_cannot_be(desk):
    done = desk()
    assert done.exit_code == 0, done.output
    assert "model:   chooser@" in done.stdout
    assert "dull is not trained: no job here can be resized" in done.stderr
    assert "1 of 2 kinds are trained" in done.stdout
    assert [folder.name for folder in sorted(desk.models.iterdir()) if folder.name[0] != "."] == ["chooser"]


def test_it_fails_where_nothing_can_be_trained(desk):
    desk.kinds["chooser"] = AgentKind("chooser", refused, loaded)
    assert desk().exit_code == 1


def test_all_kinds_share_the_budget(desk):
    given = []
    desk.kinds["dull"] = AgentKind("dull", lambda config: given.append(config.budget_s) or refused(config), loaded)
    desk("--budget", "60s")
    desk()
    desk("--steps", "3")
    assert given == [30.0, 120.0, 120.0]


def test_after_ctrl_c_it_goes_on_with_the_kind_that_was_interrupted(desk):
    def stopped(config):
        for progress in train(config):
            if progress.saved:
                os.kill(os.getpid(), signal.SIGINT)
            yield progress

    begun = []
    desk.kinds["zealous"] = AgentKind("zealous", stopped, loaded)
    first = desk()
    assert first.exit_code == 130
    desk.kinds["zealous"] = AgentKind("zealous", lambda config: begun.append((config.folder / "rounds.npy").exists())
                                 or train(config), loaded)
    again = desk("--resume")
    assert again.exit_code == 0, again.output
    assert "agent:   zealous" in again.stdout
    assert "chooser" not in again.stdout
    assert begun == [True]
    assert "no interrupted training" in desk("--resume").output


def test_steps_reach_the_training_and_an_alias_its_kind(desk):
    seen = []

    def noted(config):
        seen.append(config.steps)
        yield from train(config)

    desk.kinds["gist_mdrl"] = AgentKind("gist_mdrl", noted, loaded)
    assert desk("--steps", "7").exit_code == 0
    assert seen == [7]
    from idlewatt.daemon.learning.training import kind_of

    assert kind_of("gist").name == "gist_mdrl"


def stopped(config):
    os.kill(os.getpid(), signal.SIGINT)
    yield Progress(0.0, None, saved=False)


def test_what_was_refused_long_ago_is_not_resumed_by_its_old_order(desk):
    given = []
    desk.kinds["chooser"] = AgentKind("chooser", refused, loaded)
    assert desk("--seed", "1").exit_code == 1
    desk.kinds["chooser"] = AgentKind("chooser", stopped, loaded)
    assert desk("--seed", "2").exit_code == 130
    desk.kinds["chooser"] = AgentKind("chooser", refused, loaded)
    desk.kinds["dull"] = AgentKind("dull", lambda config: given.append(config.seed) or refused(config), loaded)
    done = desk("--seed", "2", "--resume")
    assert "dull is not trained: no job here can be resized" in done.stderr, done.output
    assert given == [2]


def test_a_second_one_at_the_same_time_is_refused_and_leaves_the_first_as_it_is(desk):
    desk.kinds["chooser"] = AgentKind("chooser", stopped, loaded)
    assert desk().exit_code == 130
    note = desk.models / ".training/all.json"
    before = note.read_text()
    with TrainingDirectory(ModelStore(desk.models), "chooser").locked():
        second = desk()
    assert second.exit_code == 1
    assert "a training is under way already" in second.stderr
    assert note.read_text() == before
    assert (desk.models / ".training/chooser/order.json").exists()


@pytest.mark.parametrize(("option", "why"), [
    (("--incumbent", "fifi"), "fifi"), (("--objective", "speed"), "there is no weight 'speed'"),
    (("--speeds", "site"), "a trace records no speeds"), (("--cluster", "4y8"), "4y8"),
    (("--start", "chooser@1"), "leave --start or --all away")])
def test_a_mistake_in_an_option_leaves_what_was_interrupted_as_it_is(desk, option, why):
    desk.kinds["dull"] = AgentKind("dull", stopped, loaded)
    assert desk().exit_code == 130
    note = desk.models / ".training/all.json"
    before = note.read_text()
    mistaken = desk(*option)
    assert mistaken.exit_code == 2
    assert why in " ".join(mistaken.output.split())
    assert note.read_text() == before
    assert (desk.models / ".training/dull/order.json").exists()


def test_where_no_kind_begins_what_was_interrupted_stays_as_it_is(desk, tmp_path):
    desk.kinds["dull"] = AgentKind("dull", stopped, loaded)
    assert desk().exit_code == 130
    note = desk.models / ".training/all.json"
    before = note.read_text()
    short = write_trace(site(days=1, jobs=20), tmp_path / "short.csv")
    assert desk("--from", str(short)).exit_code == 1
    assert note.read_text() == before
    assert (desk.models / ".training/dull/order.json").exists()


def test_kinds_that_do_not_train_with_torch_are_trained_on_the_cpu_whatever_the_device(desk, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    given = []

    def noted(config):
        given.append(config.device)
        yield from refused(config)

    desk.kinds |= {"chooser": AgentKind("chooser", noted, loaded, torch=True), "dull": AgentKind("dull", noted, loaded)}
    desk("--device", "cuda")
    assert given == ["cuda", "cpu"]
