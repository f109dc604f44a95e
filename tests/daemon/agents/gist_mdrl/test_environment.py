"""The paper's episodes, checked by hand on Fig. 3 and by properties on all of them."""

import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import idlewatt.daemon.agents.gist_mdrl as package
import idlewatt.daemon.reproduce.gist as reproduction
from idlewatt.daemon.agents.gist_mdrl.environment import (
    A100,
    FIGURE_3_HOURS,
    HOUR_S,
    V100,
    Environment,
    Reading,
    utilization,
)

S, M, L = range(3)
DAY_S = 24 * HOUR_S


def play(partition, flavors, choose, reading=None):
    environment = Environment(partition, reading or Reading())
    decision, rewards = environment.reset(flavors), []
    while decision is not None:
        server = choose(decision)
        reward, decision = environment.step(6 + decision.flavor if server is None else 2 * decision.flavor + server)
        rewards.append(reward)
    return environment.outcome, rewards


def first_fit(decision):
    return decision.room.index(True) if any(decision.room) else None


def second_job_to_the_second_server(decision):
    return 1 if decision.flavor == M else first_fit(decision)


def test_table_2_is_the_papers():
    assert [(flavor.name, flavor.gpus, flavor.cpus, flavor.memory_bytes // 10**9, flavor.limit_s / HOUR_S, flavor.rate)
            for flavor in (*V100.flavors, V100.terminal)] == [
        ("s-V100", 2, 20, 128, 72, 0.125), ("m-V100", 4, 40, 256, 168, 0.25), ("l-V100", 8, 80, 512, 336, 0.5),
        ("f-V100", 16, 160, 1024, 504, 1.0)]
    assert A100.server == (8, 256, 1024 * 10**9)


@pytest.mark.parametrize(("hours", "default", "proposed"), [(FIGURE_3_HOURS, 31, 27), ((72, 168, 336, 504), 42, 38)])
def test_figure_3_ends_on_the_days_that_the_paper_says(hours, default, proposed):
    partition = A100.with_limits(*hours)
    case_1, _ = play(partition, (S, M, M, L), first_fit)
    case_2, _ = play(partition, (S, M, M, L), second_job_to_the_second_server)
    assert case_1.makespan_s == default * DAY_S + HOUR_S  # t1 is an hour after t0
    assert case_2.makespan_s // DAY_S == proposed
    assert case_2.utilization > case_1.utilization


def test_rewards_are_minus_one_zero_or_the_utilisation():
    choices = iter([0, 0, None, None, None, 0, 1, 0, 1])
    _, rewards = play(A100, (L, L, M, L), lambda decision: next(choices))
    assert rewards[:4] == [0.5, -1.0, -1.0, -1.0]  # placed; no room there; queued twice though server 1 has room


def test_queueing_without_room_costs_nothing():
    _, rewards = play(A100, (L, L, M, S), first_fit)
    assert rewards[2:4] == [0.0, 0.0]


def test_the_first_job_is_worth_its_rate_for_its_share_of_no_time_is_undefined():
    assert utilization([(0.25, 5.0, 10.0)], 5.0) == 0.25
    assert utilization([], 5.0) == 0.0
    assert utilization([(0.5, 0.0, 10.0), (1.0, 10.0, 20.0)], 20.0) == pytest.approx(0.75)


def test_the_queue_is_largest_first_and_the_rest_need_not_wait():
    outcome, _ = play(A100, (L, L, M, L), first_fit)
    started = [(bar.flavor.name, bar.start_s / HOUR_S) for bar in outcome.bars]
    assert started == [("l-A100", 0), ("l-A100", 1), ("l-A100", 336), ("m-A100", 337), ("f-A100", 672)]


def test_the_terminal_job_overtakes_what_nobody_starts():
    outcome, _ = play(A100, (S, S, S, S), lambda decision: None if decision.dequeued else 0)
    everything_at_once = outcome.bars
    assert outcome.terminal_start_s == max(bar.end_s for bar in everything_at_once if bar.server >= 0)
    held, _ = play(A100, (S, S, S, S), lambda decision: None)
    assert held.bars[0].flavor is A100.terminal
    assert held.utilization == 0.0
    assert held.makespan_s > held.bars[0].end_s


def test_a_blocking_queue_starts_the_terminal_job_before_what_it_holds_back():
    waiting, _ = play(A100, (L, L, M, L), first_fit, Reading(blocking=True))
    assert waiting.bars[2].flavor is A100.terminal


def test_an_action_of_another_flavour_is_refused():
    environment = Environment(A100)
    environment.reset((S, S, S, S))
    with pytest.raises(ValueError, match="action 5 is not one for a s-A100 job"):
        environment.step(5)
    with pytest.raises(RuntimeError, match="has not ended"):
        _ = environment.outcome


@settings(max_examples=60, deadline=None)
@given(flavors=st.lists(st.integers(0, 2), min_size=1, max_size=6), data=st.data(),
       gap=st.sampled_from([0.0, HOUR_S, DAY_S]), blocking=st.booleans(), again=st.booleans())
def test_no_policy_breaks_the_books(flavors, data, gap, blocking, again):
    outcome, rewards = play(A100, flavors, lambda _: data.draw(st.sampled_from([None, 0, 1])),
                            Reading(gap, blocking, again))
    assert len(outcome.bars) == len(flavors) + 1
    assert 0.0 <= outcome.utilization <= 1.0
    assert 0.0 < outcome.utilization_at_end <= 1.0
    assert all(reward in (-1.0, 0.0) or 0.0 < reward <= 1.0 for reward in rewards)
    for bar in outcome.bars:
        beside = [other for other in outcome.bars if other.server in (bar.server, -1) or bar.server == -1
                  if other.start_s <= bar.start_s < other.end_s]
        assert sum(other.flavor.gpus for other in beside) <= (16 if bar.server == -1 else 8)


def test_each_of_the_18_ambiguities_is_decided_where_it_is_implemented():
    decided = re.findall(r"(?<![\w\])])\[(\d+)\]", "".join(
        path.read_text(encoding="utf-8") for room in (package, reproduction)
        for path in Path(room.__file__).parent.rglob("*.py")))
    assert {int(number) for number in decided} >= set(range(1, 19))
