"""Run times turned into work, and back by the engine."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.execution_rate import level_of
from idlewatt.daemon.replay.recorded_work import HeldNodes, as_work
from idlewatt.daemon.replay.speed import FLAT, SpeedTable
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node

CLUSTER = Cluster.from_records([Node(f"n{i}", ("p",), 4, leaf=f"l{i // 2}", spine=f"s{i // 4}") for i in range(6)])
SPREAD = np.array([[1, 1, 1, 1, 1], [1, 1, 0.8, 0.6, 0.4], [1, 1, 0.9, 0.9, 0.5]], np.float64)
NOWHERE = HeldNodes(*(np.zeros(0, np.int64),) * 3, *(np.zeros(0),) * 2, np.zeros(0, np.int64))
ALONE = SpeedTable(np.ones((3, 1)), SPREAD)
TOGETHER = SpeedTable(np.ones((3, 1)), SPREAD, np.array([[1, 1, 1], [1, 0.5, 0.7], [1, 0.9, 1.0]]))


def held_in(run):
    """Return where and when the jobs of a replay ran, as a recorder would have it."""
    jobs, rows = run.state.arrays.jobs, []
    for job in np.flatnonzero(~np.isnan(run.end)):
        rows += [(job, part.node, part.gpus, run.start[job], run.end[job]) for part in run.state.held(job)]
    if not rows:
        return NOWHERE
    job, node, gpus, begin, end = (np.array(column) for column in zip(*rows, strict=True))
    return HeldNodes(job.astype(np.int64), node.astype(np.int64), gpus.astype(np.int64), begin, end,
                     jobs.model[job].astype(np.int64))


@st.composite
def workloads(draw):
    number = draw(st.integers(1, 12))
    column = lambda values: np.array([draw(values) for _ in range(number)])  # noqa: E731
    return Workload.of(column(st.integers(0, 40)), column(st.integers(1, 60)), column(st.integers(1, 12)),
                       application=column(st.integers(0, 2)))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(workloads(), st.sampled_from([ALONE, TOGETHER]), st.sampled_from(["first-fit", "best-fit", "random-fit"]))
def test_what_was_recorded_of_a_replay_becomes_the_work_that_was_replayed(workload, table, placement):
    run = engine.run(CLUSTER, workload, named(f"fifo+{placement}+easy"), speed=table)
    ended = ~np.isnan(run.end)
    recorded = replace(workload, run=np.where(ended, run.end - run.start, workload.run))
    work, known = as_work(recorded, CLUSTER, table, held_in(run))
    np.testing.assert_allclose(work.run, workload.run, rtol=1e-9, atol=1e-6)
    assert (known == ended).all()
    again = engine.run(CLUSTER, work, named(f"fifo+{placement}+easy"), speed=table)
    np.testing.assert_allclose(again.end, run.end, atol=1e-5)


def test_a_job_that_was_scattered_is_shorter_where_it_is_close():
    workload = Workload.of([0.0], [1000.0], [8], application=[1])
    held = HeldNodes(np.array([0, 0]), np.array([0, 4]), np.array([4, 4]), np.zeros(2), np.full(2, 1000.0),
                     np.array([1, 1]))
    work, known = as_work(workload, CLUSTER, ALONE, held)
    assert known.all()
    assert work.run.tolist() == [400.0]
    assert engine.run(CLUSTER, work, named("fifo+nearest"), speed=ALONE).end.tolist() == [500.0]


def test_what_ran_beside_it_counts_for_as_long_as_it_was_there_and_on_the_worst_node():
    workload = Workload.of([0, 0, 0], [100.0, 50.0, 10.0], [2, 1, 1], application=[1, 1, 2])
    held = HeldNodes(np.array([0, 0, 1, 2]), np.array([0, 1, 0, 1]), np.ones(4, np.int64), np.array([0, 0, 0, 40.0]),
                     np.array([100, 100, 50, 50.0]), np.array([1, 1, 1, 2]))
    work, _ = as_work(workload, CLUSTER, TOGETHER, held)
    assert work.run[0] == pytest.approx(0.8 * (50 * 0.5 + 50 * 1.0))
    assert work.run[1] == pytest.approx(50 * 0.5)
    assert work.run[2] == pytest.approx(10 * 0.9)


def test_jobs_whose_place_is_not_recorded_keep_their_run_times():
    workload = Workload.of([0, 0], [100.0, 100.0], [8, 8], application=[1, 1])
    work, known = as_work(workload, CLUSTER, ALONE, NOWHERE)
    assert work.run.tolist() == [100.0, 100.0]
    assert not known.any()
    strange = HeldNodes(np.array([0, 0]), np.array([0, -1]), np.array([4, 4]), np.zeros(2), np.full(2, 9.0),
                        np.ones(2, int))
    assert not as_work(workload, CLUSTER, ALONE, strange)[1].any()
    assert as_work(workload, CLUSTER, FLAT, NOWHERE)[0] is workload


def test_levels_are_those_of_the_engine():
    for nodes in ([0], [0, 1], [0, 2], [0, 1, 2], [0, 4], [1, 2, 5]):
        workload = Workload.of([0.0], [100.0], [len(nodes)], nodes=[len(nodes)], application=[1])
        state = ClusterState.of(CLUSTER, workload, speed=ALONE)
        state.arrays.chosen[:len(nodes)] = nodes
        level = level_of.py_func(state.arrays, 0, len(nodes))
        held = HeldNodes(np.zeros(len(nodes), np.int64), np.array(nodes), np.ones(len(nodes), np.int64),
                         np.zeros(len(nodes)), np.full(len(nodes), 100.0), np.ones(len(nodes), np.int64))
        assert as_work(workload, CLUSTER, ALONE, held)[0].run[0] == pytest.approx(100 * SPREAD[1, level])
