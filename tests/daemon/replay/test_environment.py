import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.environment import FEATURES, VISIBLE, Environment
from idlewatt.daemon.replay.workload import Workload, WorkloadError

CLUSTER = Cluster.from_spec("3x4")
LENGTH = 20


def workload(seed, jobs=60, gap=30.0):
    random = np.random.default_rng(seed)
    run = random.integers(1, 400, jobs).astype(float)
    submit = np.cumsum(random.integers(0, int(2 * gap), jobs))
    return Workload.of(submit, run, random.integers(1, 13, jobs), limit=2 * run)


def environment(work, episodes=3, **options):
    return Environment(CLUSTER, work, named("fifo").rules.place, episodes=episodes, length=LENGTH, **options)


def stretch(work, offset):
    rows = slice(offset, offset + LENGTH)
    return Workload.of(work.submit[rows], work.run[rows], work.gpus[rows], limit=work.limit[rows])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.integers(0, 10_000), st.integers(0, 40))
def test_always_the_oldest_is_the_engines_fifo_start_for_start(seed, offset):
    work = workload(seed)
    learned = environment(work, episodes=1)
    learned.reset([offset])
    for _ in range(LENGTH - 1):
        learned.step([0])
        assert not learned.done[0]
    run = engine.run(CLUSTER, stretch(work, offset), named("fifo+best-fit+none"))
    np.testing.assert_array_equal(learned.state(0).jobs.start[:-1], run.start[:-1])


def test_rewards_of_an_episode_sum_up_to_its_completion_times():
    work = workload(1)
    learned, total = environment(work, episodes=1), 0.0
    learned.reset([7])
    for _ in range(LENGTH):
        learned.step([0])
        total += float(learned.reward[0])
    assert learned.done[0]
    run = engine.run(CLUSTER, stretch(work, 7), named("fifo+best-fit+none"))
    assert total == pytest.approx(-(run.end - run.workload.submit).sum() / 3600, rel=1e-5)


def test_any_choice_starts_just_that_job_and_never_more_than_fits():
    random, learned = np.random.default_rng(0), environment(workload(2, gap=5.0), episodes=4)
    for _ in range(200):
        actions = (random.random(4) * learned.shown).astype(np.int64)
        chosen = [int(learned._batch.visible[index, action]) for index, action in enumerate(actions)]
        learned.step(actions)
        for index in np.flatnonzero(~learned.done):
            state = learned.state(int(index))
            assert not np.isnan(state.jobs.start[chosen[index]])
            assert (state.nodes.free_gpus >= 0).all()


def test_what_is_seen_is_what_waits():
    learned = environment(workload(3, gap=2.0), episodes=2)
    for _ in range(8):
        learned.step([0, 0])
    state, shown = learned.state(0), int(learned.shown[0])
    waiting = np.flatnonzero(state.jobs.status == 0)
    assert learned._batch.visible[0, :shown].tolist() == waiting[:VISIBLE].tolist()
    assert (learned.jobs[0, shown:] == 0).all()
    features = dict(zip(FEATURES, learned.jobs[0, :shown].T, strict=True))
    wait = state.clock[0] - state.jobs.submit[waiting]
    np.testing.assert_allclose(features["wait"], wait / (wait + 3600), rtol=1e-5)
    np.testing.assert_allclose(features["gpus"], state.jobs.gpus[waiting] / 12, rtol=1e-6)
    free = np.bincount(state.nodes.free_gpus, minlength=5) / 3
    np.testing.assert_allclose(learned.nodes[0], free, atol=1e-6)


def test_a_job_is_shown_to_fit_just_when_its_placement_finds_room():
    learned = environment(workload(4, gap=2.0), episodes=1)
    for _ in range(100):
        state, job = learned.state(0), int(learned._batch.visible[0, 0])
        room = sum(free // max(1, state.jobs.chunk[job]) > 0 for free in state.nodes.free_gpus)
        parts = state.jobs.chunks[job] + (state.jobs.rest[job] > 0)
        fits = bool(learned.jobs[0, 0, FEATURES.index("fits")])
        now = float(state.clock[0])
        if state.jobs.rest[job] == 0:
            assert fits == (room >= parts)
        learned.step([0])
        if fits and not learned.done[0]:
            assert learned.state(0).jobs.start[job] == now


def test_threads_change_nothing():
    one, two = environment(workload(5), episodes=8), environment(workload(5), episodes=8, threads=2)
    for _ in range(60):
        for learned in (one, two):
            learned.step(learned.shown // 2)
        np.testing.assert_array_equal(one.jobs, two.jobs)
        np.testing.assert_array_equal(one.reward, two.reward)


@pytest.mark.parametrize("actions", [[0, 0], [0, 0, 128], [-1, 0, 0]])
def test_an_action_that_names_no_visible_job_is_refused(actions):
    with pytest.raises(ValueError, match="the place of a visible job"):
        environment(workload(6)).step(actions)


def test_what_cannot_be_cut_into_episodes_is_refused():
    with pytest.raises(WorkloadError, match="an episode of 20 jobs cannot be cut from 19"):
        environment(workload(7, jobs=19))
    two = Workload.of(np.arange(30), np.ones(30), np.ones(30), partition=np.arange(30) % 2, partition_names=("a", "b"))
    with pytest.raises(WorkloadError, match="one queue"):
        Environment(CLUSTER, two, None, length=LENGTH)
