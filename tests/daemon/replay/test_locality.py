"""How much closeness is worth, against the tables that it was taken from."""

from collections import defaultdict

import numpy as np
import pytest

from idlewatt.daemon.replay.locality import APPLICATIONS, slow
from idlewatt.daemon.reproduce.published.pollux_speed import Application, Archive


def test_the_speeds_are_those_of_polluxs_tables(traces):
    tables = Archive(traces / "pollux_osdi21/pollux_osdi21_data.tar.gz")
    for name, ours in zip(APPLICATIONS, slow(), strict=True):
        measured = defaultdict(dict)
        for placement, batch, step, _ in Application.load(tables, name).placements:
            measured[placement][batch] = step
        batch = max(set.intersection(*map(set, measured.values())))
        means = defaultdict(list)
        for placement, steps in measured.items():
            means[len(placement), int(max(placement))].append(steps[batch] / measured["1"][batch])
        theirs = [[np.mean(means[nodes, most]) for most in range(1, 5)] for nodes in range(1, 5)]
        assert ours == pytest.approx(np.array(theirs), abs=0.0051), name
