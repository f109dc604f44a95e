"""A TopDRL that was trained for moments, on a small contended site where distance costs."""

import distant
import pytest
from small import small

from idlewatt.daemon.agents.topdrl.train import train


@pytest.fixture(autouse=True)
def tiny():
    with small():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return the folder of a training that ran to its end, and what it told of itself."""
    folder = tmp_path_factory.mktemp("topdrl")
    with small():
        return folder, list(train(distant.config(folder, steps=4)))
