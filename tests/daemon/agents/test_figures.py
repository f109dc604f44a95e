"""What a replay was worth: relative to another, by the operator's weights."""

import math

import pytest

from idlewatt.daemon.agents.figures import Figures
from idlewatt.daemon.agents.kinds import Objective

ONE = Figures(100.0, 2.0, 40.0, 10.0, None)


def test_the_objective_is_a_weighted_geometric_mean_of_ratios():
    other = Figures(200.0, 2.0, 140.0, 10.0, None)
    assert ONE.relative(other, Objective(1.0, 0.0, 0.0)) == pytest.approx(0.5)
    assert ONE.relative(other, Objective(0.5, 0.0, 0.5)) == pytest.approx(0.5), "waits of 40 s and 140 s, and a minute"
    assert math.prod(pair[0].relative(pair[1], Objective()) for pair in ((ONE, other), (other, ONE))) \
        == pytest.approx(1.0)


def test_wasted_energy_that_nobody_counted_is_no_objective():
    with pytest.raises(ValueError, match="was not counted"):
        ONE.relative(ONE, Objective(energy_wasted=1.0))
