"""The agent learns, the same way each time, and comes back from disk as it was."""

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from idlewatt.daemon.agents.checkpoint import WEIGHTS, CheckpointError
from idlewatt.daemon.reproduce.dl2.arena import HOPELESS, cluster, mean_jct, traces
from idlewatt.daemon.reproduce.dl2.sizefree.agent import SizeFree
from idlewatt.daemon.reproduce.dl2.sizefree.kernel import SIZE
from idlewatt.daemon.reproduce.dl2.sizefree.train import ElasticBench, course
from idlewatt.daemon.reproduce.evolution import card_of, train

SHORT = replace(course(1, 4), pairs=4, at_once=2, pool=6, chosen_every=2)
BENCH = ElasticBench(cluster(8), pool=6, judges=4)


def test_a_training_never_ends_worse_than_it_began():
    steps = list(train(SHORT, BENCH))
    assert [step.round for step in steps] == [0, 2, 4]
    judges = list(islice(traces(BENCH.seed + 1), BENCH.judges))
    judged = [mean_jct(BENCH.cluster, SizeFree(step.best), judges).mean() for step in (steps[0], steps[-1])]
    assert judged == pytest.approx([steps[0].score, steps[-1].least])


def test_a_candidate_that_lets_a_job_starve_is_hopeless_not_an_error():
    never = np.zeros(SIZE)
    never[-1] = -1.0
    assert mean_jct(BENCH.cluster, SizeFree(never), [next(traces(3, jobs=3))]) == HOPELESS


def test_an_agent_comes_back_from_disk(tmp_path):
    step = next(train(SHORT, BENCH))
    SizeFree(step.best).save(tmp_path, card_of("dl2", SHORT, step, "jct_slots", "made up"))
    assert np.array_equal(SizeFree.load(tmp_path).weights, step.best)
    (tmp_path / WEIGHTS).write_bytes(b"cut")
    with pytest.raises(CheckpointError, match="digest differs"):
        SizeFree.load(tmp_path)
