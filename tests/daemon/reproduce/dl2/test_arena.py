"""DL2's simulator: the ten validation traces, the figures that are known of them, and what must never happen."""

from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.reproduce.dl2 import trial
from idlewatt.daemon.reproduce.dl2.agent import FlatAgent
from idlewatt.daemon.reproduce.dl2.arena import HOPELESS, ArenaTrace, cluster, mean_jct, replay, traces, watch
from idlewatt.daemon.reproduce.dl2.baselines import Drf, baselines, fitted_speeds
from idlewatt.daemon.reproduce.dl2.kernel import BUNDLE, SERVER, WORKER, grant
from idlewatt.daemon.reproduce.dl2.network import NetworkSize
from idlewatt.daemon.reproduce.dl2.rule import LookAhead
from idlewatt.daemon.reproduce.dl2.trial import BOUND, FITTED, OURS, PLAIN, contest
from idlewatt.daemon.reproduce.failures import ZeroProgressError

TEN = list(islice(traces(), 10))
SITE = cluster(8)


def mean_over_traces(name):
    return np.mean([replay(SITE, trace, baselines(SITE)[name]).mean() for trace in TEN])


@pytest.mark.parametrize(("policy", "slots"), [
    ("DRF", 10.033), ("FIFO", 15.46), ("SRTF as coded", 15.46), ("SRTF (oracle)", 8.51), ("Optimus (oracle)", 6.870),
    ("Optimus (oracle), any node", 6.35), ("random-feasible", 6.22)])
def test_figures_agree_with_the_authors_environment_within_five_percent(policy, slots):
    assert mean_over_traces(policy) == pytest.approx(slots, rel=0.05)


def test_tetris_as_coded_is_as_slow_as_the_authors_own_over_twenty_traces():
    found = mean_jct(SITE, baselines(SITE)["Tetris as coded"], islice(traces(), 20))
    assert found.mean() == pytest.approx(13.12, rel=0.02)


@pytest.mark.parametrize(("believed", "rival"), [(None, "Optimus (oracle)"), (fitted_speeds(SITE), "Optimus (fitted)")])
def test_our_rule_beats_the_random_baseline_and_policies_with_equal_knowledge(believed, rival):
    ours = np.mean([replay(SITE, trace, LookAhead(believed=believed)).mean() for trace in TEN])
    assert ours < mean_over_traces("random-feasible")
    assert ours < mean_over_traces(rival)


def test_no_job_is_faster_than_alone():
    found = contest(SITE, measured=False, plans=2)
    for name, jct in found.jct.items():
        assert (jct >= found.jct[BOUND] - 1e-9).all(), name
    assert found.less_than("random-feasible").low > 0
    assert {OURS, FITTED, PLAIN} < set(found.jct)


def test_a_policy_that_lets_jobs_wait_for_ever_is_named(monkeypatch):
    monkeypatch.setattr(trial, "TRACES", 1)
    monkeypatch.setattr(trial, "baselines", lambda _: {"DRF": Drf()})
    monkeypatch.setattr(trial, "fitted_speeds", lambda cluster: cluster.rates)
    blind = cluster(1, nodes=1)
    blind.rates[:] = 0.0
    with pytest.raises(ZeroProgressError, match="DRF, at most 1 workers: after 3000 slots 60 jobs"):
        contest(blind, measured=False, plans=0)


def test_tetris_fills_a_node_with_what_fits_and_the_least_work_goes_first():
    trace = ArenaTrace(np.zeros(2, np.int64), np.array([6, 6]), np.array([1e6, 1e3]))
    slot = next(watch(cluster(1, nodes=1), trace, baselines(cluster(1))["Tetris (oracle)"], np.full(2, np.nan)))
    assert slot.jobs.tasks[:, WORKER].tolist() == [0, 1]  # 6 of 8 CPU slots for a bundle


def test_a_seed_gives_the_same_traces_and_another_one_others():
    first, again, other = (next(traces(seed)) for seed in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first.model, other.model)


def test_looking_ahead_is_better_and_deterministic():
    judged = list(islice(traces(2), 4))
    plain, ahead, again = (mean_jct(SITE, LookAhead(plans=plans), judged).mean() for plans in (0, 16, 16))
    assert ahead == again
    assert ahead < plain


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 1000), most=st.sampled_from([1, 3, 8]), nodes=st.sampled_from([4, 48]))
def test_no_policy_exceeds_the_nodes_or_the_limits_of_a_job(seed, most, nodes):
    site, trace = cluster(most, nodes=nodes), next(traces(seed, jobs=12))
    flat = FlatAgent.fresh(NetworkSize(), seed)
    for name, policy in {**baselines(site), "ours": LookAhead(), "ahead": LookAhead(plans=2), "flat": flat}.items():
        for slot in islice(watch(site, trace, policy, np.full(12, np.nan)), 20):
            taken = np.einsum("jt,jtk->k", slot.jobs.tasks, site.demand[slot.jobs.model, :BUNDLE])
            assert (taken == slot.used.sum(axis=0)).all(), name
            assert (slot.used <= site.slots).all(), name
            assert (slot.jobs.tasks <= most).all(), name


def test_a_job_ends_within_a_slot():
    half = ArenaTrace(np.zeros(1, np.int64), np.zeros(1, np.int64), np.array([SITE.rates[0, 8, 8] * 1.5]))
    assert replay(SITE, half, Drf()) == pytest.approx([1.5])


def test_a_policy_that_never_acts_is_distinguished_from_a_slow_one():
    class Idle:
        def fill(self, cluster, jobs, used):
            pass

    with pytest.raises(ZeroProgressError, match="60 jobs are not done"):
        replay(SITE, TEN[0], Idle())
    assert mean_jct(SITE, Idle(), TEN[:1]) == HOPELESS


def test_a_job_without_a_curve_is_no_reason_to_stall_the_others():
    blind = SITE._replace(rates=SITE.rates.copy())
    blind.rates[2] = 0.0
    trace = ArenaTrace(np.zeros(2, np.int64), np.array([2, 0]), np.array([10.0, 10.0]))
    ends = np.full(2, np.nan)
    list(islice(watch(blind, trace, LookAhead(), ends), 5))
    assert np.isnan(ends[0])
    assert ends[1] < 5


@pytest.mark.parametrize("policy", [baselines(SITE)["max-relative-gain (oracle)"], LookAhead(), LookAhead(plans=2)])
def test_a_job_gets_no_more_tasks_when_its_speed_would_fall(policy):
    falling = SITE._replace(rates=SITE.rates.copy())
    falling.rates[:, 3:, :] = 1e-3
    slot = next(watch(falling, TEN[0], policy, np.full(60, np.nan)))
    assert slot.jobs.tasks[:, SERVER].max() == 2


def test_more_jobs_than_tasks_leave_the_last_ones_waiting():
    crowd = ArenaTrace(np.zeros(60, np.int64), np.full(60, 6), np.full(60, 1.0))
    slot = next(watch(cluster(8, nodes=2), crowd, LookAhead(), np.full(60, np.nan)))
    assert 0 < (slot.jobs.tasks[:, WORKER] > 0).sum() < 60


def test_a_bundle_is_placed_whole_or_not_at_all():
    slot = next(watch(SITE, TEN[0], Drf(), np.full(60, np.nan)))
    used = np.full_like(slot.used, SITE.slots - 4)  # room for a server, none for a worker beside it
    before = slot.jobs.tasks.copy()
    assert not grant(SITE, slot.jobs, used, 0, BUNDLE, True)
    assert np.array_equal(slot.jobs.tasks, before)
    assert grant(SITE, slot.jobs, used, 0, SERVER, True)
