"""Which tests share a worker, and which of them begin: what takes seconds to make would be made anew by each other."""

from collections.abc import Iterable

import pytest

SHARED = {
    "past": ("tests/grafana/test_live.py", "tests/exporters/test_gpu_ranges.py"),
    "hour": ("tests/grafana/test_live_energy.py",),
    "trained": ("tests/daemon/agents/scorer/", "tests/daemon/agents/topdrl/", "tests/daemon/agents/dl2/",
                "tests/daemon/agents/maifs/"),
    "url": ("tests/daemon/test_recorded_watts.py",),
    "lived": ("tests/daemon/test_recorded_speeds.py", "tests/daemon/learning/test_nightly.py"),
    "page": ("tests/daemon/test_report.py",),
    "chromium": ("tests/daemon/web/test_browser.py",),
    "trees": ("tests/test_house.py",),
    "wheel": ("tests/test_packages.py",)}
"""Fixtures of a module or a session, and where they stand."""
COMPILING = ("tests/daemon/advice/", "tests/daemon/agents/", "tests/daemon/policies/", "tests/daemon/replay/")
"""Folders whose files compile what hardly anybody else needs: several workers would wait for the one that makes it."""
CHAINS = ("slurms", "judges", "systemd", "stack", "queue 44", "queue 43", "requeued", "cancelled", "rounds")
"""Groups that take the longest: one real part of the machine after the other is waited for. pytest-xdist gives a worker
with a single test a second group at once, which waits for it."""


def share_workers(items: Iterable[pytest.Item]) -> None:
    """Give tests that use a shared fixture, or the machine code of a file, one group; whoever has a group keeps it."""
    for item in items:
        places = [place for name in getattr(item, "fixturenames", ()) for place in SHARED.get(name, ())
                  if item.nodeid.startswith(place)]
        if item.nodeid.startswith(COMPILING):
            places.append(item.nodeid.partition("::")[0])
        if places and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(places[0].strip("/")))


def begin_with_chains(items: list[pytest.Item]) -> None:
    """Let the longest groups begin, then other groups: who begins late ends last, with nothing left for other cores."""
    items.sort(key=lambda item: _turn(item.get_closest_marker("xdist_group")))


def _turn(group: pytest.Mark | None) -> int:
    if group is None:
        return len(CHAINS) + 1
    return CHAINS.index(group.args[0]) if group.args[0] in CHAINS else len(CHAINS)
