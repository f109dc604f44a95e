"""What must not become much worse: agents on made-up sites that help everybody, and some that harm a few.

``tests/benchmarks/gate.py bounds`` has a hundred histories of each.
"""

from dataclasses import replace

import pytest
from null_sites import looking_at_limits, site

from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.pairs import Exam, Pair, replayed
from idlewatt.daemon.learning.promotion_criteria import ASSUMED
from idlewatt.daemon.policies import named

SEEDS = range(3)


def against_fifo(seed, *agent, nodes=8, daily=300, days=75.0):
    """Return an agent that looks at limits beside FIFO, and who is looked at."""
    cluster, work = site(days, seed=seed, nodes=nodes, daily=daily)
    exams = [Exam.of((TraceWindow(cluster, one, 0.0),))
             for one in (replace(work, priority=-looking_at_limits(work, *agent)), work)]
    runs = [replayed(named(f"{order}+best-fit+easy"), exam, 0)
            for order, exam in zip(("priority", "fifo"), exams, strict=True)]
    return Pair.of(*runs, exams[1]), dict(exams[1].groups())


@pytest.fixture(scope="module")
def helpful():
    return [against_fifo(seed, 0.2) for seed in SEEDS]


@pytest.mark.long
def test_one_that_helps_everybody_is_surely_within_all_bounds_as_soon_as_it_is_surely_better(helpful):
    better = [(pair, groups) for pair, groups in helpful if pair.jct().below(ASSUMED.error)]
    assert len(better) >= 2
    for pair, groups in better:
        assert all(pair.jct(members, ASSUMED.group).bounded(ASSUMED.error) for members in groups.values())
        assert pair.energy(down=False, bound=1 / ASSUMED.saving).bounded(ASSUMED.error)
        tail = pair.tail(ASSUMED.tail_floor_s, ASSUMED.tail)
        assert tail.known
        assert tail.within > 1.0


def test_one_that_lets_a_third_of_the_users_wait_is_not_within_their_bound():
    for seed in SEEDS:
        pair, groups = against_fifo(seed, 0.3, 6 * 3600.0, 0)
        light = pair.jct(groups["light users"], ASSUMED.group)
        assert not light.bounded(ASSUMED.error)
        assert light.estimate > pair.jct().estimate


def test_one_that_makes_the_longest_waits_longer_is_not_within_their_bound_whatever_their_estimate():
    found = [against_fifo(seed, 8.0, nodes=4, daily=120)[0] for seed in range(5)]
    tails = [pair.tail(ASSUMED.tail_floor_s, ASSUMED.tail) for pair in found]
    assert not any(tail.bounded(ASSUMED.error) for tail in tails)
    assert any(tail.total < ASSUMED.tail for tail in tails), "which let such agents pass"
