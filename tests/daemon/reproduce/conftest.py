"""What serves a paper alone is long: CI runs Helios' published digits and the commands."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LABORATORIES = {"dl2", "maifs", "scorer", "topdrl"}
"""Their compiled arenas take minutes of a core; the agents that serve sites are tried in ``tests/daemon/agents``."""
LONG_FILES = {"test_exact.py", "test_fgd.py", "test_muri.py", "test_plots.py", "test_pollux.py"}
"""Published digits whose replays take as long as those of the others, enumerations and plots."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.is_relative_to(HERE) and (item.path.relative_to(HERE).parts[0] in LABORATORIES
                                           or item.path.name in LONG_FILES):
        item.add_marker(pytest.mark.long)
