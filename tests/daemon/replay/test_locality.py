"""How much closeness is worth, against the tables that it was taken from."""

import os
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest

from idlewatt.daemon.replay.locality import APPLICATIONS, slow
from idlewatt.daemon.reproduce.published.pollux_speed import Application, Archive

TRACES = Path(os.environ.get("IDLEWATT_TRACES") or Path(__file__).parents[4] / "shared/traces")


def test_the_speeds_are_those_of_polluxs_tables():
    archive = TRACES / "pollux_osdi21/pollux_osdi21_data.tar.gz"
    if not archive.exists():
        pytest.skip("Pollux's tables are not here")
    tables = Archive(archive)
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
