"""MAIFS as a policy: what it grants, how nodes settle, and that it is replayed with what CPUs are worth."""

import numpy as np
import pytest
from fungible import GB, SITE, cluster, workload

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.agents.maifs import agent as maifs
from idlewatt.daemon.agents.maifs.agent import Maifs
from idlewatt.daemon.agents.maifs.levels import AMPLE, LEAN, REQUESTED, Needs, demands_at, speeds_at
from idlewatt.daemon.agents.maifs.network import SIZE, initial
from idlewatt.daemon.agents.maifs.teachers import ORDERS, tune
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.engine import run
from idlewatt.storage.records import ModelCard

CARD = ModelCard("maifs", "1", 1e9, 0, "0.1.0", "", "", kind="maifs")
FIFO = np.concatenate([ORDERS["fifo"], np.zeros(SIZE - 3)])


def random_agent(seed):
    random = np.random.default_rng(seed)
    return Maifs(initial(random) + random.normal(size=SIZE), CARD)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(2))
def test_whatever_the_weights_every_job_runs_where_it_may(seed):
    done = run(cluster(), workload(60, seed), random_agent(seed), speed=SITE.fungible)
    assert not np.isnan(done.end).any()


def demands(cpus, memory, gpus=2):
    return np.array([[0, gpus, gpus * cpus, gpus * memory, 1, 0, 0, 0]])


def test_a_job_is_given_what_its_like_use_and_some_more_and_never_less_memory():
    found, available = demands_at(demands(12, 40 * GB), Needs.of(SITE.fungible), np.array([1]))
    assert available.all()
    assert found[0, AMPLE, 2] == 2 * 3  # two used, a fifth more, in whole CPUs
    assert 2 * 10 * GB < found[0, AMPLE, 3] < 2 * 16 * GB
    assert found[0, LEAN, 3] == found[0, AMPLE, 3]
    assert found[0, REQUESTED].tolist() == demands(12, 40 * GB)[0].tolist()


def test_a_job_that_would_use_more_than_it_asks_for_is_given_more():
    found, _ = demands_at(demands(2, 40 * GB), Needs.of(SITE.fungible), np.array([2]))
    assert found[0, AMPLE, 2] == 2 * 8
    assert speeds_at(SITE.fungible, np.array([2]), found)[0, AMPLE] == pytest.approx(2.8)


def test_of_whom_nothing_is_known_only_what_it_asked_for_is_given():
    found, available = demands_at(demands(12, 40 * GB), Needs.of(SITE.fungible), np.array([0]))
    assert available.tolist() == [[False, True, False]]
    assert (found[0] == found[0, REQUESTED]).all()


def test_who_gives_jobs_what_they_ask_for_is_replayed_alike_with_and_without_what_cpus_are_worth():
    policy = named("fifo+best-fit+easy")
    one, other = (run(cluster(), workload(60), policy, speed=table) for table in (SITE.table, SITE.fungible))
    assert one.digest == other.digest
    assert SITE.table_for(policy) is SITE.table
    assert SITE.table_for(Maifs(FIFO, CARD)) is SITE.fungible


def test_a_replay_goes_by_what_was_granted():
    done = {known: float(np.nanmean(run(cluster(), workload(60), Maifs(FIFO, CARD, decide=tune),
                                        speed=getattr(SITE, known), known=SITE.fungible).end))
            for known in ("table", "fungible")}
    assert done["fungible"] < done["table"]


def test_a_model_with_other_inputs_is_refused(tmp_path, monkeypatch):
    maifs.save(tmp_path, initial(np.random.default_rng(0)), CARD, 1e6)
    assert maifs.load(tmp_path).longest_wait_s == 1e6
    monkeypatch.setattr(maifs, "ACTION_INPUTS", ("run",))
    with pytest.raises(CheckpointError, match="trained for other inputs"):
        maifs.load(tmp_path)
