"""A group's own runs against what was published of jobs like them."""

import math

import numpy as np
import pytest

from idlewatt.daemon.replay.site_speeds import ENOUGH
from idlewatt.daemon.replay.speed_pooling import COMPANY_DEVIATION, SPREAD, Observed, Profile, pooled, profile

CLOSE, LEAF, SPINE = 0, 2, 3


def runs(factors, number=8, seed=0, **facts):
    """Return so many runs at each level whose speed is that factor of 100 a second, with the assumed spread."""
    random = np.random.default_rng(seed)
    return [Observed(100 * factor * math.exp(SPREAD * random.standard_normal()), "a100", 8, level, **facts)
            for level, factor in factors.items() for _ in range(number)]


def test_without_runs_of_its_own_a_group_has_the_published_profile():
    found = pooled((), profile("bert"))
    assert found.spread["leaf"].source == "prior"
    assert found.spread["leaf"].factor == pytest.approx(math.exp(profile("bert").spread["leaf"].mean))
    assert found.size[1].factor == 1.0
    assert {gpus: round(cell.factor, 2) for gpus, cell in found.size.items()} == {1: 1, 2: 2, 3: 2.91, 4: 3.85}
    assert {cell.source for cell in found.cpus.values()} == {"prior"}


def test_one_effect_is_pooled_by_the_stated_formula():
    # Endless runs close by, n scattered ones without noise: w y + (1 - w) m with w = t^2 / (t^2 + s^2 / n).
    published = profile("bert")
    prior = published.spread["leaf"]
    some = [Observed(100.0, "a100", 8, CLOSE)] * 4000 + [Observed(90.0, "a100", 8, LEAF)] * 5
    found = pooled(some, published)
    weight = prior.deviation**2 / (prior.deviation**2 + found.deviation**2 / 5)
    expected = weight * math.log(0.9) + (1 - weight) * prior.mean
    assert math.log(found.spread["leaf"].factor) == pytest.approx(expected, abs=1e-3)


def test_the_published_profile_counts_less_the_more_runs_there_are():
    truth, prior = 0.95, math.exp(profile("bert").spread["leaf"].mean)
    assert prior < 0.7
    found = [pooled(runs({CLOSE: 1.0, LEAF: truth}, number), profile("bert")).spread["leaf"] for number in (1, 4, 200)]
    assert [cell.source for cell in found] == ["prior", "measured", "measured"]
    once = pooled([Observed(100.0, "a", 4, CLOSE)], profile("bert"))
    assert {cell.source for cell in once.size.values()} == {"prior"}  # of one run nothing is measured
    off = [abs(math.log(cell.factor / truth)) for cell in found]
    assert off[2] < 0.02
    assert found[2].high / found[2].low < found[1].high / found[1].low < found[0].high / found[0].low


def test_intervals_hold_the_truth_as_often_as_they_say():
    held = 0
    for seed in range(200):
        cell = pooled(runs({CLOSE: 1.0, LEAF: 0.8}, 5, seed)).spread["leaf"]
        held += cell.low <= 0.8 <= cell.high
    assert held >= 184  # 95 % of 200, less three deviations


def test_fewer_runs_than_enough_measure_nothing():
    assert ENOUGH == 3
    assert pooled(runs({CLOSE: 1.0, LEAF: 0.5}, 2)).spread == {}
    assert pooled(runs({CLOSE: 1.0, LEAF: 0.5}, 3)).spread["leaf"].source == "measured"


def test_runs_that_nobody_knows_the_place_of_tell_nothing():
    assert pooled([Observed(100.0 * number, "a100", number) for number in (1, 2, 4) for _ in range(5)]).size == {}


def test_gpu_models_are_compared_within_themselves_only():
    fast = [Observed(1000.0, "h100", 8, LEAF)] * 5 + [Observed(1250.0, "h100", 8, CLOSE)] * 5
    slow = [Observed(100.0, "v100", 8, CLOSE)] * 40
    assert pooled(fast + slow).spread["leaf"].factor == pytest.approx(0.8, abs=0.03)


def test_a_larger_size_that_is_always_scattered_is_not_mistaken_for_either():
    # 16 GPUs always span two nodes, 8 never: what that costs belongs to the size. What a spine costs does not.
    some = [Observed(800.0, "a", 8, CLOSE)] * 10 + [Observed(1200.0, "a", 16, LEAF)] * 100
    some += [Observed(600.0, "a", 16, SPINE)] * 100
    found = pooled(some)
    assert found.size[8].factor == pytest.approx(800 / 1200, rel=0.02)
    assert (found.spread["leaf"].factor, found.spread["leaf"].source) == (1.0, "measured")
    assert found.spread["spine"].factor == pytest.approx(0.5, rel=0.02)
    assert found.spread["spine"].source == "measured"


def test_levels_are_crossed_one_after_the_other():
    found = pooled(runs({CLOSE: 1.0, LEAF: 0.8, SPINE: 0.4}, 40)).spread
    assert [round(found[level].factor, 1) for level in ("leaf", "spine")] == [0.8, 0.4]
    assert "further" not in found


def test_what_neighbours_cost_is_told_apart_from_distance():
    random = np.random.default_rng(2)
    some = []
    for number in range(60):
        level, beside = (LEAF if number % 2 else CLOSE), float(number % 3 == 0)
        speed = 100 * (0.8 if level else 1.0) * (0.7 if beside else 1.0)
        some.append(Observed(speed * math.exp(SPREAD * random.standard_normal()), "a", 8, level, {4: beside}))
    found = pooled(some)
    assert found.spread["leaf"].factor == pytest.approx(0.8, abs=0.05)
    assert found.company[4].factor == pytest.approx(0.7, abs=0.05)
    assert found.company[4].source == "measured"


def test_a_neighbour_that_cannot_be_told_from_none_costs_nothing():
    some = runs({CLOSE: 1.0}, 20, 1, company={3: 1.0}) + runs({CLOSE: 1.0}, 20, 2)
    cell = pooled(some).company[3]
    assert cell.factor == 1.0
    assert cell.low < 1.0 <= cell.high
    assert COMPANY_DEVIATION < 1


def test_cpus_are_measured_where_like_jobs_had_different_numbers():
    some = runs({CLOSE: 1.0}, 20, 1, cpus=8.0) + runs({CLOSE: 0.6}, 6, 2, cpus=2.0)
    found = pooled(some, Profile()).cpus
    assert found[8.0].factor == 1.0
    assert found[2.0].factor == pytest.approx(0.6, abs=0.06)


def test_the_order_of_runs_makes_no_difference():
    some = runs({CLOSE: 1.0, LEAF: 0.8, SPINE: 0.6}, 6)
    assert pooled(some).spread["spine"].factor == pytest.approx(pooled(some[::-1]).spread["spine"].factor)
