"""What a replay was worth: relative to another, by the operator's weights."""

import math
from dataclasses import replace

import pytest

from idlewatt.daemon.agents.kinds import Figures, Objective, figures
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.power import PowerModel
from idlewatt.daemon.replay.workload import Workload

ONE = Figures(100.0, 2.0, 40.0, 10.0, None)


def test_the_objective_is_a_weighted_geometric_mean_of_ratios():
    other = Figures(200.0, 2.0, 140.0, 10.0, None)
    assert ONE.relative(other, Objective(1.0, 0.0, 0.0)) == pytest.approx(0.5)
    assert ONE.relative(other, Objective(0.5, 0.0, 0.5)) == pytest.approx(0.5), "waits of 40 s and 140 s, and a minute"
    assert math.prod(pair[0].relative(pair[1], Objective()) for pair in ((ONE, other), (other, ONE))) \
        == pytest.approx(1.0)


def test_wasted_energy_that_nobody_counted_is_no_objective():
    with pytest.raises(ValueError, match="was not counted"):
        ONE.relative(ONE, Objective(energy_wasted=1.0))


@pytest.mark.parametrize(("name", "better"), [("utilization", 1.25), ("makespan_s", 0.8), ("joules", 0.8),
                                              ("wait_mean_s", 0.0)])
def test_every_aim_of_the_paper_and_of_the_meter_can_be_chosen(name, better):
    one = replace(ONE, utilization=0.5, makespan_s=100.0, joules=1000.0, wait_mean_s=940.0)
    weight = {"makespan_s": "makespan", "joules": "energy"}.get(name, name.removesuffix("_s"))
    objective = Objective(**dict.fromkeys(("jct_mean", "slowdown_mean", "wait_p99"), 0.0), **{weight: 1.0})
    other = replace(one, **{name: getattr(one, name) * better, "jct_mean_s": 1e9})
    assert other.relative(one, objective) == pytest.approx(0.8 if better else 60 / 1000)
    assert one.relative(one, objective) == 1.0


def test_utilisation_is_the_mean_over_partitions_of_the_gpu_time_held_while_jobs_come():
    cluster = Cluster.from_mapping({"nodes": [{"name": "a", "gpus": 8, "partitions": ["a"]},
                                              {"name": "b", "gpus": 4, "partitions": ["b"]}]})
    work = Workload.of([0.0, 0.0, 100.0], [50.0, 200.0, 10.0], [8, 2, 4], partition=["a", "b", "a"])
    done = run(cluster, work, named("fifo+first-fit"))
    found = figures(done, 0.0, watts=PowerModel())
    assert found.utilization == pytest.approx((50 / 100 + 0.5) / 2)
    assert found.makespan_s == 200.0
    assert found.joules > found.wasted_joules > 0.0
