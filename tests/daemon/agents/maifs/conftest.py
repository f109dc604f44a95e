"""A MAIFS that was trained for moments, on a small contended site where CPUs bind."""

import fungible
import pytest
from small import small

pytest.importorskip("torch")


@pytest.fixture(scope="session", autouse=True)
def tiny():
    from idlewatt.daemon.agents.maifs import train

    with small(), pytest.MonkeyPatch.context() as patch:
        for name, value in {"RULE_EPISODES": 1, "TOGETHER": 1, "REPLAYS": 2, "PAIRS": 1, "EVOLUTION_EPISODES": 1,
                            "IMITATION_STEPS": 60}.items():
            patch.setattr(train, name, value)
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory, tiny):
    """Return the folder of a training that ran to its end, and what it told of itself."""
    from idlewatt.daemon.agents.maifs.train import train

    folder = tmp_path_factory.mktemp("maifs")
    return folder, list(train(fungible.config(folder, steps=2)))
