"""The agent learns, the same way each time, and comes back from disk as it was."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import WEIGHTS, CheckpointError
from idlewatt.daemon.reproduce.dl2.arena import HOPELESS, cluster, mean_jct, traces
from idlewatt.daemon.reproduce.dl2.sizefree.agent import SizeFree
from idlewatt.daemon.reproduce.dl2.sizefree.kernel import SIZE
from idlewatt.daemon.reproduce.dl2.sizefree.train import ElasticTrainingConfig, card_of, train

SHORT = ElasticTrainingConfig(cluster(8), rounds=4, pairs=4, at_once=2, pool=6, chosen_by=4, chosen_every=2)


def test_a_training_never_ends_worse_than_it_began():
    steps = list(train(SHORT))
    assert [step.round for step in steps] == [0, 2, 4]
    judges = list(islice(traces(SHORT.seed + 1), SHORT.chosen_by))
    judged = [mean_jct(SHORT.cluster, SizeFree(step.best), judges).mean() for step in (steps[0], steps[-1])]
    assert judged[0] == pytest.approx(steps[0].jct)
    assert judged[1] == pytest.approx(min(step.jct for step in steps))


def test_the_same_course_gives_the_same_agent():
    first, again = (list(train(SHORT))[-1].best for _ in range(2))
    assert np.array_equal(first, again)


def test_a_candidate_that_lets_a_job_starve_is_hopeless_not_an_error():
    never = np.zeros(SIZE)
    never[-1] = -1.0
    assert mean_jct(SHORT.cluster, SizeFree(never), [next(traces(3, jobs=3))]) == HOPELESS


def test_an_agent_comes_back_from_disk(tmp_path):
    steps = list(train(replace(SHORT, rounds=0)))
    SizeFree(steps[-1].best).save(tmp_path, card_of(SHORT, steps))
    assert np.array_equal(SizeFree.load(tmp_path).weights, steps[-1].best)
    (tmp_path / WEIGHTS).write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="digest differs"):
        SizeFree.load(tmp_path)
