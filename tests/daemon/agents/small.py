"""Trainings by policy gradient that end in moments, for tests of what comes before and after them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from idlewatt.daemon.agents import episodes, policy_gradient, training_loop


@contextmanager
def small() -> Iterator[None]:
    """Make trainings short: shorter episodes, fewer replays of each, fewer steps between looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(episodes, "JOBS", 80)
        patch.setattr(training_loop, "EVERY", 2)
        for name, value in {"RULE_EPISODES": 2, "TOGETHER": 1, "REPLAYS": 2}.items():
            patch.setattr(policy_gradient, name, value)
        yield
