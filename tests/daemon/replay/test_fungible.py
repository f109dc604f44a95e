"""How fast jobs run with the CPUs and the memory that they are given."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.replay import engine, fungible
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.fungible import CPUS, FAIR_CPUS, FAIR_MEMORY, GB, MEMORY, MODELS, PRIORS, SHARES, TASKS
from idlewatt.daemon.replay.speed import SpeedError
from idlewatt.daemon.replay.state import Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node


@pytest.mark.parametrize("model", MODELS)
def test_the_fair_share_is_the_unit_of_speed(model):
    assert PRIORS[model].at(FAIR_CPUS, FAIR_MEMORY) == 1.0


@pytest.mark.parametrize(("model", "cpus", "fair_shares", "speed"), [
    ("alexnet", 12, 2, 2.94), ("alexnet", 12, 1, 2.0), ("shufflenet", 24, 4, 2.89), ("resnet18", 9, 1, 2.4),
    ("mobilenet", 24, 1, 1.55), ("resnet50", 1, 1, 0.4), ("m5", 6, 2, 2.0), ("m5", 6, 3, 2.5), ("m5", 24, 1, 1.5),
    ("deepspeech", 24, 4, 1.0), ("gnmt", 1, 1 / 3, 1.0), ("alexnet", 24, 1 / 3, 0.1)])
def test_published_points_are_met(model, cpus, fair_shares, speed):
    assert PRIORS[model].at(cpus, fair_shares * FAIR_MEMORY) == pytest.approx(speed)


@pytest.mark.parametrize("model", MODELS)
@given(cpus=st.floats(0, 40), memory=st.floats(0, 400 * GB), more=st.floats(0, 10), further=st.floats(0, 200 * GB))
@settings(max_examples=20, deadline=None)
def test_more_is_never_slower_and_nothing_moves_nobody(model, cpus, memory, more, further):
    assert PRIORS[model].at(cpus, memory) <= PRIORS[model].at(cpus + more, memory + further) + 1e-9
    assert PRIORS[model].at(0.0, memory) == PRIORS[model].at(cpus, 0.0) == 0.0


@pytest.mark.parametrize(("model", "best"), [
    ("gnmt", (1, 62.5 / 3)), ("resnet50", (4, 62.5)), ("alexnet", (12, 125)), ("m5", (6, 187.5))])
def test_the_best_share_is_the_least_that_is_as_fast_as_everything(model, best):
    cpus, memory = PRIORS[model].best(24.0, 500 * GB)
    assert (cpus, memory / GB) == pytest.approx(best)


def test_the_best_share_within_a_small_node_takes_no_more_than_there_is():
    assert PRIORS["alexnet"].best(7.0, 100 * GB) == (7.0, MEMORY[1])
    assert PRIORS["alexnet"].best(0.0, 0.0) == (0.0, 0.0)


def test_holes_are_closed_from_what_was_measured():
    speed = np.full((CPUS.size, MEMORY.size), np.nan)
    speed[2, 1], speed[5, 1], speed[4, 3] = 1.0, 1.6, 1.2
    profile = fungible.filled(CPUS, MEMORY, speed)
    assert profile.at(4.0, MEMORY[1]) == pytest.approx(1.2)
    assert profile.at(1.0, MEMORY[0]) == 1.0
    assert profile.at(24.0, MEMORY[4]) == 1.6  # the 1.2 with more memory was noise


def test_a_profile_with_nothing_in_it_is_refused():
    with pytest.raises(SpeedError, match="fair share"):
        fungible.filled(CPUS, MEMORY, np.full((CPUS.size, MEMORY.size), np.nan))


@pytest.mark.parametrize("speed", [np.zeros((9, 5)), np.ones((9, 4)), np.full((9, 5), np.inf)])
def test_a_table_that_is_none_is_refused(speed):
    with pytest.raises(SpeedError):
        fungible.Sensitivity(CPUS, MEMORY, speed)


def test_jobs_are_drawn_by_the_shares_of_their_tasks():
    models = np.array(MODELS)[fungible.drawn(20_000, np.random.default_rng(0))]
    for task, share in SHARES.items():
        assert np.isin(models, TASKS[task]).mean() == pytest.approx(share, abs=0.01)


def test_neighbours_that_nobody_measured_disturb_nobody():
    left = fungible.company()
    language, image, speech = (MODELS.index(model) for model in ("gnmt", "alexnet", "m5"))
    assert left[language, language] == 0.65
    assert left[image, language] == 0.85
    assert (left[speech] == 1).all()
    assert (left[:, speech] == 1).all()


def test_a_second_leaf_switch_costs_what_communication_was_measured_to_take_and_never_stops_anybody():
    kept = fungible.crossing()
    assert (kept[:, 0] == 1).all()
    assert (np.diff(kept, axis=1) < 0).all()
    assert kept.min() > 0.5
    assert kept[MODELS.index("gnmt"), 1] == pytest.approx(1.89 / (1 + 0.89 * 1.2), abs=0.005)  # as BERT
    assert kept[MODELS.index("resnet50"), 1] == pytest.approx(1.12 / (1 + 0.12 * 1.2), abs=0.005)


def test_a_task_stands_for_its_models_where_no_more_is_known():
    assert fungible.prior("language").at(1.0, MEMORY[0]) == 1.0
    assert fungible.prior("speech").at(6.0, MEMORY[3]) == pytest.approx((2.5 + 1.0) / 2)


class Generous:
    """Gives an image model the CPUs that the language model beside it does not use."""

    name = "generous"

    def decide(self, state):
        cpus = {MODELS.index("resnet18"): 18, MODELS.index("gnmt"): 2}
        rows = state.arrays.jobs
        return [Start(job, (0,), (2,), cpus[int(rows[job].model)]) for job in state.waiting.tolist()]


def test_the_engine_runs_a_job_faster_with_the_cpus_that_its_neighbour_does_not_use():
    fair = {"cpus": 6, "memory": int(2 * FAIR_MEMORY)}
    cluster = Cluster.from_records([Node("n", ("p",), 8, cpus=24, memory_bytes=int(8 * FAIR_MEMORY))])
    workload = Workload.of([0, 0], [240, 240], [2, 2], application=[MODELS.index("resnet18"), MODELS.index("gnmt")],
                           **fair)
    run = engine.run(cluster, workload, Generous(), speed=fungible.speed_table())
    assert run.end.tolist() == [pytest.approx(100), 240]
