"""Joint decisions: feasible whatever the state and the weights, coordinated, and defined where input is bad."""

from dataclasses import replace

import numpy as np
import pytest
from rounds import GNMT, RESNET18, SITE, check, drawn, trace

from idlewatt.daemon.agents import checkpoint
from idlewatt.daemon.agents.maifs.graph import LEVELS, conflicts, edges, repair, settle
from idlewatt.daemon.reproduce.evolution import card_of, train
from idlewatt.daemon.reproduce.maifs import graph, kernel, network, observation, placing
from idlewatt.daemon.reproduce.maifs.agent import SCHEMA, ArenaMaifs
from idlewatt.daemon.reproduce.maifs.arena import begin, replay, site_of, watch
from idlewatt.daemon.reproduce.maifs.baselines import Synergy, srsf
from idlewatt.daemon.reproduce.maifs.observation import NODE_WIDTH, PAIR_INPUTS
from idlewatt.daemon.reproduce.maifs.placing import TUNE
from idlewatt.daemon.reproduce.maifs.train import WindowBench, evolution_config, figures, score

STATES = 100_000


def any_weights(seed, scale=1.0):
    return network.unpacked(scale * np.random.default_rng(seed).standard_normal(network.SIZE))


@pytest.mark.parametrize("states", [STATES // 10, pytest.param(STATES, marks=pytest.mark.long)])
def test_no_action_is_infeasible_in_random_states(states):
    draw, sets = np.random.default_rng(0), [any_weights(seed, 10.0 ** (seed % 5 - 2)) for seed in range(50)]
    for block in range(states // 1000):
        count, tasks = 1 + block % 4, 1 + block % 3
        inner, pair = draw.standard_normal((1000, count, graph.HIDDEN)), draw.standard_normal(
            (1000, count, tasks, PAIR_INPUTS))
        able = (draw.random((1000, count, tasks, LEVELS)) < draw.random((1000, 1, 1, 1))) * 1.0
        chosen = np.empty((1000, tasks, 2), np.int64)
        for number in range(1000):
            weights = sets[number % 50]
            utility, factors = graph.rate(inner[number], pair[number], able[number],
                                          graph.Rating(*(weights[name] for name in graph.Rating._fields)))
            joined = edges(inner[number] @ inner[number].T, able[number], np.zeros(count, np.int64))
            settled = settle(utility, joined, conflicts(factors, joined), 4)
            chosen[number] = repair(settled, utility, tasks)
        assert_feasible(chosen, able)


def assert_feasible(chosen, able):
    """Assert of states [state, task, agent and level] that all can be done, none twice, and none is left undone."""
    states, tasks = np.arange(len(chosen))[:, None], np.arange(chosen.shape[1])
    agent, level = chosen[..., 0], chosen[..., 1]
    taken = agent >= 0
    assert (able[states, agent, tasks, level][taken] > 0).all()
    busy = np.zeros(able.shape[:2], int)
    np.add.at(busy, (np.broadcast_to(states, agent.shape)[taken], agent[taken]), 1)
    assert busy.max() <= 1
    idle_and_able = (able.max(axis=3) > 0) & (busy == 0)[:, :, None]
    assert not (idle_and_able.any(axis=1) & ~taken).any()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_whatever_the_weights_no_node_is_overcommitted_and_every_job_ends(seed):
    agent = ArenaMaifs(np.random.default_rng(seed).standard_normal(network.SIZE) * 10.0 ** (seed % 3 - 1),
                       attentive=seed % 2 > 0, coordinated=seed % 3 > 0)
    for round in watch(SITE, drawn(seed), agent):
        check(round)
    assert not np.isnan(round.jobs.end).any()


def test_ties_are_resolved_deterministically():
    weights = network.unpacked(np.zeros(network.SIZE))
    inputs, pair, able = np.zeros((6, NODE_WIDTH)), np.zeros((6, 4, PAIR_INPUTS)), np.ones((6, 4, LEVELS))
    first = network.joint(weights, inputs, pair, able)
    assert first.tolist() == network.joint(weights, inputs, pair, able).tolist()
    assert sorted(first[:, 0].tolist()) == [0, 1, 2, 3]
    same = trace(*[(0, 3000, 2, GNMT)] * 40)
    assert replay(SITE, same, ArenaMaifs()).jct.tolist() == replay(SITE, same, ArenaMaifs()).jct.tolist()


def test_a_task_that_no_node_can_take_is_not_placed():
    inputs, pair, able = np.zeros((3, NODE_WIDTH)), np.zeros((3, 2, PAIR_INPUTS)), np.zeros((3, 2, LEVELS))
    given = network.joint(any_weights(0), inputs, pair, able)
    assert (given[:, 0] == -1).all()


def test_a_full_node_refuses_what_was_accepted_for_it():
    round = begin(SITE, trace((0, 3000, 8, GNMT), (0, 3000, 1, GNMT)))
    taste = np.zeros(3)
    assert observation.accept(round.site, round.jobs, round.nodes, 0, 2, kernel.BEST, taste)
    assert not observation.accept(round.site, round.jobs, round.nodes, 1, 2, kernel.LEAN, taste)
    assert not observation.accept(round.site, round.jobs, round.nodes, 1, 99, kernel.LEAN, taste)


def test_each_of_four_tasks_has_at_most_eight_candidates_of_a_thousand_nodes():
    round = begin(site_of(1000), trace(*[(0, 3000, gpus, GNMT) for gpus in (1, 2, 4, 8)]))
    candidates, asked = np.empty(32, np.int64), np.empty((32, 4), np.int64)
    count = observation.nominate(round.site, round.jobs, round.nodes, np.arange(4), np.empty(1000, np.int64),
                                 candidates, asked)
    assert 8 <= count <= 32
    assert asked[:count].sum(axis=0).tolist() == [8] * 4
    assert len(set(candidates[:count].tolist())) == count


@pytest.mark.parametrize("seed", range(200))
def test_a_task_of_several_nodes_gets_exactly_as_many_as_it_takes_whatever_the_weights(seed):
    draw = np.random.default_rng(seed)
    count = int(draw.integers(2, 40))
    wanted = int(draw.integers(1, count + 1))
    chosen = network.together(any_weights(seed, 10.0 ** (seed % 4 - 2)), draw.standard_normal((count, NODE_WIDTH)),
                              draw.standard_normal((count, 1, PAIR_INPUTS)), draw.integers(0, 4, count), wanted,
                              float(draw.uniform(0, 0.4)), attentive=seed % 2 > 0, coordinated=seed % 3 > 0)
    assert len(set(chosen.tolist())) == wanted
    assert chosen.min() >= 0
    assert chosen.max() < count


def at_two_switches(*held):
    """Return a round on four nodes, two at each leaf switch, with so many GPUs held of each, and a task of two."""
    site = site_of(4, leaf=2)
    round = begin(site, trace(*[(0, 9000, gpus or 1, GNMT) for gpus in held], (0, 9000, 16, GNMT)))
    for node, gpus in enumerate(held):
        if gpus:
            assert observation.accept(site, round.jobs, round.nodes, node, node, kernel.FAIR, np.zeros(3))
    return round


def test_a_task_of_several_nodes_stays_at_one_leaf_switch_if_there_is_room():
    assert sorted(ArenaMaifs().gather(at_two_switches(1, 0, 0, 0), 4).tolist()) == [2, 3]
    assert sorted(ArenaMaifs().gather(at_two_switches(0, 0, 8, 0), 4).tolist()) == [0, 1]


def test_the_graph_moves_a_small_job_rather_than_let_a_task_cross_a_switch():
    apart = at_two_switches(1, 0, 2, 0)
    assert sorted(ArenaMaifs().gather(apart, 4).tolist()) == [0, 1]
    assert sorted(ArenaMaifs(coordinated=False).gather(apart, 4).tolist()) == [1, 3]


def test_a_job_across_leaf_switches_is_slower_by_what_communication_was_measured_to_cost():
    round = at_two_switches(0, 0, 0, 0)
    round.live = np.array([4])
    for chosen, speed in (([0, 1], 1.0), ([1, 2], 1.89 / (1 + 0.89 * 1.2))):
        placing.claim(round.site, round.jobs, round.nodes, np.array([4]), 0, 1, np.array(chosen))
        kernel.update_speeds(round.site, round.jobs, round.nodes, round.live)
        assert round.jobs.speed[4] == pytest.approx(speed, abs=0.01)
        kernel.take_off(round.site, round.jobs, round.nodes, 4)


def test_agents_see_types_sensitivity_watts_and_their_leaf_switch():
    site = site_of(4, leaf=2)
    round = begin(site, trace((0, 9000, 2, RESNET18), (0, 90, 1, GNMT), (0, 600, 4, RESNET18)))
    for job in (0, 1):
        observation.accept(site, round.jobs, round.nodes, job, 1, kernel.BEST, np.zeros(3))
    inputs, pair, able = np.empty((2, NODE_WIDTH)), np.empty((2, 1, PAIR_INPUTS)), np.empty((2, 1, LEVELS))
    asked = observation.CandidatePairs(np.array([2]), np.array([1, 2]), np.ones((2, 1), np.int64))
    observation.observe(site, round.jobs, round.nodes, asked, np.zeros(3), observation.AgentInputs(inputs, pair, able))
    assert inputs[0, 10:13].tolist() == [1 / 8, 1 / 8, 0]  # an image and a language model
    assert inputs[0, 8] == pytest.approx(np.log(9060) / 10)
    assert inputs[0, 9] == pytest.approx((2.4 - 1) * 2 / 8)
    assert inputs[1, 8:10].tolist() == [0, 0]
    assert inputs[1, 13] < inputs[0, 13] < 1  # an empty node draws less, and a full one most
    assert inputs[:, 14].tolist() == [2 / 4, 2 / 4]  # in service at the leaf switch, of all nodes
    assert inputs[:, 15].tolist() == [1 / 2, 1]  # of these empty
    assert pair[0, 0, 8:13] == pytest.approx([np.log(4) / 3, np.log(660) / 10, 1, 0, 0])
    assert pair[0, 0, 13:19] == pytest.approx([0.37 - 1, 0.72 - 1, 0.3, 0.75, 1.4, 0.1 - 1], abs=0.01)
    assert able[1, 0].tolist() == [1, 1, 1]


def test_a_training_never_ends_worse_than_it_began_and_the_same_config_gives_the_same_agent():
    tasks = [(SITE, drawn(seed, 12)) for seed in range(6)]
    bench = WindowBench(lambda number: tasks[number % 4], tasks[4:], Synergy(srsf, TUNE))
    config = replace(evolution_config(1, 2), pairs=2, at_once=2, chosen_every=1)
    first, again = (list(train(config, bench)) for _ in range(2))
    assert [step.round for step in first] == [0, 1, 2]
    assert np.array_equal(first[-1].best, again[-1].best)
    known = [figures(replay(*task, bench.teacher)) for task in bench.judges]
    assert score(ArenaMaifs(first[-1].best), bench.judges, known) == first[-1].least


def test_an_agent_is_kept_whole_with_its_card(tmp_path):
    tasks = [(SITE, drawn(0, 5))]
    bench = WindowBench(lambda number: tasks[0], tasks, Synergy(srsf, TUNE))
    step = next(train(evolution_config(1, 0), bench))
    ArenaMaifs(step.best).save(tmp_path, card_of("maifs", evolution_config(1, 0), step, "log_ratio_to_tune", "made up"))
    kept, _ = checkpoint.load(tmp_path, SCHEMA, like={"maifs": network.initial(0)})
    assert kept["maifs"] == pytest.approx(step.best, abs=1e-6)


def test_the_sort_of_a_queue_by_gpus_is_stable():
    round = begin(SITE, trace(*[(0, 3000, gpus, GNMT) for gpus in (1, 4, 1, 8)]))
    queue = np.empty(9, np.int64)
    assert placing.select(round.site, round.jobs, round.nodes, np.arange(4), queue) == 4
    assert queue[:4].tolist() == [3, 1, 0, 2]
