"""Tests that share one real part of the machine run on one worker."""

import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from types import SimpleNamespace

import pytest
from together import SHARED, begin_with_chains, share_workers

pytest_plugins = "pytester"
ROOT = Path(__file__).parents[1]


def test_what_is_dear_is_made_where_it_is_said_to_be_shared():
    for name, places in SHARED.items():
        for place in places:
            text = (ROOT / place / "conftest.py" if place.endswith("/") else ROOT / place).read_text()
            assert re.search(rf'scope="(module|session)"\)\ndef {name}\(', text), (name, place)


def test_whoever_shares_what_is_dear_shares_a_worker(request):
    groups = defaultdict(set)
    for item in request.session.items:
        for name in SHARED.keys() & set(item.fixturenames):
            for place in SHARED[name]:
                if item.nodeid.startswith(place):
                    groups[place].add(item.get_closest_marker("xdist_group").args[0])
    assert all(len(group) == 1 for group in groups.values())


def test_tests_of_a_file_that_compiles_share_a_worker():
    marks = []
    for name in ("tests/daemon/replay/test_engine.py::test_a[x::y]", "tests/daemon/web/test_api.py::test_b"):
        share_workers([SimpleNamespace(nodeid=name, get_closest_marker=lambda _: None, add_marker=marks.append)])
    assert [mark.args for mark in marks] == [("tests/daemon/replay/test_engine.py",)]


def test_the_longest_groups_begin_then_others_and_each_keeps_its_order():
    def item(name, group=None):
        return SimpleNamespace(name=name, get_closest_marker=lambda _: group and pytest.mark.xdist_group(group).mark)

    items = [item("a"), item("b", "wheel"), item("c"), item("d", "stack"), item("e", "slurms"), item("f", "stack")]
    begin_with_chains(items)
    assert "".join(one.name for one in items) == "edfbac"


def test_marked_tests_share_a_worker(pytester):
    pytester.makepyfile("""
        import pytest

        @pytest.mark.xdist_group("one-part")
        @pytest.mark.parametrize("number", range(20))
        def test_shares_the_part(number, worker_id):
            with open("workers", "a") as workers:
                workers.write(f"{worker_id} ")
        """)

    pytester.runpytest_subprocess("-n2", "--dist", "loadgroup").assert_outcomes(passed=20)

    assert len(set((pytester.path / "workers").read_text().split())) == 1


def test_tests_are_collected_without_what_spreads_them_over_workers():
    """The smoke set for the lowest and newest dependencies is run so."""
    done = subprocess.run([sys.executable, "-m", "pytest", "-p", "no:xdist", "--collect-only", "-q",
                           "tests/daemon/web/test_browser.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
