"""What the scorer is told of jobs: finite whatever is unknown, and the same on a site of any size."""

import numpy as np
import pytest

from idlewatt.daemon.agents.scorer.agent import inputs_of, seconds
from idlewatt.daemon.agents.scorer.network import INPUTS
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.state import ClusterState
from idlewatt.daemon.replay.workload import Workload


def inputs_for(spec="4x8", **columns):
    work = Workload.of([0.0, 1.0], [60.0, 60.0], columns.pop("gpus", [1, 8]), **columns)
    return inputs_of(ClusterState.of(Cluster.from_spec(spec), work))


def column(inputs, name):
    return inputs[:, INPUTS.index(name)]


def test_nothing_known_is_still_numbers():
    inputs = inputs_for()
    assert np.isfinite(inputs).all()
    assert column(inputs, "unforeseen").tolist() == [1.0, 1.0]


@pytest.mark.parametrize("limit", [np.inf, 0.5, 1e12, 3600.0])
def test_absurd_limits_are_still_numbers(limit):
    assert np.isfinite(inputs_for(limit=[limit, limit], prediction=[0.0, 1e9])).all()


def test_a_limit_that_is_always_asked_for_tells_less_than_like_jobs_do():
    known = {"limit": [86400.0] * 2, "prediction": [600.0] * 2, "use": [600 / 86400] * 2}
    guess = seconds(inputs_for(usual=[1.0, 0.0], **known))
    assert guess[0] == pytest.approx(600.0)
    assert guess[1] > 3600


def test_only_the_share_of_the_cluster_depends_on_its_size():
    small, large = inputs_for("4x8"), inputs_for("128x8")
    same = np.array(list(INPUTS)) != "share of the cluster"
    assert (small[:, same] == large[:, same]).all()
    assert column(small, "share of the cluster").tolist() == [1 / 32, 8 / 32]
