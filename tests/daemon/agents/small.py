"""Trainings by policy gradient that end in moments, for tests of what comes before and after them."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from idlewatt.daemon.agents import lessons, pieces, policy_gradient


@contextmanager
def small() -> Iterator[None]:
    """Make trainings short: shorter pieces, fewer replays of each, fewer steps between looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pieces, "JOBS", 80)
        patch.setattr(lessons, "EVERY", 2)
        for name, value in {"LESSONS": 2, "TOGETHER": 1, "REPLAYS": 2}.items():
            patch.setattr(policy_gradient, name, value)
        yield
