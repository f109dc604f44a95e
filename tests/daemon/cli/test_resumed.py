"""`idlewatt train --resume`: an interrupted training goes on as it began, whatever the defaults of its options are."""

import json
import os
import signal
import sys

import numpy as np
import pytest
from click.testing import CliRunner
from sites import record, site, write_trace

from idlewatt.daemon.agents import kinds
from idlewatt.daemon.agents.checkpoint import CARD, read_card, save
from idlewatt.daemon.agents.kinds import AgentKind, Progress, TrainingError
from idlewatt.daemon.cli import main
from idlewatt.daemon.cli._training import shown
from idlewatt.daemon.learning.members import alone
from idlewatt.daemon.learning.models import ModelStore
from idlewatt.daemon.learning.training import ENGINES, TrainingJob
from idlewatt.storage.history import History
from idlewatt.storage.records import ModelCard


class Bench:
    """A machine that knows one kind, which is interrupted when it is trained first and tells later how it is."""

    def __init__(self, folder) -> None:
        self.models, self.configs, self._config = folder / "models", [], folder / "idlewatt.yml"
        self._trace = write_trace(site(days=14, jobs=400), folder / "site.csv")
        self._config.write_text(f"storage: {{url: 'sqlite:///{folder}/idlewatt.db'}}\n")
        History.open(f"sqlite:///{folder}/idlewatt.db").close()

    def learn(self, config):
        """Note what is to be trained; the first training is interrupted, those that follow have nothing to learn."""
        self.configs.append(config)
        if len(self.configs) > 1:
            raise TrainingError("there is nothing to learn")
        config.folder.mkdir(parents=True)
        os.kill(os.getpid(), signal.SIGINT)
        yield Progress(0.0, None, saved=False)

    def run(self, *words):
        return CliRunner().invoke(main, ["train", "--config.file", str(self._config), *map(str, words)])

    def keep(self, trained_s):
        """Put a model into the store that a training can start from, and return its name."""
        save(self.models / "best", ModelCard("plain", "", trained_s, 0, "", "", "", 0.0, 1.0, kind="plain"),
             {"weights": np.ones(3, np.float32)}, {})
        TrainingJob("plain", "elsewhere.csv", 1.0).write(self.models / "best")
        return ModelStore(self.models).keep(self.models / "best", read_card(self.models / "best" / CARD)).name

    def order(self, change):
        """Change what was noted of the interrupted training."""
        path = self.models / ".training/plain/order.json"
        path.write_text(json.dumps(change(json.loads(path.read_text()))))

    def begin(self, *words):
        source = () if "--from" in words else ("--from", self._trace, "--cluster", "4x8")
        done = self.run(*source, *words)
        assert done.exit_code == 130, done.output

    def resume(self, *words):
        """Go on, and return what the kind is told then."""
        done = self.run("--resume", *words)
        assert len(self.configs) == 2, done.output
        return self.configs[-1]


@pytest.fixture
def bench(tmp_path, monkeypatch):
    made = Bench(tmp_path)
    monkeypatch.setattr(kinds, "_modules", lambda: iter(()))
    monkeypatch.setattr(kinds, "_KINDS", {"plain": AgentKind("plain", made.learn, None)})
    return made


def test_a_training_goes_on_with_the_budget_that_it_began_with(bench):
    bench.begin("--agent", "plain", "--budget", "2h")
    assert bench.resume("--agent", "plain").budget_s == 7200.0


def test_a_budget_that_is_given_takes_the_place_of_the_one_that_it_began_with(bench):
    bench.begin("--agent", "plain", "--budget", "2h")
    assert bench.resume("--agent", "plain", "--budget", "3h").budget_s == 10800.0


@pytest.mark.parametrize(("options", "device"), [((), "cuda"), (("--device", "cpu"), "cpu")])
def test_a_training_goes_on_where_it_began_unless_another_device_is_given(bench, monkeypatch, options, device):
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    kinds._KINDS["plain"] = AgentKind("plain", bench.learn, None, torch=True)
    bench.begin("--agent", "plain", "--device", "cuda")
    assert bench.resume("--agent", "plain", *options).device == device


@pytest.mark.parametrize(("option", "module", "why"), [
    (("--tensorboard",), "tensorboard", "TensorBoard is not installed"),
    (("--engine", "ray"), "ray", "--engine ray needs Ray")])
def test_an_extra_that_is_not_installed_costs_no_interrupted_training(bench, monkeypatch, option, module, why):
    bench.begin("--agent", "plain", "--seed", "3")
    monkeypatch.setitem(sys.modules, module, None)
    refused = bench.run("--agent", "plain", "--from", bench._trace, "--cluster", "4x8", *option)
    assert refused.exit_code == 1
    assert why in refused.output
    assert bench.resume("--agent", "plain").seed == 3


@pytest.mark.parametrize(("options", "lacking", "why"), [
    ((), {"torch": None}, "plain is trained with torch"),
    (("--device", "cuda"), {"torch": None}, "plain is trained with torch"),
    (("--device", "cuda"), {}, "torch finds no CUDA device here")])
def test_a_machine_that_cannot_train_a_kind_costs_no_interrupted_training(bench, monkeypatch, options, lacking, why):
    bench.begin("--agent", "plain", "--seed", "3")
    kinds._KINDS["plain"] = AgentKind("plain", bench.learn, None, torch=True)
    with monkeypatch.context() as patch:
        patch.setattr("torch.cuda.is_available", lambda: False)
        for name, module in lacking.items():
            patch.setitem(sys.modules, name, module)
        for command in (("--agent", "plain"), ("--all",)):
            refused = bench.run(*command, "--from", bench._trace, "--cluster", "4x8", *options)
            assert refused.exit_code == 1
            assert why in refused.output
    assert bench.resume("--agent", "plain").seed == 3


@pytest.mark.parametrize(("options", "lacking", "why"), [
    (("--device", "cuda"), "torch", "plain is trained with torch"),
    (("--engine", "ray"), "ray", "--engine ray needs Ray")])
def test_all_kinds_stay_as_they_were_left_where_the_machine_cannot_go_on_with_one(
        bench, monkeypatch, options, lacking, why):
    kinds._KINDS["plain"] = AgentKind("plain", bench.learn, None, torch=True)
    kinds._KINDS["quiet"] = AgentKind("quiet", bench.learn, None)
    bench.begin("--all", "--seeds", "2")
    note = bench.models / ".training/all.json"
    before = note.read_text()
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, lacking, None)
        refused = bench.run("--all", "--resume", *options)
    assert refused.exit_code == 1
    assert why in refused.output
    assert note.read_text() == before
    assert (bench.models / ".training/plain/order.json").exists()


@pytest.mark.parametrize(("options", "budget_s"), [((), 3600.0), (("--budget", "4h"), 7200.0)])
def test_all_kinds_go_on_with_their_shares_of_the_budget_that_they_began_with(bench, options, budget_s):
    kinds._KINDS["quiet"] = AgentKind("quiet", bench.learn, None)
    bench.begin("--all", "--budget", "2h")
    bench.run("--all", "--from", bench._trace, "--cluster", "4x8", "--resume", *options)
    assert [config.budget_s for config in bench.configs] == [3600.0, budget_s, budget_s]


def test_kinds_that_an_older_version_left_without_a_budget_have_the_usual_share(bench):
    kinds._KINDS["quiet"] = AgentKind("quiet", bench.learn, None)
    bench.begin("--all", "--budget", "2h")
    note = bench.models / ".training/all.json"
    note.write_text(json.dumps(["plain"]))
    bench.run("--all", "--from", bench._trace, "--cluster", "4x8", "--resume")
    assert [config.budget_s for config in bench.configs] == [3600.0, 120.0]


def test_kinds_that_follow_the_interrupted_one_begin_with_the_options_that_it_began_with(bench):
    kinds._KINDS["quiet"] = AgentKind("quiet", bench.learn, None)
    bench.begin("--all", "--seed", "3", "--steps", "7", "--incumbent", "sjf-limit", "--objective", "makespan")
    done = bench.run("--all", "--resume")
    assert [config.seed for config in bench.configs] == [3, 3, 3], done.output
    assert [config.steps for config in bench.configs] == [7, 7, 7]
    assert {config.incumbent for config in bench.configs} == {"sjf-limit"}
    assert {config.objective.aim for config in bench.configs} == {"makespan"}
    assert len({len(config.fit(0).workload) for config in bench.configs}) == 1


@pytest.mark.parametrize(("options", "why"), [
    (("--seed", "4"), "has seed 3, not 4"), (("--since", "7d"), "has since '30d', not '7d'"),
    (("--objective", "wait"), "has objective None, not 'wait'"), (("--from", "history"), "not 'history'")])
def test_another_option_for_all_kinds_is_refused_and_all_can_go_on_as_they_began(bench, options, why):
    bench.begin("--all", "--seed", "3", "--since", "30d", "--budget", "2h")
    note = bench.models / ".training/all.json"
    before = note.read_text()
    refused = bench.run("--all", "--resume", "--budget", "3h", *options)
    assert refused.exit_code == 2
    assert why in " ".join(refused.output.split())
    assert note.read_text() == before
    assert (bench.models / ".training/plain/order.json").exists()


def test_steps_that_are_given_to_all_kinds_anew_hold_for_each_that_is_not_through(bench):
    kinds._KINDS["quiet"] = AgentKind("quiet", bench.learn, None)
    bench.begin("--all", "--steps", "7")
    bench.run("--all", "--resume", "--steps", "9")
    assert [config.steps for config in bench.configs] == [7, 9, 9]


def test_a_training_goes_on_with_the_model_that_it_started_from(bench):
    name = bench.keep(1e9)
    bench.keep(1.1e9)
    bench.begin("--agent", "plain", "--start", name)
    start = bench.resume("--agent", "plain").start
    assert f"{start.parent.name}@{start.name}" == name
    assert start == bench.configs[0].start


def test_a_model_may_be_named_again_and_another_one_is_refused(bench):
    name, other = bench.keep(1e9), bench.keep(1.1e9)
    bench.begin("--agent", "plain", "--start", name)
    refused = bench.run("--agent", "plain", "--resume", "--start", other)
    assert refused.exit_code == 2
    assert f"started from {name}, not '{other}'" in " ".join(refused.output.split())
    assert bench.resume("--agent", "plain", "--start", name).start == bench.configs[0].start


def test_a_training_that_started_from_no_model_goes_on_from_none(bench):
    name = bench.keep(1e9)
    bench.begin("--agent", "plain")
    refused = bench.run("--agent", "plain", "--resume", "--start", name)
    assert refused.exit_code == 2
    assert f"started from no model, not '{name}'" in " ".join(refused.output.split())


def test_a_start_that_an_older_version_did_not_note_has_to_be_named_again(bench):
    name = bench.keep(1e9)
    bench.begin("--agent", "plain", "--start", name)
    bench.order(lambda order: {key: value for key, value in order.items() if key != "start"})
    refused = bench.run("--agent", "plain", "--resume")
    assert refused.exit_code == 2
    assert "name it: --start MODEL" in " ".join(refused.output.split())
    assert bench.resume("--agent", "plain", "--start", name).start == bench.configs[0].start


def test_another_format_or_beginning_of_the_history_is_refused(bench):
    record(f"sqlite:///{bench.models.parent}/idlewatt.db", site(days=14, jobs=400, dependency=-1))
    bench.begin("--agent", "plain", "--from", "history", "--since", "30d")
    for words, why in ((("--since", "20d"), "has since 17"), (("--trace-format", "csv"), "has trace-format None")):
        refused = bench.run("--agent", "plain", "--resume", *words)
        assert refused.exit_code == 2
        assert why in refused.output
    bench.resume("--agent", "plain", "--since", "30d")


@pytest.mark.parametrize("url", ["postgresql://u:pa/SECRET@[::1]:1/db", "postgresql://[::1]:1/db?user=u&password=SECRET"])
def test_a_database_has_to_be_named_again_with_its_password_which_is_not_noted(bench, url):
    bench.begin("--agent", "plain")
    bench.order(lambda order: {**order, "source": shown(url), "cluster": None})
    refused = bench.run("--agent", "plain", "--resume")
    assert refused.exit_code == 2
    assert f"with its password: --from {shown(url)}" in " ".join(refused.output.split())
    unreachable = bench.run("--agent", "plain", "--resume", "--from", url)
    assert unreachable.exit_code == 3, unreachable.output
    assert "SECRET" not in unreachable.output


@pytest.mark.parametrize("engines", [("processes", "alone"), ("alone", "processes"), ("processes", "processes")])
def test_a_single_seed_goes_on_in_the_folder_where_another_engine_left_it(bench, monkeypatch, engines):
    monkeypatch.setitem(ENGINES, "processes", alone)  # a process would not know the kind of this test
    first, second = engines
    bench.begin("--agent", "plain", "--engine", first)
    assert bench.resume("--agent", "plain", "--engine", second).folder == bench.configs[0].folder
