"""How many tasks a second DL2's agent and our rule decide on, in whole replays, and how soon a teacher is matched."""

import time
from itertools import islice

import pytest

from idlewatt.daemon.reproduce.dl2.agent import FlatAgent
from idlewatt.daemon.reproduce.dl2.arena import cluster, mean_jct, replay, traces
from idlewatt.daemon.reproduce.dl2.network import NetworkSize
from idlewatt.daemon.reproduce.dl2.rule import LookAhead

BOUND = 50_000.0
WITHIN, LONGEST_S = 1.02, 120.0
SITE = cluster(8)


def full_handed(seed=0):
    """Return DL2's own agent, untaught, who never ends a slot before nothing fits."""
    agent = FlatAgent.fresh(NetworkSize(), seed)
    agent.weights["out.bias"][-1] = -100.0
    return agent


@pytest.mark.parametrize("make", [LookAhead, lambda: LookAhead(plans=64), full_handed],
                         ids=["our rule", "looking ahead", "DL2's own"])
def test_an_agent_decides_fifty_thousand_times_a_second(make):
    trace = next(traces())
    replay(SITE, trace, make())
    agent, started = make(), time.perf_counter()
    for _ in range(3):
        replay(SITE, trace, agent)
    rate = agent.decisions / (time.perf_counter() - started)
    print(f"{rate:,.0f} decisions/s, {rate / BOUND:.1f} x the bound")
    assert rate > BOUND


@pytest.mark.parametrize("teacher", ["DRF", "max-relative-gain (oracle)"])
def test_a_teacher_is_reached_within_two_percent_in_two_minutes(teacher):
    train = pytest.importorskip("idlewatt.daemon.reproduce.dl2.train")
    literal = pytest.importorskip("idlewatt.daemon.reproduce.dl2.literal")
    training = train.SlotTraining(train.Dl2TrainingConfig(SITE, literal.TEACHERS[teacher], updates=0))
    *_, step = training.run()
    taught = mean_jct(SITE, literal.TEACHERS[teacher], islice(traces(), 10)).mean()
    learned = mean_jct(SITE, training.agent, islice(traces(), 10)).mean()
    print(f"{learned:.3f} slots, {learned / taught:.3f} of {teacher}'s; {step.spent_s:.0f} s of {LONGEST_S:.0f}")
    assert learned <= WITHIN * taught
    assert step.spent_s < LONGEST_S
