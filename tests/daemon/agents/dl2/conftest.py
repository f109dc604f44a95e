"""A DL2 that was trained for moments, on a small contended site whose jobs can be resized."""

import pytest
import resizable

from idlewatt.daemon.agents import pieces, policy_gradient
from idlewatt.daemon.agents.dl2.train import train


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
    folder = tmp_path_factory.mktemp("dl2")
    return folder, list(train(resizable.course(folder, steps=2)))
