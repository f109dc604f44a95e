"""What the tests of dashboards and of rules both need: the golden page, selectors of an expression, and promtool."""

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import promql_parser as promql
import pytest

GOLDEN, FOLLOW = (Path(__file__).parents[1] / "recorded" / name for name in ("golden.prom", "follow.prom"))


@pytest.fixture(scope="session")
def golden() -> str:
    """The pages of the daemon and of what follows its advice."""
    return GOLDEN.read_text() + FOLLOW.read_text()


@pytest.fixture(scope="session")
def exposed(golden) -> set[str]:
    """The metrics that are really exposed."""
    return set(re.findall(r"^(idlewatt_\w+)[{ ]", golden, re.M))


@pytest.fixture(scope="session")
def promtool() -> Callable[..., None]:
    """Prometheus' own tool; what it refuses fails the test."""
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    return _promtool


def _promtool(*arguments: object) -> None:
    done = subprocess.run(["promtool", *map(str, arguments)], capture_output=True, text=True, timeout=240,
                          env=os.environ | {"TZ": "UTC"})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def selectors() -> Callable[[Any], Iterator[tuple[Any, tuple[str, ...]]]]:
    return _walk


def _walk(node: Any, above: tuple[str, ...] = ()) -> Iterator[tuple[Any, tuple[str, ...]]]:
    """Yield every vector selector of a parsed expression with the functions that it is in."""
    if isinstance(node, promql.VectorSelector):
        yield node, above
        return
    if isinstance(node, promql.Call):
        above = (*above, node.func.name)
    inner = [getattr(node, name) for name in ("expr", "lhs", "rhs", "vector_selector") if hasattr(node, name)]
    for child in inner + list(getattr(node, "args", [])):
        yield from _walk(child, above)
