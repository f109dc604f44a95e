"""What is assumed of speeds: by closeness, against the tables it was taken from, and by CPUs and memory."""

from collections import defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.speed import LEVELS, SpeedError, SpeedTable
from idlewatt.daemon.replay.speed_priors import (
    APPLICATIONS,
    CPUS,
    FAIR_CPUS,
    FAIR_MEMORY,
    GB,
    MEMORY,
    PRIORS,
    Sensitivity,
    filled,
    prior,
    slow,
)
from idlewatt.daemon.replay.state import Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.reproduce.published.pollux_speed import Application, Archive
from idlewatt.storage.records import Node


def test_the_speeds_are_those_of_polluxs_tables(traces):
    tables = Archive(traces / "pollux_osdi21/pollux_osdi21_data.tar.gz")
    for name, ours in zip(APPLICATIONS, slow(), strict=True):
        measured = defaultdict(dict)
        for placement, batch, step, _ in Application.load(tables, name).placements:
            measured[placement][batch] = step
        batch = max(set.intersection(*map(set, measured.values())))
        means = defaultdict(list)
        for placement, steps in measured.items():
            means[len(placement), int(max(placement))].append(steps[batch] / measured["1"][batch])
        theirs = [[np.mean(means[nodes, most]) for most in range(1, 5)] for nodes in range(1, 5)]
        assert ours == pytest.approx(np.array(theirs), abs=0.0051), name


@pytest.mark.parametrize("model", PRIORS)
def test_the_fair_share_is_the_unit_of_speed(model):
    assert PRIORS[model].at(FAIR_CPUS, FAIR_MEMORY) == 1.0


@pytest.mark.parametrize(("model", "cpus", "fair_shares", "speed"), [
    ("alexnet", 12, 2, 2.94), ("alexnet", 12, 1, 2.0), ("shufflenet", 24, 4, 2.89), ("resnet18", 9, 1, 2.4),
    ("mobilenet", 24, 1, 1.55), ("resnet50", 1, 1, 0.4), ("m5", 6, 2, 2.0), ("m5", 6, 3, 2.5), ("m5", 24, 1, 1.5),
    ("deepspeech", 24, 4, 1.0), ("gnmt", 1, 1 / 3, 1.0), ("alexnet", 24, 1 / 3, 0.1)])
def test_published_points_are_met(model, cpus, fair_shares, speed):
    assert PRIORS[model].at(cpus, fair_shares * FAIR_MEMORY) == pytest.approx(speed)


@pytest.mark.parametrize("model", PRIORS)
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
    profile = filled(CPUS, MEMORY, speed)
    assert profile.at(4.0, MEMORY[1]) == pytest.approx(1.2)
    assert profile.at(1.0, MEMORY[0]) == 1.0
    assert profile.at(24.0, MEMORY[4]) == 1.6  # the 1.2 with more memory was noise


def test_a_profile_with_nothing_in_it_is_refused():
    with pytest.raises(SpeedError, match="fair share"):
        filled(CPUS, MEMORY, np.full((CPUS.size, MEMORY.size), np.nan))


@pytest.mark.parametrize("speed", [np.zeros((9, 5)), np.ones((9, 4)), np.full((9, 5), np.inf)])
def test_a_table_that_is_none_is_refused(speed):
    with pytest.raises(SpeedError):
        Sensitivity(CPUS, MEMORY, speed)


def test_a_task_stands_for_its_models_where_no_more_is_known():
    assert prior("language").at(1.0, MEMORY[0]) == 1.0
    assert prior("speech").at(6.0, MEMORY[3]) == pytest.approx((2.5 + 1.0) / 2)


class Generous:
    """Gives an image model the CPUs that the language model beside it does not use."""

    name = "generous"

    def decide(self, state):
        cpus = {0: 18, 1: 2}
        rows = state.arrays.jobs
        return [Start(job, (0,), (2,), cpus[int(rows[job].model)]) for job in state.waiting.tolist()]


def test_the_engine_runs_a_job_faster_with_the_cpus_that_its_neighbour_does_not_use():
    fair = {"cpus": 6, "memory": int(2 * FAIR_MEMORY)}
    cluster = Cluster.from_records([Node("n", ("p",), 8, cpus=24, memory_bytes=int(8 * FAIR_MEMORY))])
    grants = [[[PRIORS[model].at(cpus, along * FAIR_MEMORY) for along in range(5)] for cpus in range(25)]
              for model in ("resnet18", "gnmt")]
    table = SpeedTable(np.ones((2, 1)), np.ones((2, len(LEVELS))), grants=np.array(grants), step=FAIR_MEMORY)
    workload = Workload.of([0, 0], [240, 240], [2, 2], application=[0, 1],
                           **fair)
    run = engine.run(cluster, workload, Generous(), speed=table)
    assert run.end.tolist() == [pytest.approx(100), 240]
