"""The small replay starts every job when the engine does."""

import numpy as np
import pytest
from null_sites import NULLS, key, looking_at_limits, site
from one_node_easy import Jobs, Timeline, really, replay, scene, standings

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.engine import run

DAY_S = 86400.0


def engine(cluster, work, keys):
    """Return the starts of the engine, whose order is the recorded priority."""
    from dataclasses import replace

    return run(cluster, replace(work, priority=-keys), named("priority+best-fit+easy")).start


@pytest.mark.parametrize("null", NULLS)
@pytest.mark.parametrize(("nodes", "load"), [(1, 0.7), (4, 0.9), (9, 1.1)])
def test_every_job_starts_when_it_does_under_the_engine(null, nodes, load):
    cluster, work = site(20, nodes=nodes, daily=30 * nodes, load=load, seed=3)
    keys = key(null, work, np.random.default_rng(1))
    found = replay(Jobs.of(work, keys), nodes).start
    assert np.array_equal(found, engine(cluster, work, keys))
    assert (found > work.submit).mean() > 0.05, "otherwise nobody waits, and every order is the same"


def test_first_come_first_served_is_the_engines_own():
    cluster, work = site(20, seed=4)
    assert np.array_equal(replay(Jobs.of(work, work.submit), 4).start,
                          run(cluster, work, named("fifo+best-fit+easy")).start)


def test_a_window_that_goes_on_from_what_the_same_policy_did_finds_what_it_did():
    _, work = site(12, seed=5)
    jobs = Jobs.of(work, work.submit)
    real = replay(jobs, 4)
    told = standings(jobs, real, scene(4, 8, len(work)), (3600.0, DAY_S, 12 * 24.0))
    end = real.start + work.run
    spent = [np.clip(np.minimum(end, edge) - work.submit, 0.0, None).sum() for edge in np.arange(12 * 24 + 1) * 3600.0]
    assert told == pytest.approx(np.diff(spent), rel=1e-9)
    assert really(jobs, real, (3600.0, DAY_S, 12 * 24.0)) == pytest.approx(told, rel=1e-9)


def test_a_window_of_another_policy_is_the_engines_replay_from_there():
    cluster, work = site(4, seed=6)
    ours = Jobs.of(work, looking_at_limits(work, 0.5))
    nobody = Timeline(np.full(len(work), np.nan), np.zeros(len(work), np.int64))
    told = standings(ours, nobody._replace(start=np.full(len(work), np.inf)), scene(4, 8, len(work)),
                     (DAY_S, 9 * DAY_S, 4.0))
    end = engine(cluster, work, looking_at_limits(work, 0.5)) + work.run
    spent = [np.clip(np.minimum(end, edge) - work.submit, 0.0, None).sum() for edge in np.arange(5) * DAY_S]
    assert told == pytest.approx(np.diff(spent), rel=1e-9)
