"""A DL2 that was trained for moments, on a small contended site whose jobs can be resized."""

import pytest
import resizable
from small import small

from idlewatt.daemon.agents.dl2.train import train


@pytest.fixture(autouse=True)
def tiny():
    with small():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return the folder of a training that ran to its end, and what it told of itself."""
    folder = tmp_path_factory.mktemp("dl2")
    with small():
        return folder, list(train(resizable.config(folder, steps=2)))
