"""`idlewatt demote` where a kind has several models."""

import numpy as np
import pytest
from click.testing import CliRunner

from idlewatt.daemon.agents.checkpoint import save
from idlewatt.daemon.cli import main
from idlewatt.storage.history import History
from idlewatt.storage.ledger import Ledger
from idlewatt.storage.promotions import Decision, Promotion, active_model, states
from idlewatt.storage.records import ModelCard


@pytest.fixture
def demote(tmp_path):
    """Return a function that demotes a model of an older and a newer one of a kind, and returns what is in force."""
    url = f"sqlite:///{tmp_path}/idlewatt.db"
    History.open(url).close()
    (tmp_path / "site.yml").write_text(f"storage: {{url: '{url}', models: '{tmp_path}/models'}}\n")

    def run(model, older=Decision.PROMOTE, newer=Decision.SHADOW, kind="scorer"):
        for version in ("1", "2"):
            card = ModelCard("site", version, 1_795_219_200.0, 7, "0.1.0", "", "", kind=kind)
            save(tmp_path / "models" / kind / version, card, {"weights": np.ones(3, np.float32)}, {})
        with Ledger.open(url) as ledger:
            ledger.decide(Promotion(1.0, f"{kind}@1", older, "operator", "tried it", {}))
            ledger.decide(Promotion(2.0, f"{kind}@2", newer, "training", "newer", {}))
        done = CliRunner().invoke(main, ["demote", model, "--config.file", str(tmp_path / "site.yml"), "--reason", "x"])
        assert done.exit_code == 0, done.output
        with History.read_only(url) as reader:
            in_force = states(reader.decisions())
        return done.stdout, in_force

    return run


@pytest.mark.parametrize(("said", "kind"), [("scorer", "scorer"), ("gist", "gist_mdrl"), ("gist_mdrl", "gist_mdrl")])
def test_a_kind_is_its_active_model_and_not_a_newer_one_in_the_shadow(demote, said, kind):
    told, in_force = demote(said, kind=kind)
    assert told == f"{kind}@1 is demoted\n"
    assert {name: last.decision for name, last in in_force.items()} == {
        f"{kind}@1": Decision.DEMOTE, f"{kind}@2": Decision.SHADOW}
    assert active_model(in_force) is None


@pytest.mark.parametrize(("model", "older"), [("scorer", Decision.SHADOW), ("scorer@2", Decision.PROMOTE)])
def test_a_kind_of_which_none_is_active_is_its_newest_and_a_name_is_that_model(demote, model, older):
    told, in_force = demote(model, older=older)
    assert told == "scorer@2 is demoted\n"
    assert (in_force["scorer@1"].decision, in_force["scorer@2"].decision) == (older, Decision.DEMOTE)
