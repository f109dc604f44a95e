"""What serves a paper alone is long: CI runs the published digits, GIST, every agent on traces, and the commands."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent
LABORATORIES = {"dl2", "maifs", "scorer", "topdrl"}
"""Their compiled arenas take minutes of a core; the agents that serve sites are tried in ``tests/daemon/agents``."""


def pytest_itemcollected(item: pytest.Item) -> None:
    if item.path.is_relative_to(HERE) and item.path.relative_to(HERE).parts[0] in LABORATORIES:
        item.add_marker(pytest.mark.long)
