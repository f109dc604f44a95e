"""What the order sees: what a job leaves of the cluster to others, who is critical, and whether submissions ceased."""

import numpy as np
import pytest
from rounds import GNMT, SITE, drawn, trace

from idlewatt.daemon.reproduce.maifs import network
from idlewatt.daemon.reproduce.maifs.arena import begin, watch
from idlewatt.daemon.reproduce.maifs.baselines import Synergy, srsf
from idlewatt.daemon.reproduce.maifs.network import ORDER_INPUTS, beside, order_inputs, quiet
from idlewatt.daemon.reproduce.maifs.placing import TUNE
from idlewatt.daemon.reproduce.maifs.train import noise, order_only


def seen(jobs, now=0.0):
    """Return what is seen of jobs that are all there, by input."""
    round = begin(SITE, trace(*jobs))
    round.live, round.now = np.arange(len(jobs)), now
    return dict(zip(ORDER_INPUTS, order_inputs(round).T, strict=True))


def test_a_small_job_that_keeps_a_large_one_out_leaves_most_of_the_cluster_empty():
    use, blocked = beside(np.array([1, 32, 2]), 32)
    assert use.tolist() == [3 / 32, 1.0, 3 / 32]
    assert blocked.tolist() == [1, 2, 1]


def test_jobs_that_fit_together_exclude_no_job():
    use, blocked = beside(np.array([16, 16]), 32)
    assert use.tolist() == [1.0, 1.0]
    assert blocked.tolist() == [0, 0]
    assert [each.tolist() for each in beside(np.array([32]), 32)] == [[1.0], [0]]


@pytest.mark.parametrize("seed", range(5))
def test_the_gpus_used_beside_a_job_equal_a_count_one_by_one(seed):
    held = np.random.default_rng(seed).integers(1, 33, 12)
    use, blocked = beside(held, 32)
    for job in range(12):
        others = np.delete(held, job)
        fit = others <= 32 - held[job]
        assert use[job] == min(held[job] + others[fit].sum(), 32) / 32
        assert blocked[job] == (~fit).sum()


def test_only_a_job_that_outlasts_the_backlog_and_is_among_the_longest_is_critical():
    critical = seen([(0, 50_000, 1, GNMT), (0, 5_000, 1, GNMT), (0, 600, 1, GNMT)])["critical"]
    assert critical[0] > 100 * critical[1] > 100 * critical[2] == 0.0
    kept_out = seen([(0, 50_000, 1, GNMT), (0, 5_000, 32, GNMT)])["critical"]
    assert kept_out[0] < critical[0] / 2


def test_the_quiet_share_grows_with_the_time_since_the_last_arrival():
    round = begin(SITE, trace((0, 3000, 1, GNMT), (6000, 3000, 1, GNMT), (90_000, 3000, 1, GNMT)))
    round.now = 6000.0
    assert quiet(round) == 0.0
    round.now = 11_700.0
    assert quiet(round) == pytest.approx(5700 / 12_000)


def test_an_untrained_order_is_shortest_remaining_service():
    weights = network.unpacked(network.initial(3))
    for round in watch(SITE, drawn(4, most=32), Synergy(srsf, TUNE)):
        held = np.where(round.jobs.gpus > 8, -(-round.jobs.gpus // 8) * 8, round.jobs.gpus)[round.live]
        service = (round.jobs.left[round.live] + 1.0) * held
        assert np.argsort(network.keys(weights, round), kind="stable").tolist() == np.argsort(
            np.log(service).round(12), kind="stable").tolist()


def test_the_first_rounds_train_only_the_order():
    assert order_only().sum() == len(ORDER_INPUTS)
    assert (noise()[order_only() > 0] == noise().max()).all()
