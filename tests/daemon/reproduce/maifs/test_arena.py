"""Fungible jobs in rounds: what policies may never do, and what happens where it can be worked out by hand."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rounds import ALEXNET, GNMT, RESNET18, RESNET50, SITE, check, drawn, trace

from idlewatt.daemon.reproduce.failures import ZeroProgressError
from idlewatt.daemon.reproduce.maifs import kernel
from idlewatt.daemon.reproduce.maifs.agent import ArenaMaifs
from idlewatt.daemon.reproduce.maifs.arena import begin, replay, site_of, watch
from idlewatt.daemon.reproduce.maifs.baselines import Synergy, baselines, fifo, srsf
from idlewatt.daemon.reproduce.maifs.models import MODELS
from idlewatt.daemon.reproduce.maifs.optimum import (
    ANY,
    InfeasibleError,
    OptimalSpeeds,
    best_throughput,
    solve,
    throughput,
)
from idlewatt.daemon.reproduce.maifs.placing import PROPORTIONAL, TUNE

POLICIES = {**baselines(), "ours": ArenaMaifs(), "ours, fixed": ArenaMaifs(fungible=False),
            "two-stage": ArenaMaifs(integrated=False)}


@pytest.mark.parametrize("name", POLICIES)
@settings(max_examples=4, deadline=None)
@given(seed=st.integers(0, 1000))
def test_no_policy_gives_more_than_a_node_has_and_every_job_ends(name, seed):
    rounds = 0
    for round in watch(SITE, drawn(seed), POLICIES[name]):
        check(round)
        rounds += 1
    assert rounds
    assert not np.isnan(round.jobs.end).any()
    assert (round.nodes.free == (8, 24, 24)).all()


@pytest.mark.parametrize("model", range(len(MODELS)))
@pytest.mark.parametrize("gpus", range(1, 9))
def test_a_job_at_the_fair_level_is_not_slower_than_fair_or_faster_than_alone(model, gpus):
    jobs = begin(SITE, trace((0, 1, gpus, model))).jobs
    cpus, memory = (int(kernel.floor_of(SITE, jobs, 0, kernel.FAIR, what)) for what in range(2))
    assert cpus <= 3 * gpus
    assert memory <= 3 * gpus
    assert SITE.rates[model, gpus, cpus, memory] >= 1.0 - 1e-9
    best = SITE.best[model, gpus]
    assert SITE.rates[model, gpus, best[0], best[1]] == pytest.approx(SITE.rates[model, gpus].max())


def test_a_job_gets_the_cpus_that_its_neighbour_does_not_use_and_both_are_done_sooner():
    one = site_of(1)
    pair = trace((0, 6000, 2, RESNET18), (0, 6000, 6, GNMT))
    fair = replay(one, pair, Synergy(fifo, PROPORTIONAL)).jct
    assert fair.tolist() == [6000, 6000]
    for policy in (Synergy(fifo, TUNE), ArenaMaifs()):
        assert replay(one, pair, policy).jct.tolist() == [pytest.approx(2500), 6000]


def test_a_moved_job_loses_time_and_a_first_start_none():
    one = site_of(1)
    swap = trace((0, 3000, 8, GNMT), (300, 600, 8, GNMT))
    assert replay(one, swap, Synergy(srsf, PROPORTIONAL)).jct.tolist() == [3000 + 600 + 30, 600]


def test_neighbours_disturb_only_where_the_site_says_so():
    pair = trace((0, 3000, 4, GNMT), (0, 3000, 4, GNMT))
    assert replay(site_of(1), pair, Synergy(fifo, PROPORTIONAL)).jct.tolist() == [3000, 3000]
    disturbed = replay(site_of(1, disturbing=True), pair, Synergy(fifo, PROPORTIONAL)).jct
    assert disturbed.tolist() == pytest.approx([3000 / 0.65] * 2)


def test_a_job_larger_than_the_cluster_is_refused_and_one_larger_than_a_node_takes_whole_nodes():
    with pytest.raises(ValueError, match="1 ask for more than the cluster has"):
        begin(SITE, trace((0, 1, 33, GNMT)))
    assert replay(SITE, trace((0, 3000, 32, ALEXNET)), ArenaMaifs()).jct.tolist() == [3000]


def test_large_jobs_move_small_ones_out_of_the_way():
    crowd = trace(*[(0, 30_000, 1, GNMT)] * 16, (300, 600, 8, GNMT), (300, 600, 16, GNMT))
    assert replay(SITE, crowd, Synergy(srsf, TUNE)).jct[16:].tolist() == [600, 600]


def test_a_policy_that_never_acts_is_distinguished_from_a_slow_one(monkeypatch):
    class Idle:
        def decide(self, round):
            pass

    monkeypatch.setattr("idlewatt.daemon.reproduce.maifs.arena.MOST_ROUNDS", 20)
    with pytest.raises(ZeroProgressError, match="1 jobs are not done"):
        replay(SITE, trace((0, 1, 1, GNMT)), Idle())


@settings(max_examples=5, deadline=None)
@given(seed=st.integers(0, 1000))
def test_no_policy_exceeds_the_bound(seed):
    optimum = OptimalSpeeds(srsf, ANY)
    for policy in (Synergy(srsf, TUNE), ArenaMaifs()):
        for round in watch(SITE, drawn(seed, 15, most=8), policy):
            assert throughput(round) <= best_throughput(optimum, round) + 1e-6


def test_a_policy_below_the_fair_share_may_exceed_synergys_programme_but_not_the_bound():
    round = begin(site_of(1), trace(*[(0, 3000, 1, RESNET50)] * 4, *[(0, 3000, 1, RESNET18)] * 4))
    round.live = np.arange(8)
    for job in range(8):
        kernel.put(round.jobs, round.nodes, job, 0, 2 if job < 4 else 4, 3)
    kernel.update_speeds(round.site, round.jobs, round.nodes, round.live)
    done = throughput(round)
    assert done == pytest.approx(4 * 0.74 + 4 * 1.3)
    assert best_throughput(OptimalSpeeds(srsf), round) < done - 0.01
    assert best_throughput(OptimalSpeeds(srsf, ANY), round) >= done - 1e-6


def test_a_node_is_busy_until_its_last_job_ends_not_until_the_round_does():
    crowd = trace((0, 450, 4, GNMT), (0, 400, 4, GNMT))
    found = replay(site_of(1), crowd, Synergy(fifo, PROPORTIONAL))
    assert found.busy == pytest.approx(450)
    assert found.held == pytest.approx(4 * 850)
    found = replay(SITE, trace((0, 100, 16, GNMT)), Synergy(fifo, PROPORTIONAL))
    assert (found.busy, found.held) == (pytest.approx(200), pytest.approx(1600))


def test_the_linear_programme_agrees_with_a_hand_calculation():
    count = np.zeros(SITE.rates.shape[:2])
    count[RESNET18, 1], count[GNMT, 1] = 2, 6
    assert solve(SITE, count, 1)[RESNET18, 1] == pytest.approx(2.4)  # 9 CPUs each, 6 for the others
    count[RESNET18, 1], count[GNMT, 1] = 8, 0
    assert 1.0 <= solve(SITE, count, 1)[RESNET18, 1] < 1.05  # a mixture of few and many CPUs
    count[RESNET18, 1] = 9
    with pytest.raises(InfeasibleError, match="9 jobs"):
        solve(SITE, count, 1)
