"""DL2's agent on fungible jobs: what it may never do, what its actions are, and that it learns."""

from dataclasses import replace

import numpy as np
import pytest
from rounds import ALEXNET, GNMT, RESNET18, SITE, check, drawn, trace

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.reproduce.dl2.agent import trail
from idlewatt.daemon.reproduce.dl2.flat_kernel import Trail
from idlewatt.daemon.reproduce.dl2.network import desk
from idlewatt.daemon.reproduce.maifs import dl2_kernel, kernel
from idlewatt.daemon.reproduce.maifs.arena import begin, replay, site_of, watch
from idlewatt.daemon.reproduce.maifs.baselines import RandomFeasible, Synergy, baselines, fifo, srsf
from idlewatt.daemon.reproduce.maifs.dl2 import USUAL, Dl2, Shape, most_decisions, slot
from idlewatt.daemon.reproduce.maifs.dl2_kernel import BUNDLE, PER_JOB, SERVER, WORKER
from idlewatt.daemon.reproduce.maifs.placing import TUNE

SMALL = Shape(window=6, hidden=8)


def any_agent(seed, scale=1.0, shape=SMALL):
    draw = np.random.default_rng(seed)
    agent = Dl2.fresh(shape, seed)
    agent.weights = {name: (scale * draw.standard_normal(array.shape)).astype(np.float32)
                     for name, array in agent.weights.items()}
    return agent


def never_ending(agent):
    """Return an agent that ends no part of a round by itself."""
    agent.weights["out.bias"][-1] = -1e6
    return agent


def decided(agent, round):
    """Return the actions that an agent took in a round."""
    agent.trail = trail(agent.shape, most_decisions(round))
    agent.decide(round)
    return agent.trail.actions[:agent.trail.taken[0]].tolist()


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 8))])
def test_whatever_the_weights_no_node_is_overcommitted_and_every_job_ends(seed):
    agent = never_ending(any_agent(seed, 10.0 ** (seed % 3 - 1)))
    for round in watch(SITE, drawn(seed), agent):
        check(round)
    assert not np.isnan(round.jobs.end).any()


@pytest.mark.parametrize("seed", range(4))
def test_whoever_samples_and_explores_takes_only_what_is_open(seed):
    random = np.random.default_rng(seed)
    agent = Dl2.fresh(SMALL, seed)
    agent.draw, agent.exploration, agent.trail = random.random, 0.4, trail(SMALL, 20_000)
    for round in watch(SITE, drawn(seed), agent):
        check(round)
    taken = int(agent.trail.taken[0])
    assert taken == agent.decisions > 100
    assert agent.trail.allowed[np.arange(taken), agent.trail.actions[:taken]].all()
    assert (agent.trail.chances[:taken] > 0).all()


def test_a_bundle_starts_a_job_and_grants_give_it_more_until_nothing_helps():
    round = begin(site_of(1), trace((0, 3000, 1, RESNET18), (0, 3000, 1, ALEXNET), (0, 3000, 1, GNMT)))
    round.live = np.arange(3)
    actions = decided(never_ending(any_agent(1)), round)
    assert [action % 3 for action in actions[:3]] == [BUNDLE] * 3
    jobs = round.jobs
    assert jobs.speed.tolist() == [round.site.rates[jobs.model[job], 1].max() for job in range(3)]
    assert (jobs.cpus[2], jobs.memory[2]) == (1, 1)  # a language model needs no more than its bundle
    assert any(action % 3 == WORKER for action in actions[3:])


@pytest.mark.parametrize(("cpus", "memory", "worth_having"), [
    (1, 3, {WORKER, BUNDLE}), (12, 3, {SERVER}), (9, 6, {WORKER}), (24, 24, set()),
    (9, 3, {BUNDLE})])  # neither more CPUs nor more memory help alone
def test_what_is_worth_having_depends_on_what_a_job_has(cpus, memory, worth_having):
    round = begin(site_of(1), trace((0, 3000, 1, ALEXNET)))
    kernel.put(round.jobs, round.nodes, 0, 0, cpus, memory)
    assert worth_having == {what for what in (WORKER, SERVER, BUNDLE)
                            if dl2_kernel.next_grant(round.site, round.jobs, round.nodes, 0, what) >= 0}


def test_the_window_holds_those_submitted_first_who_may_have_something():
    round = begin(SITE, trace(*[(job, 3000, 1, GNMT) for job in range(20)]))
    round.live = np.arange(20)
    seen, had = desk(SMALL), slot(round)
    dl2_kernel.begin(SITE, round.nodes, had)
    for job in (0, 2):
        dl2_kernel.choose_job(SITE, round.jobs, had, job)
    count = dl2_kernel.look(SITE, round.jobs, round.nodes, round.live, 300.0, had, False, seen)
    assert seen.seen.tolist() == [1, 3, 4, 5, 6, 7]
    assert count == 6
    assert np.flatnonzero(seen.allowed).tolist() == [2, 5, 8, 11, 14, 17, 18]
    rows = seen.state.reshape(6, PER_JOB)
    assert (rows[:, GNMT] == 1).all()
    assert (np.diff(rows[:, dl2_kernel.KINDS + 1]) < 0).all()  # time in the system


def test_bundles_are_given_only_while_gpus_last_and_large_jobs_count_whole_nodes():
    round = begin(SITE, trace((0, 3000, 17, GNMT), (0, 3000, 8, GNMT), (0, 3000, 1, GNMT)))
    round.live = np.arange(3)
    had, seen = slot(round), desk(SMALL)
    dl2_kernel.begin(SITE, round.nodes, had)
    dl2_kernel.choose_job(SITE, round.jobs, had, 0)
    assert had.left.tolist() == [8]
    dl2_kernel.choose_job(SITE, round.jobs, had, 1)
    assert dl2_kernel.look(SITE, round.jobs, round.nodes, round.live, 0.0, had, False, seen) == 0


def test_who_is_chosen_again_stays_where_it_was_and_who_is_not_goes():
    round = begin(site_of(2), trace((0, 3000, 8, GNMT), (0, 3000, 4, GNMT), (0, 3000, 8, GNMT)))
    round.live = np.arange(3)
    kernel.put(round.jobs, round.nodes, 0, 1, 8, 8)
    kernel.put(round.jobs, round.nodes, 1, 0, 4, 4)
    had = slot(round)
    dl2_kernel.begin(round.site, round.nodes, had)
    for job in (2, 0):
        dl2_kernel.choose_job(round.site, round.jobs, had, job)
    dl2_kernel.seat(round.site, round.jobs, round.nodes, round.live, had)
    assert round.jobs.node.tolist() == [1, kernel.WAITING, 0]


def test_what_a_teacher_did_is_written_down_as_open_actions_and_left_as_it_was():
    for seed in range(5):
        told = []
        teacher = Following(Synergy(srsf, TUNE), told)
        theirs = replay(SITE, drawn(seed, 25), teacher)
        assert np.array_equal(theirs.jct, replay(SITE, drawn(seed, 25), Synergy(srsf, TUNE)).jct)  # nothing is left
        for served, taken in told:
            assert taken.allowed[np.arange(len(taken.actions)), taken.actions].all()
            assert (taken.actions % 3 == BUNDLE)[:served].all()
            assert (taken.actions < 3 * Shape(40).window).all()  # a round's end is never shown


class Following:
    """A teacher whose rounds are written down, with how many it serves."""

    def __init__(self, teacher, told):
        self.teacher, self.told = teacher, told

    def decide(self, round):
        self.teacher.decide(round)
        before = [array.copy() for array in (*round.jobs, *round.nodes)]
        shape, served = Shape(40), round.live[round.jobs.node[round.live] >= 0]
        told = trail(shape, most_decisions(round))
        dl2_kernel.rebuild(round.site, round.jobs, round.nodes, round.live, served,
                           np.stack([round.jobs.cpus, round.jobs.memory], axis=1), round.now, slot(round),
                           desk(shape), told)
        for array, kept in zip((*round.jobs, *round.nodes), before, strict=True):
            assert np.array_equal(array, kept, equal_nan=True)
        taken = int(told.taken[0])
        self.told.append((len(served), Trail(*(column[:taken] for column in told[:-1]), told.taken)))


def test_a_cluster_of_128_nodes_with_hundreds_of_jobs_is_served():
    crowd = drawn(3, 600)
    found = replay(site_of(128), crowd._replace(submit=np.zeros(600)), never_ending(any_agent(0, 0.1, USUAL.shape)))
    assert np.isfinite(found.jct).all()


def test_an_agent_comes_back_from_disk_but_not_for_another_window(tmp_path):
    pytest.importorskip("torch")
    from idlewatt.daemon.reproduce.maifs import dl2_train

    training = dl2_train.Training(course(updates=0))
    list(training.run())
    training.agent.save(tmp_path, dl2_train.card_of(training, "made up"))
    loaded = Dl2.load(tmp_path, SMALL)
    assert all(np.array_equal(array, training.agent.weights[name]) for name, array in loaded.weights.items())
    with pytest.raises(CheckpointError, match="train it anew"):
        Dl2.load(tmp_path, replace(SMALL, window=7))


def course(**changes):
    """Return a course on made-up windows, of seconds."""
    from idlewatt.daemon.reproduce.maifs.dl2_train import GrantTrainingConfig

    values = replace(USUAL, shape=SMALL, imitated=2, imitation_updates=100, memory=512, batch=32)
    tasks = [(SITE, drawn(seed, 15)) for seed in range(5)]
    return replace(GrantTrainingConfig(lambda number: tasks[number % 3], tasks[3:], Synergy(srsf, TUNE), values=values,
                          noted_every=1, updates=20, judged_every=10), **changes)


def test_a_training_keeps_the_best_and_the_same_course_gives_the_same_agent():
    pytest.importorskip("torch")
    from idlewatt.daemon.reproduce.maifs.dl2_train import Training

    first, again = Training(course()), Training(course())
    steps, others = list(first.run()), list(again.run())
    assert [step.update for step in steps] == [0, 10, 20]
    assert [step.score for step in steps] == [step.score for step in others]
    assert all(np.array_equal(array, again.agent.weights[name]) for name, array in first.agent.weights.items())
    assert any(not np.array_equal(array, Dl2.fresh(SMALL, 1).weights[name])
               for name, array in first.agent.weights.items())


def test_what_was_imitated_is_nearer_to_its_teacher_than_first_come_first_served_and_chance():
    pytest.importorskip("torch")
    from idlewatt.daemon.reproduce.maifs.dl2_train import Training

    tasks = [(SITE, drawn(seed, 60, most=4)._replace(submit=np.zeros(60))) for seed in range(6)]
    values = replace(USUAL, shape=Shape(window=30, hidden=64), imitated=4, imitation_updates=600)
    training = Training(course(values=values, draw=lambda number: tasks[number % 4], judges=tasks[4:], updates=0))
    list(training.run())

    def jct(policy):
        return np.mean([replay(*task, policy).jct.mean() for task in tasks[4:]])

    ours, theirs = jct(training.agent), jct(Synergy(srsf, TUNE))
    assert ours - theirs < 0.5 * (jct(Synergy(fifo, TUNE)) - theirs)
    assert ours < jct(RandomFeasible(0))


def test_jobs_are_shuffled_with_what_is_open_to_them_and_what_was_done():
    pytest.importorskip("torch")
    from idlewatt.daemon.reproduce.maifs.dl2_train import shuffled

    states = np.zeros((50, 4, PER_JOB), np.float32)
    states[:, :3, 0], states[:, :3, -1] = 1.0, np.arange(3)  # one row is empty
    allowed = np.zeros((50, 13), np.bool_)
    allowed[:, [1, 3, 8, 12]] = True
    actions = np.tile([1, 3, 8, 1, 3], 10)
    mixed, open_, taken = shuffled(states.reshape(50, -1), allowed, actions, np.random.default_rng(0))
    mixed = mixed.reshape(50, 4, PER_JOB)
    assert (mixed[:, 3] == 0).all()
    assert (mixed[np.arange(50), taken // 3, -1] == actions // 3).all()
    assert (taken % 3 == actions % 3).all()
    assert open_[np.arange(50), taken].all()
    assert (open_.sum(axis=1) == 4).all()
    assert len({tuple(row) for row in mixed[:, :, -1].tolist()}) > 3


def test_a_teacher_that_never_starts_anything_is_refused():
    pytest.importorskip("torch")
    from idlewatt.daemon.agents.kinds import TrainingError
    from idlewatt.daemon.reproduce.maifs import dl2_train

    class Idle:
        def decide(self, round):
            pass

    with pytest.raises(TrainingError, match="the teacher starts no job"):
        dl2_train.lessons(course(teacher=Idle()))


def test_without_the_learned_ones_no_baseline_is_called_after_dl2():
    assert not any("DL2" in name for name in baselines())
