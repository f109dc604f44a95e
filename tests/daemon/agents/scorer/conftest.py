"""A scorer that was trained for moments, on a small contended site; enough to be handled, not to be believed."""

import dataclasses
from functools import partial

import numpy as np
import pytest

from idlewatt.daemon.agents.kinds import TrainingConfig
from idlewatt.daemon.agents.scorer import train as training
from idlewatt.daemon.reproduce.scorer.regimes import INCUMBENT, Regime, window

SITE = Regime(4, "informative", 1.0)


def small(number, jobs=300):
    """Return the first jobs of a made-up site."""
    whole = window(SITE, number)
    columns = {field.name: getattr(whole.workload, field.name)[:jobs] for field in dataclasses.fields(whole.workload)
               if isinstance(getattr(whole.workload, field.name), np.ndarray)}
    work = dataclasses.replace(whole.workload, ids=range(jobs), **columns)
    return dataclasses.replace(whole, workload=work, since_s=float(work.submit[jobs // 8]))


@pytest.fixture(scope="session")
def config_of():
    def made(folder, **changes):
        config = TrainingConfig(partial(small), [small(100), small(101)], INCUMBENT, 0, 3600.0, folder)
        return dataclasses.replace(config, **changes)

    return made


@pytest.fixture(scope="session", autouse=True)
def tiny():
    """Make trainings short: fewer windows, fewer steps, fewer changes tried in each."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"RULE_WINDOWS": 2, "TRIALS": 4, "FEWEST": 8, "MOST": 8, "PAIRS": 4, "EVERY": 5,
                            "STEPS": 20}.items():
            patch.setattr(training, name, value)
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory, config_of, tiny):
    """Return the folder of a training that ran to its end, and what it told of itself."""
    folder = tmp_path_factory.mktemp("scorer")
    return folder, list(training.train(config_of(folder)))
