"""Which tests share a worker, and in which order they come.

What takes seconds to make would be made anew by each other worker.
"""

from collections.abc import Iterable

import pytest

SHARED = {
    "past": ("tests/grafana/test_live.py",),
    "hour": ("tests/grafana/test_live_energy.py",),
    "trained": ("tests/daemon/agents/scorer/", "tests/daemon/agents/topdrl/", "tests/daemon/agents/dl2/",
                "tests/daemon/agents/maifs/"),
    "url": ("tests/daemon/test_recorded_watts.py",),
    "lived": ("tests/daemon/test_recorded_speeds.py", "tests/daemon/learning/test_nightly.py"),
    "years": ("tests/daemon/learning/test_evidence.py",),
    "page": ("tests/daemon/test_report.py",),
    "chromium": ("tests/daemon/web/test_browser.py",),
    "trees": ("tests/test_house.py",),
    "wheel": ("tests/test_packages.py",)}
"""Fixtures of a module or a session, and where they stand."""
COMPUTING = "tests/daemon/"
"""Tests elsewhere rather wait: for Prometheus, PostgreSQL, helm, for what times out."""


def share_workers(items: Iterable[pytest.Item]) -> None:
    """Give tests that use a shared fixture one group; whoever has a group keeps it."""
    for item in items:
        places = [place for name in getattr(item, "fixturenames", ()) for place in SHARED.get(name, ())
                  if item.nodeid.startswith(place)]
        if places and not item.get_closest_marker("xdist_group"):
            item.add_marker(pytest.mark.xdist_group(places[0].strip("/")))


def mix(items: list[pytest.Item]) -> None:
    """Deal tests that wait evenly among those that compute, each kind in its order: no core is idle in the end."""
    places = dict[str, float]()
    for computing in (True, False):
        kind = [item for item in items if item.nodeid.startswith(COMPUTING) is computing]
        places |= {item.nodeid: (number + 0.5) / len(kind) for number, item in enumerate(kind)}
    items.sort(key=lambda item: places[item.nodeid])
