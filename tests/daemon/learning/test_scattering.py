"""Spreading jobs over nodes earns nothing: energy is what the wall meter says, with nodes powered down and without."""

import numpy as np
import pytest
from null_sites import site

from idlewatt.daemon import config
from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.promotion import judge
from idlewatt.daemon.learning.promotion_criteria import DOWN, ON, PromotionCriteria
from idlewatt.daemon.learning.training_scheduler import TrainingTask
from idlewatt.daemon.policies import named
from idlewatt.daemon.replay.state import Start
from idlewatt.storage.promotions import Decision

BEST = "fifo+best-fit+easy"
DAY_S = 86400.0


class Scatterer:
    """Starts just the jobs that best fit would, in its order, and those of one node on the emptiest node instead."""

    name = "scatterer"

    def __init__(self) -> None:
        self._base = named(BEST)

    def decide(self, state):
        free, moved = state.arrays.nodes.free_gpus.copy(), []
        for start in self._base.decide(state):
            nodes = start.nodes
            if len(nodes) == 1 and free.max() >= start.gpus[0]:
                nodes = (int(np.argmax(free)),)
            for node, gpus in zip(nodes, start.gpus, strict=True):
                free[node] -= gpus
            if free.min() < 0:
                return tuple(moved)
            moved.append(Start(start.job, nodes, start.gpus))
        return tuple(moved)


@pytest.fixture(scope="module", params=[0.3, 0.8])
def crowd(request):
    cluster, work = site(17.0, nodes=4, daily=40, load=request.param)
    return TraceWindow(cluster, work, DAY_S)


@pytest.mark.parametrize(("after", "counted", "decision"), [
    ("30m", DOWN, Decision.PROMOTE), ("never", ON, Decision.SHADOW), ("null", ON, Decision.SHADOW)])
def test_who_packs_is_promoted_for_energy_where_the_site_powers_empty_nodes_down(after, counted, decision):
    cluster, work = site(45.0, nodes=4, daily=40, load=0.12)
    text = f"counterfactual: {{power_down_after: {after}}}\ntraining: {{terms: {{group: 99, tail: 99}}}}"
    terms = TrainingTask.of(config.parse(text), 0.0).terms
    found = judge(named(BEST), "fifo+random-fit+easy", (), [TraceWindow(cluster, work, DAY_S)], terms=terms)
    energy = found.energy["fifo+random-fit+easy"]
    assert found.decision is decision, found.reason
    assert energy[DOWN].high < 0.98 < energy[ON].low, "both are shown"
    assert terms.counted[0] == counted
    assert (f"energy at the wall, {DOWN}, is {energy[DOWN].said} of that" in found.reason) is (counted == DOWN)


@pytest.mark.parametrize("power_down_s", [None, 1800.0])
@pytest.mark.parametrize("policy", ["fifo+random-fit+easy", "fifo+worst-fit+easy", Scatterer()])
def test_who_scatters_is_never_promoted_over_best_fit(crowd, policy, power_down_s):
    candidate = named(policy) if isinstance(policy, str) else policy
    # As lax as can be: what is left is the proof of being better.
    terms = PromotionCriteria(power_down_s=power_down_s, error=0.025, group=99.0, tail=99.0)
    found = judge(candidate, BEST, (), [crowd], terms=terms)
    assert found.decision is not Decision.PROMOTE, found.reason
    energy = found.energy[BEST]
    assert energy[ON].high > 0.98
    assert energy[DOWN].estimate > 0.995, "it keeps nodes on that could have been powered down"
