"""TopDRL's predecessor: what its released code prints, to the last digit, and why the order of jobs hardly matters."""

from pathlib import Path

import numpy as np
import pytest

from idlewatt.daemon.reproduce.published import proximity
from idlewatt.daemon.reproduce.published.proximity import ORDERS, PLACEMENTS, episode


def figures(order, placement, seeds=50, *, alike=True):
    episodes = [episode(seed, ORDERS[order], PLACEMENTS[placement], alike=alike) for seed in range(seeds)]
    return np.array([(each.jct, each.makespan, each.cost) for each in episodes])


def test_released_baselines_come_out_as_printed():
    # Printed with two decimals, and rounded by them from three.
    assert all(abs(row.ours - row.published) <= 0.0051 for row in proximity.rows(Path()))


def test_nearest_is_below_every_released_placement():
    jct, makespan, cost = figures("FCFS", "nearest").mean(axis=0)

    assert (round(jct, 2), round(makespan, 1), round(cost, 1)) == (22.73, 40.1, 28.3)


def test_nearest_spares_communication_against_load_balance_on_paired_seeds():
    saved = figures("FCFS", "load-balance", 100)[:, 2] - figures("FCFS", "nearest", 100)[:, 2]

    assert saved.mean() - 1.96 * saved.std(ddof=1) / 10 > 0


def test_the_order_of_jobs_matters_once_each_job_has_its_own_work():
    def spread(alike):
        means = [figures(order, "nearest", 30, alike=alike)[:, 1].mean() for order in ("FCFS", "SJF", "smallest")]
        return max(means) / min(means) - 1

    assert spread(alike=True) < 0.02
    assert spread(alike=False) > 0.1


@pytest.mark.parametrize("placement", PLACEMENTS)
@pytest.mark.parametrize("order", ORDERS)
def test_an_episode_places_every_job_on_as_many_free_gpus_as_it_wants(order, placement):
    seen = []

    def watched(free, size, random):
        chosen = PLACEMENTS[placement](free, size, random)
        seen.append(len(set(chosen)) == size and set(chosen) <= set(free))
        return chosen

    episode(7, ORDERS[order], watched)

    assert len(seen) == proximity.JOBS
    assert all(seen)
