"""How DL2's own agent learns, in trainings of seconds."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from idlewatt.daemon.agents.checkpoint import CheckpointError  # noqa: E402
from idlewatt.daemon.agents.kinds import TrainingError  # noqa: E402
from idlewatt.daemon.reproduce.dl2 import literal  # noqa: E402
from idlewatt.daemon.reproduce.dl2 import train as learning  # noqa: E402
from idlewatt.daemon.reproduce.dl2.agent import PAPER, FlatAgent, PaperSettings  # noqa: E402
from idlewatt.daemon.reproduce.dl2.arena import HOPELESS, cluster, mean_jct, traces  # noqa: E402
from idlewatt.daemon.reproduce.dl2.baselines import Drf  # noqa: E402
from idlewatt.daemon.reproduce.dl2.kernel import bundle_each  # noqa: E402
from idlewatt.daemon.reproduce.dl2.network import NetworkSize, outputs  # noqa: E402
from idlewatt.daemon.reproduce.dl2.train import Dl2TrainingConfig, SlotTraining, lessons  # noqa: E402
from idlewatt.daemon.reproduce.report import rendered  # noqa: E402

TINY = PaperSettings(shape=NetworkSize(window=6, hidden=16), imitated=1, imitation_updates=150, memory=512, batch=32)
SHORT = Dl2TrainingConfig(cluster(4), Drf(), values=TINY, updates=150, judged_every=75, chosen_by=1)


class Bundles:
    """A teacher that gives everybody a bundle and nothing else."""

    def fill(self, cluster, jobs, used):
        bundle_each(cluster, jobs, used)


def trained(config):
    training = SlotTraining(config).resume()
    return list(training.run()), training


def agreement(weights, taught):
    states, allowed, actions = taught
    return float((np.where(allowed, outputs(weights, states), -np.inf).argmax(axis=1) == actions).mean())


def test_imitation_comes_closer_to_the_teacher():
    config = replace(SHORT, updates=0, values=replace(TINY, imitation_updates=400))
    _, training = trained(config)
    unseen = lessons(replace(config, seed=9))
    assert agreement(FlatAgent.fresh(TINY.shape, 0).weights, unseen) < 0.1
    assert agreement(training.policy, unseen) > 0.4


def test_every_imitated_action_was_open():
    states, allowed, actions = lessons(SHORT)
    assert len(states) == len(actions) > 100
    assert allowed[np.arange(len(actions)), actions].all()
    assert (actions < TINY.shape.actions - 1).all()  # a teacher never ends a slot


def test_a_teacher_that_never_acts_is_refused_with_a_remedy():
    with pytest.raises(TrainingError, match="nothing to imitate; name another one, or train without"):
        trained(replace(SHORT, teacher=Bundles()))


def test_the_best_weights_are_kept_after_worse_ones():
    steps, training = trained(SHORT)
    judges = list(islice(traces(SHORT.seed + 1), SHORT.chosen_by))
    assert [step.update for step in steps] == [0, 75, 150]
    assert mean_jct(SHORT.cluster, training.agent, judges).mean() == pytest.approx(min(step.jct for step in steps))


def test_an_interrupted_training_gives_the_same_result(tmp_path):
    whole, _ = trained(SHORT)
    config = replace(SHORT, folder=tmp_path)
    next(step for step in SlotTraining(config).run() if step.update == SHORT.updates)  # stops inside of a trace
    resumed = SlotTraining(config).resume()
    assert 0 < resumed.updates < SHORT.updates
    last = list(resumed.run())[-1]
    assert last.jct == whole[-1].jct
    assert all(np.array_equal(array, whole[-1].best[name]) for name, array in resumed.best.items())


@pytest.mark.parametrize("teacher", literal.TEACHERS)
def test_another_process_recognises_a_saved_training(teacher):
    assert " at 0x" not in repr(literal.TEACHERS[teacher])


def test_a_saved_training_with_other_settings_is_refused(tmp_path):
    trained(replace(SHORT, folder=tmp_path, updates=90))
    with pytest.raises(CheckpointError, match="other settings"):
        SlotTraining(replace(SHORT, folder=tmp_path, updates=91)).resume()


@pytest.mark.parametrize("change", [{"warm_up": False}, {"critic": False}, {"replay": False}, {"discount": 0.0}])
def test_every_part_of_the_paper_can_be_left_out(change):
    config = replace(SHORT, updates=20, judged_every=20)
    (_, whole), (steps, part) = trained(config), trained(replace(config, options=replace(PAPER, **change)))
    assert steps[-1].update == 20
    assert any(not np.array_equal(array, whole.policy[name]) for name, array in part.policy.items())


def test_a_model_without_progress_does_not_keep_an_episode_from_ending(monkeypatch):
    monkeypatch.setattr(learning, "LONGEST", 80)
    blind = cluster(4)
    blind.rates[:3] = 0.0  # some job of every trace
    config = replace(SHORT, cluster=blind, updates=100, judged_every=100, options=replace(PAPER, warm_up=False))
    steps, training = trained(config)
    assert [step.update for step in steps] == [0, 100]
    assert [step.jct for step in steps] == [HOPELESS, HOPELESS]
    assert all(np.isfinite(array).all() for array in training.policy.values())


def test_the_report_has_the_warm_up_the_ablations_and_the_curves(tmp_path, monkeypatch):
    monkeypatch.setattr(literal, "TEACHERS", {name: literal.TEACHERS[name] for name in literal.TEACHERS
                                              if name in {"DRF", "max-relative-gain (oracle)"}})
    monkeypatch.setattr(literal, "TRACES", 2)
    messages = []
    found = literal.carry_out(cluster(4), 3, 1, tmp_path, lambda *what: messages.append(what), TINY)
    text, ((curves,),) = rendered("dl2/own_agent.md.j2", {"own": found, "DISCOUNT": PAPER.discount})
    warm_up, ablations = ([line.split(" | ")[0][2:] for line in part.splitlines() if line.startswith("| ")][1:]
                          for part in text.split("## DL2's own agent: ")[1:3])
    assert warm_up == list(literal.TEACHERS)
    assert ablations == [variant.name for variant in literal.VARIANTS]
    assert len(curves.axes.lines) == len(literal.VARIANTS)
    assert (tmp_path / "0/card.json").is_file()
    assert messages[-1][1] == 1.0
