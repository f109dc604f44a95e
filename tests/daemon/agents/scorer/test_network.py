"""The scorer's forward pass: the same in compiled code as written out in numpy, and any heuristic as a special case."""

import numpy as np
import pytest

from idlewatt.daemon.agents.scorer.agent import _scored, inputs_of, ready, rules_of, seconds
from idlewatt.daemon.agents.scorer.network import (
    FACTORS,
    FEATURES,
    INPUTS,
    LAYERS,
    SHORT_S,
    SIZE,
    STATE_HIDDEN,
    TRAITS,
    layer,
    rate,
    traits,
)
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import decisions, run
from idlewatt.daemon.replay.workload import Workload

from .conftest import small


class Fixed:
    """A policy over one weight vector."""

    name = "fixed"

    def __init__(self, weights):
        self.rules = rules_of(weights)


def linear(**by_input):
    """Return weights that order by these inputs alone, on the fullest node."""
    weights = np.zeros(SIZE)
    layer(weights, "mood.base")[0], layer(weights, "place.linear")[0] = 1.0, 1.0
    layer(weights, "patience")[:] = np.inf
    for name, value in by_input.items():
        layer(weights, "order.linear")[INPUTS.index(name.replace("_", " ")), 0] = value
    return weights


def drawn(seed=0):
    weights = np.random.default_rng(seed).normal(0.0, 0.3, SIZE)
    layer(weights, "patience")[:] = 7 * 86400.0
    return weights


def crowded(policy, waiting=10):
    """Return a state in which many wait."""
    whole = small(7)
    for decision in decisions(whole.cluster, whole.workload, policy):
        if len(decision.state.waiting) >= waiting:
            return decision.state
    raise AssertionError("nobody waits")


def soft(value):
    return value / (1 + np.abs(value))


def test_it_has_less_than_20000_weights_and_no_size_of_anything_in_them():
    assert SIZE == sum(np.prod(shape) for shape in LAYERS.values()) < 20_000


@pytest.mark.parametrize(("weights", "heuristic"), [
    (linear(requested_limit=1.0), "sjf-limit"), (linear(predicted_run_time=1.0), "sjf-prediction"),
    (linear(predicted_run_time=1.0, GPUs=np.log(2)), "qssf")])
def test_heuristics_are_special_cases_to_the_digest(weights, heuristic):
    whole = small(3)
    theirs = run(whole.cluster, whole.workload, named(f"{heuristic}+best-fit+easy"))
    assert run(whole.cluster, whole.workload, Fixed(weights)).digest == theirs.digest


def test_compiled_scores_are_those_of_the_formula_in_numpy():
    weights, state = drawn(), crowded(named("fifo+best-fit+easy"))
    inputs, arrays = inputs_of(state), state.arrays
    waiting = state.waiting
    t = soft(inputs @ layer(weights, "order.hidden") + layer(weights, "order.bias")) @ layer(weights, "order.traits")
    t += inputs @ layer(weights, "order.linear")
    nodes, jobs, wait = arrays.nodes, arrays.jobs[waiting], state.now - arrays.jobs.submit[waiting]
    total = nodes.gpus.sum()
    features = np.concatenate([[
        (nodes.free_gpus * nodes.open).sum() / total, np.mean((nodes.free_gpus == nodes.gpus) & (nodes.open == 1)),
        np.log1p(jobs.gpus.sum() / total),
        0.5 * np.log1p((np.maximum(jobs.gpus, 1) * seconds(inputs)[waiting]).sum() / total / 3600),
        0.25 * np.log1p(wait.mean() / SHORT_S), 0.5 * np.log1p(len(waiting) / len(nodes))], t[waiting].mean(axis=0)])
    factors = layer(weights, "mood.base") + soft(
        features @ layer(weights, "mood.hidden") + layer(weights, "mood.bias")) @ layer(weights, "mood.factors")
    expected = t[waiting] @ factors[:TRAITS] - factors[TRAITS] * np.log1p(wait / SHORT_S) \
        - factors[TRAITS + 1] * np.minimum(8, wait / (wait.mean() + SHORT_S))
    assert features.shape == (FEATURES,)
    assert layer(weights, "mood.hidden").shape == (FEATURES, STATE_HIDDEN)
    assert factors.shape == (FACTORS,)
    assert _scored(weights, state).keys[waiting] == pytest.approx(expected, abs=1e-9)
    assert traits(weights, inputs) == pytest.approx(t)


def test_the_scores_of_several_members_add_up():
    state, members = crowded(named("fifo+best-fit+easy")), [drawn(seed) for seed in range(3)]
    apart = sum(_scored(weights, state).keys[state.waiting] for weights in members)
    together = _scored(np.concatenate(members), state)
    assert together.keys[state.waiting] == pytest.approx(apart, abs=1e-9)
    node, length = together.nodes[0], 3600.0
    assert rate(np.concatenate(members), node, 2, length) == pytest.approx(
        sum(rate(weights, node, 2, length) for weights in members))


def test_whoever_has_waited_beyond_all_patience_goes_by_age_alone():
    weights, state = drawn(), crowded(named("fifo+best-fit+easy"))
    wait = state.now - state.arrays.jobs.submit[state.waiting]
    layer(weights, "patience")[:] = np.median(wait)
    order = state.waiting[np.argsort(_scored(weights, state).keys[state.waiting], kind="stable")]
    old = state.waiting[wait > np.median(wait)]
    assert len(old) > 3
    assert order[:len(old)].tolist() == old.tolist()


def test_jobs_start_only_where_they_fit_whatever_the_weights():
    for seed in range(3):
        whole = small(seed + 20)
        done = run(whole.cluster, whole.workload, Fixed(drawn(seed)))
        assert np.isfinite(done.end).sum() + len(done.rejected) == len(whole.workload)
        assert (done.state.arrays.nodes.free_gpus == 8).all()


def test_the_place_head_can_keep_jobs_of_unlike_length_apart():
    apart = linear(requested_limit=1.0)
    layer(apart, "place.linear")[:] = [0.0, 0.0, 0.1, 0.0, 1.0, 1.0]
    long, short = 36000.0, 600.0
    work = Workload.of([0, 1, 2, 3], [long, short, short, long], [4, 4, 2, 2], limit=[long, short, short, long],
                       prediction=[long, short, short, long])
    state = run(Cluster.from_spec("2x8"), work, Fixed(apart), until=3.0).state
    fullest = run(Cluster.from_spec("2x8"), work, named("sjf-limit+best-fit+easy"), until=3.0).state
    ours, theirs = ([int(found.held(job).node[0]) for job in range(4)] for found in (state, fullest))
    assert ours[0] == ours[3] != ours[1] == ours[2]
    assert theirs[0] == theirs[1]


def test_large_jobs_are_placed_on_as_many_nodes_as_they_need():
    work = Workload.of([0, 0], [100.0, 100.0], [20, 12], limit=[100.0, 100.0])
    state = run(Cluster.from_spec("4x8"), work, Fixed(drawn(1)), until=0.0).state
    assert [sorted(state.held(job).gpus.tolist()) for job in (0,)] == [[4, 8, 8]]


def test_a_state_is_left_as_it_is_when_it_is_made_ready():
    state = crowded(named("fifo+best-fit+easy"))
    before = state.arrays.nodes.copy()
    ready(drawn(), state)
    assert state.arrays.weights.size == 0
    assert (state.arrays.nodes == before).all()
