"""DL2 as a policy: whose size it changes, what it is shown, and when it abstains."""

from dataclasses import replace

import numpy as np
import pytest
from resizable import SITE, workload

from idlewatt.daemon.agents.checkpoint import CheckpointError
from idlewatt.daemon.agents.dl2 import agent as dl2
from idlewatt.daemon.agents.dl2.agent import DL2, SLOT_S, SchedulingRound
from idlewatt.daemon.agents.dl2.network import NET, Sizing
from idlewatt.daemon.agents.dl2.train import gainful, oldest, sharing
from idlewatt.daemon.agents.observation import observe
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.engine import run
from idlewatt.daemon.replay.moves import join
from idlewatt.daemon.replay.speed import FLAT
from idlewatt.daemon.replay.state import ClusterState, Resize, Start
from idlewatt.daemon.replay.workload import Workload
from idlewatt.storage.records import ModelCard

CARD = ModelCard("dl2", "1", 1e9, 0, "0.1.0", "", "", kind="dl2")
HOUR_S = 3600.0


def by(rule, **more):
    return DL2(np.zeros(NET.size), CARD, choose=lambda now, rows: rule(rows), **more)


def random_agent(seed):
    return DL2(np.random.default_rng(seed).normal(size=NET.size), CARD)


def waiting(gpus, *, nodes="2x8", known=SITE.table, now=60.0, run_s=HOUR_S, **columns):
    columns = {"application": 1, "application_names": SITE.labels, "minimum": np.maximum(1, np.array(gpus) // 4),
               "maximum": np.minimum(8, 4 * np.array(gpus)), **columns}
    work = Workload.of(np.zeros(len(gpus)), np.full(len(gpus), run_s), gpus, **columns)
    state = ClusterState.of(Cluster.from_spec(nodes), work, speed=SITE.table, known=known)
    for job in range(len(gpus)):
        join(state.arrays, job)
    state.arrays.clock[0] = now
    return state


@pytest.mark.parametrize("seed", range(3))
def test_whatever_the_weights_every_job_runs_where_it_may(seed):
    done = run(Cluster.from_spec("4x8"), workload(60, seed), random_agent(seed), speed=SITE.table, resize_s=60.0)
    assert not np.isnan(done.end).any()


def test_a_job_that_gains_gets_more_and_one_that_does_not_stays_small():
    started = by(gainful).decide(waiting([4, 4], application=[1, 2]))
    assert {action.job: sum(action.gpus) for action in started} == {0: 8, 1: 2}


def test_what_every_job_asked_for_is_a_rule_of_its_own():
    assert [sum(action.gpus) for action in by(oldest).decide(waiting([4, 4]))] == [4, 4]


def test_a_running_job_gives_up_gpus_once_its_slot_is_over_and_not_before():
    state = waiting([8, 4], nodes="1x8")
    state.apply([Start(0, (0,), (8,))])
    assert list(by(sharing).decide(state)) == []
    state.arrays.clock[0] += SLOT_S
    actions = by(sharing).decide(state)
    assert [type(action) for action in actions] == [Resize, Start]
    assert sum(actions[0].gpus) == 4
    state.apply(actions)


def test_of_whom_no_curve_is_known_the_size_is_what_it_asked_for():
    state = waiting([4, 4], application=[0, 0])
    assert [sum(action.gpus) for action in by(gainful).decide(state)] == [4, 4]
    assert Sizing.of(observe(state), np.arange(2), np.arange(0)).most.tolist() == [4, 4]


def test_who_has_waited_for_too_long_goes_first_and_is_waited_for():
    state = waiting([8, 8, 1], nodes="1x8", minimum=[8, 8, 1], now=HOUR_S)
    state.apply([Start(0, (0,), (8,))])
    state.arrays.clock[0] = 3 * HOUR_S
    assert list(by(gainful, longest_wait_s=HOUR_S).decide(state)) == []


def test_nobody_overtakes_who_has_waited_for_too_long_and_finds_its_gpus_free_but_scattered():
    sizes = [4, 4, 4, 2, 8, 1]
    state = waiting(sizes, nodes="3x8", minimum=sizes, maximum=sizes)
    state.apply([Start(job, (job,), (4,)) for job in range(3)])
    state.arrays.clock[0] = 3 * HOUR_S
    assert [action.job for action in by(oldest, longest_wait_s=HOUR_S).decide(state)] == [3]
    assert [action.job for action in by(oldest, longest_wait_s=9 * HOUR_S).decide(state)] == [3, 5]


def test_no_late_job_grows_into_the_room_of_another():
    sizes = [4, 5, 7, 4, 4]
    state = waiting(sizes, nodes="3x8", minimum=[4, 5, 7, 2, 4], maximum=sizes)
    state.apply([Start(job, (job,), (sizes[job],)) for job in range(3)])
    state.arrays.clock[0] = 3 * HOUR_S
    actions = by(gainful, longest_wait_s=HOUR_S).decide(state)
    assert {action.job: action.nodes for action in actions} == {3: (1,), 4: (0,)}


def test_what_it_is_shown_does_not_depend_on_the_truth():
    rows = []
    for speed, run_s in ((SITE.table, HOUR_S), (FLAT, 2 * HOUR_S)):
        state = waiting([4, 2, 8], run_s=run_s, prediction=HOUR_S, limit=9 * HOUR_S)
        state = ClusterState.of(state.cluster, state.workload, speed=speed, known=SITE.table)
        for job in range(3):
            join(state.arrays, job)
        state.arrays.clock[0] = 60.0
        state.apply([Start(0, (0,), (4,))])
        state.arrays.clock[0] += 2 * SLOT_S
        scheduling_round = SchedulingRound(observe(state), 1e9)
        jobs, after = scheduling_round._possible()
        rows.append(scheduling_round._steps.rows(jobs, scheduling_round.given[jobs], after, 3, scheduling_round.given))
    assert np.array_equal(*rows)
    assert len(rows[0]) == 5  # two start, the one that runs grows or shrinks, or nothing is done


def test_it_abstains_where_sizes_or_their_speeds_are_not_known():
    assert random_agent(0).doubt(waiting([4, 4])) is None
    reason = random_agent(0).doubt(waiting([4, 4], known=FLAT))
    assert reason == "the speed of */bert on other numbers of GPUs is not known"
    rigid = waiting([4, 4], minimum=4, maximum=4)
    assert random_agent(0).doubt(rigid) == "no waiting job may have another number of GPUs than it asks for"
    narrow = DL2(np.ones(NET.size), replace(CARD, seen={"nodes": (64.0, 64.0)}))
    assert "2 nodes are open" in narrow.doubt(waiting([4]))


def test_reasons_say_what_other_sizes_would_bring():
    reasons = random_agent(0).reasons(waiting([4]), 0)
    assert reasons[0] == "on 8 GPUs it would run 1.84 times as fast; only a pending job can get another size"


def test_an_agent_of_older_inputs_is_refused(tmp_path, monkeypatch):
    dl2.save(tmp_path, random_agent(1).weights, CARD, 1e6)
    assert dl2.load(tmp_path).longest_wait_s == 1e6
    monkeypatch.setattr(dl2, "schema", lambda: {"agent": "dl2", "inputs": ["an older one"]})
    with pytest.raises(CheckpointError, match="trained for other inputs"):
        dl2.load(tmp_path)
