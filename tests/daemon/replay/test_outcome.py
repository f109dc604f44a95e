import math
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, outcome
from idlewatt.daemon.replay.cluster import Cluster, NodeEvent
from idlewatt.daemon.replay.power import PowerModel, energy, occupation
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import Node

MODEL = PowerModel(idle=50, context=90, limit=400, host=800, standby=20)


def two_jobs(**options):
    """Two full-node jobs on one node of 8: the second waits 100 s."""
    workload = Workload.of([0, 0], [100, 50], [8, 8], user=["ann", "bob"], limit=[100, 50])
    return engine.run(Cluster.from_spec("1x8"), workload, named("fifo"), **options)


def test_times_are_those_one_gets_by_hand():
    measured = outcome.times(two_jobs())
    assert measured.jct.tolist() == [100, 150]
    assert measured.wait.tolist() == [0, 100]
    assert measured.slowdown.tolist() == [1, 3]


def test_short_jobs_do_not_explode_the_bounded_slowdown():
    workload = Workload.of([0, 0], [100, 1], [8, 8])
    measured = outcome.times(engine.run(Cluster.from_spec("1x8"), workload, named("fifo")))
    assert measured.slowdown[1] == pytest.approx(101 / 10)


def test_a_row_has_every_figure_with_its_unit():
    row = outcome.row(two_jobs(), MODEL)
    assert row["jct_mean_s"] == 125
    assert row["wait_mean_s"] == 50
    assert row["makespan_s"] == 150
    assert row["utilization_ratio"] == 1
    assert row["gpu_hours"] == pytest.approx(8 * 150 / 3600)
    assert row["jobs"] == 2
    assert row["fairness_user_jain"] == pytest.approx(16 / (2 * 10))


def test_fairness_between_partitions_is_theirs_whichever_jobs_stand_in_line_together():
    cluster = Cluster.from_records([Node("n0", ("first", "second"), 8)])
    workload = Workload.of([0, 0, 0], [1000, 100, 100], [8, 8, 8], limit=[1000, 100, 100],
                           partition=["first", "second", "second"])
    for policy in ("fifo+best-fit+easy", "fifo+best-fit+greedy"):
        run = engine.run(cluster, workload, named(policy))
        assert outcome.times(run).slowdown.tolist() == [1, 11, 12]
        assert outcome.row(run)["fairness_partition_jain"] == pytest.approx((1 + 11.5) ** 2 / (2 * (1 + 11.5 ** 2)))


def test_jobs_that_name_no_partition_are_a_group_of_their_own():
    workload = Workload.of([0, 0], [100, 50], [8, 8], partition=["default", ""])
    row = outcome.row(engine.run(Cluster.from_spec("1x8"), workload, named("fifo")))
    assert row["fairness_partition_jain"] == pytest.approx((1 + 3) ** 2 / (2 * (1 + 9)))


def test_energy_adds_up_to_hosts_and_gpus():
    spent = energy(two_jobs(), replace(MODEL, load=1.0), until=250)
    assert spent.productive == 8 * 150 * 400
    assert spent.idle_unallocated == 8 * 100 * 50
    assert spent.host_active == 150 * 800
    assert spent.node_overhead_empty == 100 * 800
    assert spent.total == spent.productive + spent.idle_unallocated + 250 * 800


def test_an_empty_node_powers_down_after_its_delay_and_draws_standby():
    run = two_jobs(power_down_s=30)
    spent = energy(run, MODEL, until=250)
    assert spent.unavailable == 70 * 20
    assert spent.node_overhead_empty == 30 * 800
    assert spent.idle_unallocated == 8 * 30 * 50


def test_metered_gpu_seconds_survive_preemption_and_failure():
    workload = Workload.of([0, 10], [100, 20], [8, 8])
    run = engine.run(Cluster.from_spec("1x8"), workload, named("srtf"), preemption_s=5)
    assert run.end.tolist() == [125, 30]
    assert occupation(run).gpu.sum() == 8 * 125
    failed = engine.run(Cluster.from_spec("1x8").with_events([NodeEvent(40, "node0000", "down"),
                                                              NodeEvent(50, "node0000", "up")]),
                        Workload.of([0], [100], [8]), named("fifo"))
    assert failed.end.tolist() == [150]
    assert occupation(failed).gpu.sum() == 8 * 140


def test_a_job_without_gpus_whose_node_failed_waited_for_what_it_did_not_run():
    cluster = Cluster.from_spec("1x8").with_events([NodeEvent(40, "node0000", "down"), NodeEvent(50, "node0000", "up")])
    for gpus in (0, 8):
        measured = outcome.times(engine.run(cluster, Workload.of([0], [100], [gpus], cpus=1), named("fifo")))
        assert (measured.jct.tolist(), measured.wait.tolist(), measured.slowdown.tolist()) == ([150], [50], [1.5])


def test_a_policy_against_itself_saves_exactly_nothing():
    one, other = two_jobs(), two_jobs()
    assert energy(one, MODEL, until=500).total - energy(other, MODEL, until=500).total == 0
    interval = outcome.ratio_interval(one.workload.submit, *(run.end - run.workload.submit for run in (one, other)))
    assert (interval.estimate, interval.low, interval.high) == (1, 1, 1)


def test_the_bootstrap_interval_covers_the_truth_and_excludes_one_when_clear():
    rng = np.random.default_rng(1)
    submit = np.sort(rng.uniform(0, 30 * 86400, 4000))
    workload = Workload.of(submit, rng.lognormal(8, 1.5, 4000), rng.choice([1, 2, 4, 8], 4000))
    cluster = Cluster.from_spec("2x8")
    better, worse = (engine.run(cluster, workload, named(name)) for name in ("sjf-oracle", "fifo"))
    interval = outcome.ratio_interval(submit, better.end - submit, worse.end - submit)
    assert interval.low <= interval.estimate <= interval.high < 1


def test_the_interval_of_few_pairs_is_students():
    ours, theirs = np.array([0.9, 0.8, 1.1]), np.array([1.0, 1.0, 1.0])
    found = outcome.paired_ratio(ours, theirs)
    logs = np.log(ours)
    assert found.estimate == pytest.approx((0.9 * 0.8 * 1.1) ** (1 / 3))
    assert np.log(found.high) == pytest.approx(logs.mean() + 4.302653 * logs.std(ddof=1) / 3 ** 0.5)  # t, 2 degrees
    assert found.low * found.high == pytest.approx(found.estimate ** 2)


def test_the_interval_of_few_pairs_covers_the_truth_as_often_as_it_says():
    draw = np.random.default_rng(0).normal(np.log(0.9), 0.2, (2000, 4))
    held = [found.low <= 0.9 <= found.high for found in (outcome.paired_ratio(np.exp(row), np.ones(4)) for row in draw)]
    assert np.mean(held) == pytest.approx(0.95, abs=0.02)


def test_one_pair_has_no_interval_and_none_no_estimate():
    one, none = (outcome.paired_ratio(np.full(count, 0.5), np.ones(count)) for count in (1, 0))
    assert (one.estimate, math.isnan(one.low), math.isnan(one.high)) == (pytest.approx(0.5), True, True)
    assert math.isnan(none.estimate)


def test_fragmentation_is_the_share_of_free_gpus_that_the_typical_job_cannot_use():
    workload = Workload.of([0, 0, 0, 1000], [10, 10, 10, 1], [6, 6, 8, 8])
    states = engine.decisions(Cluster.from_spec("2x8"), workload, named("fifo"))
    # Two nodes with 2 free GPUs each; no job of this workload wants 2 or fewer.
    assert outcome.fragmentation(next(states).state.arrays) == 1.0


def test_an_empty_run_has_figures_and_does_not_fail():
    row = outcome.row(engine.run(Cluster.from_spec("1x8"), Workload.of([], [], []), named("fifo")), MODEL)
    assert row["jobs"] == 0
    assert math.isnan(row["jct_mean_s"])
    assert row["energy_joules"] == 0


def test_strata_count_alike_whatever_their_number_of_pairs():
    draw = np.random.default_rng(0)
    many, few = np.exp(draw.normal(-0.2, 0.1, 40)), np.exp(draw.normal(0.1, 0.1, 12))
    found = outcome.alike_ratio([(many, np.ones(40)), (few, np.ones(12))])
    assert found.estimate == pytest.approx(np.exp((np.log(many).mean() + np.log(few).mean()) / 2))
    assert found.low < found.estimate < found.high


def test_an_interval_over_strata_holds_the_truth_as_often_as_it_says():
    draw = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        strata = [(np.exp(draw.normal(0.0, spread, count)), np.ones(count))
                  for spread, count in ((0.02, 40), (0.2, 12))]
        found = outcome.alike_ratio(strata)
        held += found.low <= 1.0 <= found.high
    assert 0.92 <= held / 400 <= 0.98


def test_strata_in_which_nothing_differs_have_an_interval_of_no_width():
    found = outcome.alike_ratio([(np.ones(3), np.ones(3)), (np.ones(2), np.ones(2))])
    assert (found.estimate, found.low, found.high) == (1.0, 1.0, 1.0)
