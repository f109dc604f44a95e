"""Decisions per second of the batched environment, alone and with a small network in the loop."""

import time

import numpy as np
import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.environment import FEATURES, Environment
from idlewatt.daemon.replay.workload import Workload

EPISODES, ROUNDS, STEPS = 256, 8, 400


@pytest.fixture(scope="module")
def environment():
    random, jobs = np.random.default_rng(1), 20_000
    gpus = random.choice([1, 2, 4, 8], jobs, p=[0.5, 0.2, 0.15, 0.15])
    run = random.lognormal(7, 1.5, jobs).clip(10, 3e5)
    submit = np.cumsum(random.exponential((gpus * run).mean() / (0.95 * 64), jobs))
    work = Workload.of(submit, run, gpus, limit=2 * run)
    return Environment(Cluster.from_spec("8x8"), work, named("fifo").rules.place, episodes=EPISODES, threads=2)


def best_rate(decide):
    """Return decisions per second of the fastest round, which other programs disturbed least."""
    decide(20)
    rounds = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        decide(STEPS)
        rounds.append(EPISODES * STEPS / (time.perf_counter() - began))
    return max(rounds)


def test_a_million_decisions_a_second_with_observations(environment):
    oldest = np.zeros(EPISODES, np.int64)

    def decide(steps):
        for _ in range(steps):
            environment.step(oldest)

    rate = best_rate(decide)
    print(f"\nenvironment: {rate / 1e6:.2f} M decisions/s over {EPISODES} episodes ({rate / 1e6:.2f} of the bound)")
    assert rate >= 1e6


def test_150_thousand_decisions_a_second_with_a_small_network(environment):
    torch = pytest.importorskip("torch")
    torch.set_num_threads(2)
    torch.manual_seed(0)
    network = torch.nn.Sequential(torch.nn.Linear(len(FEATURES), 16), torch.nn.ReLU(), torch.nn.Linear(16, 1))

    def decide(steps):
        with torch.inference_mode():
            for _ in range(steps):
                most = int(environment.shown.max())
                scores = network(torch.from_numpy(environment.jobs[:, :most])).squeeze(-1)
                absent = torch.arange(most) >= torch.from_numpy(environment.shown)[:, None]
                environment.step(scores.masked_fill(absent, -torch.inf).argmax(1).numpy())

    rate = best_rate(decide)
    print(f"\nenvironment with a network: {rate / 1e3:.0f} thousand decisions/s ({rate / 150e3:.2f} of the bound)")
    assert rate >= 150e3
