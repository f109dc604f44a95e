"""A TopDRL that was trained for moments, on a small contended site where distance costs."""

import distant
import pytest

from idlewatt.daemon.agents import pieces, policy_gradient
from idlewatt.daemon.agents.topdrl.train import train


@pytest.fixture(scope="session", autouse=True)
def tiny():
    """Make trainings short: shorter pieces, fewer replays of each, fewer steps between looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "JOBS", 80)
        for name, value in {"LESSONS": 2, "TOGETHER": 1, "REPLAYS": 2, "EVERY": 2}.items():
            patch.setattr(policy_gradient, name, value)
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory, tiny):
    """Return the folder of a training that ran to its end, and what it told of itself."""
    folder = tmp_path_factory.mktemp("topdrl")
    return folder, list(train(distant.course(folder, steps=4)))
