from dataclasses import replace

import numpy as np
import pytest
from gate_trials import NEVER, fills, first_day, saves
from null_sites import NULLS, key, site
from null_years import null_energy, null_use

from idlewatt.daemon.agents.kinds import TraceWindow
from idlewatt.daemon.learning.pairs import POWER_DOWN_S, Exam, Pair, replayed, sums
from idlewatt.daemon.learning.promotion_criteria import TRIALS
from idlewatt.daemon.learning.trials import error_of_each
from idlewatt.daemon.policies import named

SIZE, DAYS, SEED = {"nodes": 3, "daily": 40}, 9.0, 4
TRIAL = error_of_each(TRIALS)


def _by_engine(null, load):
    """Return both policies of a null as the gate replays them, and their blocks."""
    cluster, work = site(DAYS, load=load, seed=SEED, **SIZE)
    keys = [key(null, work, np.random.default_rng([SEED, which])) for which in (0, 1)]
    exams = [Exam.of((TraceWindow(cluster, replace(work, priority=-one), 0.0),)) for one in keys]
    ours, theirs = (replayed(named("priority+best-fit+easy"), exam, SEED, power_down_s=POWER_DOWN_S) for exam in exams)
    return ours, theirs, Pair.of(ours, theirs, exams[1])


@pytest.mark.parametrize("null", ["noisy sjf", "time shift"])
def test_energy_of_made_up_years_is_that_of_the_engine(null):
    ours, theirs, pair = _by_engine(null, 0.5)
    made = null_energy(null, SIZE, 0.5, DAYS, SEED)
    assert len(made["edges"]) > 5
    assert made["edges"] == pytest.approx(pair.edges[0])
    for number, one in enumerate((ours, theirs)):
        assert made["jct"][number] == pytest.approx(sums(one.jct, pair.block, pair.blocks))
        assert made["energy"][number] == pytest.approx(one.replays[0].drawn(pair.edges[0], down=True), rel=1e-9)


def test_what_jobs_hold_in_made_up_years_is_that_of_the_engine():
    ours, theirs, pair = _by_engine("noisy sjf", 0.9)
    made = null_use("noisy sjf", SIZE, DAYS, SEED)
    for number, one in enumerate((ours, theirs)):
        assert made["use"][number] == pytest.approx(one.replays[0].filled(pair.edges[0]), rel=1e-9)


@pytest.mark.parametrize("null", NULLS)
def test_equal_policies_are_promoted_in_no_year_for_energy_or_utilisation(null):
    for seed in range(10):
        year = null_energy(null, SIZE, 0.5, 365.0, seed)
        assert first_day(year["edges"], saves(year, TRIAL)) == NEVER
        year = null_use(null, SIZE, 365.0, seed)
        assert first_day(year["edges"], fills(year, TRIAL)) == NEVER


def test_who_takes_a_tenth_less_energy_is_promoted_for_it():
    year = null_energy("noisy sjf", SIZE, 0.5, 90.0, 3)
    year = {**year, "jct": year["jct"][[1, 1]], "energy": year["energy"] * [[0.9], [1.0]]}
    assert first_day(year["edges"], saves(year, TRIAL)) < 60


def test_who_fills_a_tenth_more_is_promoted_for_it_unless_jobs_take_longer():
    year = null_use("noisy sjf", SIZE, 365.0, 3)
    year = {**year, "jct": year["jct"][[1, 1]], "use": year["use"] * [[1.1], [1.0]]}
    assert first_day(year["edges"], fills(year, TRIAL)) < NEVER
    longer = {**year, "jct": year["jct"] * [[1.1], [1.0]]}
    assert first_day(longer["edges"], fills(longer, TRIAL)) == NEVER
