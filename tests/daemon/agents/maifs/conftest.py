"""A MAIFS that was trained for moments, on a small contended site where CPUs bind."""

from contextlib import contextmanager

import fungible
import pytest
from small import small

pytest.importorskip("torch")


@contextmanager
def smaller():
    """Make its trainings short, its evolution too."""
    from idlewatt.daemon.agents.maifs import train

    with small(), pytest.MonkeyPatch.context() as patch:
        for name, value in {"RULE_EPISODES": 1, "TOGETHER": 1, "REPLAYS": 2, "PAIRS": 1, "EVOLUTION_EPISODES": 1,
                            "IMITATION_STEPS": 60}.items():
            patch.setattr(train, name, value)
        yield


@pytest.fixture(autouse=True)
def tiny():
    with smaller():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Return the folder of a training that ran to its end, and what it told of itself."""
    from idlewatt.daemon.agents.maifs.train import train

    folder = tmp_path_factory.mktemp("maifs")
    with smaller():
        return folder, list(train(fungible.config(folder, steps=2)))
