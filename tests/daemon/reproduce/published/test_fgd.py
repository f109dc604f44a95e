"""The published allocation of six packing policies on openb, and their scores by hand."""

import numpy as np
import pytest

from idlewatt.daemon.reproduce.published import fgd
from idlewatt.daemon.reproduce.published.fgd import FreeGpuNodes, allocation, inflate, kinds_of, typical_pods
from idlewatt.daemon.reproduce.published.fgd_kernel import schedule

pytestmark = pytest.mark.xdist_group("fgd")
"""The kernel takes ten seconds to compile: one worker does it for all."""

GATED = {"Random": 0.4, "DotProd": 0.4, "BestFit": 0.4, "FGD": 0.3}
"""Points of allocation; GpuClustering and GpuPacking stay lower on default, cause unknown."""
MEASURED = {  # mean of our ten seeds, to notice when it moves
    "default": (87.75, 91.03, 91.18, 91.23, 93.20, 95.28), "multigpu50": (90.35, 94.79, 95.81, 96.14, 95.85, 97.17),
}
SEED = 42
FIRST = {  # the first of the ten seeds: as long as these stay, so do the means that are compared with the authors'
    "default": (87.97, 91.23, 90.63, 90.55, 93.31, 95.32), "multigpu50": (90.21, 94.61, 95.55, 95.75, 95.57, 97.24),
}


@pytest.fixture(scope="module")
def rows(traces):
    return {(row.name.split()[1], row.setting.split()[1].rstrip(",")): row for row in fgd.rows(traces)}


@pytest.mark.parametrize("workload", fgd.WORKLOADS)
def test_the_allocation_of_the_first_seed_is_unchanged(traces, workload):
    cluster, pods = fgd.load_cluster(traces), fgd.load_pods(traces, workload)
    assert tuple(fgd.replay(cluster, pods, policy, SEED) for policy in fgd.POLICIES) == FIRST[workload]


@pytest.mark.long
@pytest.mark.parametrize("workload", fgd.WORKLOADS)
@pytest.mark.parametrize("policy", GATED)
def test_mean_allocation_is_within_the_spread_of_the_published_seeds(rows, workload, policy):
    row = rows[policy, workload]
    assert row.ours == pytest.approx(row.published, abs=GATED[policy])


@pytest.mark.long
@pytest.mark.parametrize("policy", fgd.POLICIES)
def test_every_policy_agrees_on_multigpu50(rows, policy):
    row = rows[policy, "multigpu50"]
    assert row.ours == pytest.approx(row.published, abs=0.2)


@pytest.mark.long
def test_the_policies_rank_as_published(rows):
    ours = {policy: rows[policy, "default"].ours for policy in fgd.POLICIES}
    assert ours["Random"] < ours["DotProd"] < ours["GpuClustering"] < ours["BestFit"] < ours["FGD"]
    assert ours["GpuClustering"] == pytest.approx(ours["GpuPacking"], abs=0.3)


@pytest.mark.long
@pytest.mark.parametrize("workload", fgd.WORKLOADS)
def test_our_own_means_are_unchanged(rows, workload):
    assert [rows[policy, workload].ours for policy in fgd.POLICIES] == pytest.approx(MEASURED[workload], abs=0.006)


@pytest.mark.long
def test_a_row_that_does_not_match_says_so(rows):
    assert "outside, cause unknown" in rows["GpuPacking", "default"].note


CLUSTER = FreeGpuNodes(cpu=(8000, 8000, 8000), memory=(1000, 1000, 1000), gpus=(2, 2, 4), models=("T4", "T4", "A10"))


def place(policy, pods):
    """Return which pods were placed and the free GPU thousandths afterwards."""
    models = sorted(set(CLUSTER.models))
    distinct = sorted(set(pods))
    nodes = CLUSTER.empty()
    placed = schedule(fgd.POLICIES.index(policy), np.array([distinct.index(pod) for pod in pods]),
                      kinds_of(distinct, models), nodes, typical_pods(pods, models), 1)
    return placed.tolist(), nodes.free.tolist()


@pytest.mark.parametrize("policy", fgd.POLICIES)
def test_a_pod_that_fits_nowhere_is_lost_and_the_next_goes_on(policy):
    placed, _ = place(policy, [(1000, 1, 8, 1000, ""), (1000, 2000, 1, 1000, ""), (1000, 1, 1, 1000, "V100"),
                               (9000, 1, 1, 1000, ""), (1000, 1, 1, 1000, "A10|V100")])
    assert placed == [False, False, False, False, True]


def test_best_fit_fills_the_smallest_node_and_the_tightest_gpu():
    _, free = place("BestFit", [(1000, 1, 1, 600, ""), (1000, 1, 1, 300, ""), (1000, 1, 1, 300, "")])
    assert free[0] == [100, 700, 0, 0]


def test_packing_prefers_a_touched_gpu():
    _, free = place("GpuPacking", [(1000, 1, 1, 500, "A10"), (1000, 1, 1, 500, "")])
    assert free == [[1000, 1000, 0, 0], [1000, 1000, 0, 0], [0, 1000, 1000, 1000]]


def test_clustering_brings_shares_together():
    _, free = place("GpuClustering", [(1000, 1, 1, 500, "A10"), (1000, 1, 1, 1000, "T4"), (1000, 1, 1, 500, "")])
    assert free == [[0, 1000, 0, 0], [1000, 1000, 0, 0], [0, 1000, 1000, 1000]]


def test_fragmentation_gradient_keeps_whole_gpus_for_those_who_ask():
    _, free = place("FGD", [(1000, 1, 1, 500, ""), (1000, 1, 1, 500, "")] + [(1000, 1, 2, 1000, "")] * 3)
    assert sum(gpu == 500 for node in free for gpu in node) == 0


def test_typical_pods_cover_95_percent():
    pods = [(1, 1, 1, 500, "")] * 90 + [(1, 2, 1, 500, "")] * 6 + [(2, 1, 0, 0, "")] * 4
    typical = typical_pods(pods, ["T4"])
    assert typical.frequency.tolist() == [1.0]


def test_inflation_repeats_or_removes_pods_until_the_target():
    pods = [(1, 1, 1, 500, ""), (1, 1, 2, 1000, "")] * 10
    asked = [sum(pod[2] * pod[3] for pod in inflate(pods, target, np.random.default_rng(1)))
             for target in (10_000, 40_000)]
    assert 8_000 <= asked[0] <= 10_000
    assert 38_000 < asked[1] <= 41_000


def test_the_figure_is_the_mean_over_arrivals_at_the_percentage():
    asked = np.array([500.0, 500.0, 4.0])
    assert allocation(asked, np.array([500.0, 0.0, 4.0]), 1000, 100) == 50.2
