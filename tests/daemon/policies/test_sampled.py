"""Orders that let the first of many like jobs tell how long the others last."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload

FEW = Cluster.from_spec("1x4")
LONG, SHORT, JOBS = 10_000.0, 100.0, 60
RUN = np.repeat([LONG, SHORT], JOBS // 2)
"""A burst at once: first those that last, then those that do not; all are predicted to last alike."""


def replay(policy, run=RUN, cluster=FEW, submit=None, **columns):
    submit = np.arange(len(run), dtype=float) if submit is None else submit
    known = {"prediction": 1000.0, "limit": np.inf} | columns
    return engine.run(cluster, Workload.of(submit, run, np.ones(len(run), int), **known), named(policy))


def waited(policy, **columns):
    found = replay(policy, **columns)
    return found.start - found.workload.submit


@pytest.mark.parametrize("policy", ["sampled", "sampled-aged"])
def test_the_short_half_of_a_burst_is_found_and_passes_the_long_one(policy):
    ours, fifo, predicted = (waited(f"{one}+best-fit+easy") for one in (policy, "fifo", "qssf"))
    assert np.array_equal(fifo, predicted)  # what was predicted does not tell them apart
    assert ours[JOBS // 2:].mean() < 0.3 * fifo[JOBS // 2:].mean()
    assert ours.mean() < 0.75 * fifo.mean()


def test_jobs_of_another_user_tell_nothing():
    alternately = np.tile(["a", "b"], JOBS // 2)
    run = np.where(alternately == "a", LONG, SHORT)
    own = replay("sampled+best-fit+easy", run, user=alternately)
    shared = replay("sampled+best-fit+easy", run)
    waits = [(one.start - one.workload.submit)[alternately == "b"].mean() for one in (own, shared)]
    assert waits[0] < 0.5 * waits[1]


def test_with_ageing_a_job_known_to_be_long_passes_newcomers_in_the_end():
    newcomers, came_s = 400, 2010.0
    length = np.insert(np.full(newcomers, 110.0), 101, 5000.0)
    submit = np.insert(np.arange(newcomers) * 20.0, 101, came_s)
    user = np.where(submit == came_s, "long", "short")
    plain, aged = (waited(f"{one}+best-fit+easy", run=length, submit=submit, prediction=length, user=user)[101]
                   for one in ("sampled", "sampled-aged"))
    assert 0 < aged < 0.75 * plain


@given(st.integers(0, 2**32 - 1), st.sampled_from(["sampled", "sampled-aged"]))
def test_what_has_not_ended_yet_tells_nothing_of_how_long_it_will_run(seed, policy):
    draw = np.random.default_rng(seed)
    run = draw.lognormal(5.0, 2.0, 40).round() + 1
    submit = np.sort(draw.uniform(0, 2000, 40)).round()
    first = replay(f"{policy}+best-fit+easy", run, submit=submit)
    until = float(np.median(first.end))
    other = np.where(first.end > until, np.maximum(run * draw.uniform(0.5, 9.0, 40), until - first.start + 1), run)
    second = replay(f"{policy}+best-fit+easy", np.where(first.end > until, other, run), submit=submit)
    before = np.minimum(first.start, second.start) <= until
    assert np.array_equal(first.start[before], second.start[before])
