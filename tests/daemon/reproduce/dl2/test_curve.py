"""The fit of Optimus' curve to measured speeds."""

import numpy as np
import pytest

from idlewatt.daemon.replay.speed import SpeedError
from idlewatt.daemon.reproduce.dl2.curve import Curve, fit


def test_a_fit_finds_the_curve_that_made_the_points():
    truth = Curve(np.array([1.0, 0.05, 0.0, 0.01, 0.0]), 0.0)
    sizes = [1, 2, 4, 8, 16]
    curve = fit(sizes, [truth(size) for size in sizes])
    assert curve.error < 1e-6
    assert curve(12) == pytest.approx(truth(12), rel=1e-6)


def test_a_fit_with_parameter_servers_uses_them():
    truth = Curve(np.array([1.0, 0.05, 0.2, 0.01, 0.02]), 0.0)
    points = [(w, p) for w in (1, 2, 4, 8) for p in (1, 2, 4)]
    curve = fit([w for w, _ in points], [truth(w, p) for w, p in points], [p for _, p in points])
    assert curve(6, 3) == pytest.approx(truth(6, 3), rel=1e-6)


@pytest.mark.parametrize(("sizes", "speeds"), [([1, 2], [1, 2]), ([1, 2, 2], [1, 2, 2]), ([1, 2, 4], [1, 0, 2]),
                                               ([1, 2, 4], [1, float("nan"), 2]), ([1, 2, 4], [1, 2])])
def test_measurements_that_make_no_curve_are_refused(sizes, speeds):
    with pytest.raises(SpeedError):
        fit(sizes, speeds)
