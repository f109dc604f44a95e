"""DL2's training: better than the incumbent, the same again by steps, clear about what it cannot learn from."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from resizable import config, speeds, window

from idlewatt.daemon.agents.dl2.agent import DL2
from idlewatt.daemon.agents.dl2.train import RULES, SPEC, train
from idlewatt.daemon.agents.kinds import TrainingError, kinds
from idlewatt.daemon.agents.training_loop import TrainingEnvironment
from idlewatt.daemon.replay.engine import run


@pytest.mark.long
def test_it_becomes_better_than_the_incumbent_and_its_card_says_so(trained):
    folder, progress = trained
    assert progress[-1].done == 1.0
    assert progress[-1].score < 0.9
    assert kinds()["dl2"].load(folder / "best").card.metrics["imitation_top1"] > 0.7


@pytest.mark.long
def test_so_many_steps_give_the_same_weights_twice_interrupted_or_not(trained, tmp_path):
    again = config(tmp_path, steps=2)
    list(itertools.islice(train(again), 1))
    list(train(again))
    ours, theirs = (kinds()["dl2"].load(folder / "best").weights for folder in (trained[0], tmp_path))
    assert np.array_equal(ours, theirs)


def rigid(number=0):
    whole = window(number)
    work = replace(whole.workload, minimum=whole.workload.gpus, maximum=whole.workload.gpus)
    return replace(whole, workload=work)


def test_a_history_of_rigid_jobs_is_refused(tmp_path):
    with pytest.raises(TrainingError, match="may have another number of GPUs"):
        next(train(config(tmp_path, fit=rigid)))


def test_who_knows_the_truth_and_who_knows_what_a_site_knows_are_told_apart(tmp_path):
    """The same rule on the same episode: with predictions and curves that are off, and with neither off."""
    episode = TrainingEnvironment(SPEC, config(tmp_path)).episode(0).window
    truth, site = episode.speeds.table, speeds(error=-0.4).table
    agent = DL2(np.zeros(SPEC.net.size), kinds_card(), choose=lambda now, rows: RULES["gain"](rows))
    oracle = replace(episode.workload, prediction=episode.workload.run)
    runs = [run(episode.cluster, work, agent, speed=truth, known=known, resize_s=120.0)
            for work, known in ((episode.workload, site), (oracle, truth))]
    jct = [float(np.nanmean(done.end - episode.workload.submit)) for done in runs]
    assert jct[1] < jct[0]


def kinds_card():
    from idlewatt.storage.records import ModelCard

    return ModelCard("dl2", "1", 1e9, 0, "0.1.0", "", "", kind="dl2")
