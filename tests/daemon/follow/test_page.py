"""The metrics of what follows advice: the whole page as it was recorded, and what its figures mean."""

import re
import shutil
import subprocess
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from prometheus_client import generate_latest

from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.follower import FollowCounts
from idlewatt.daemon.follow.page import FollowPage, registry
from idlewatt.storage.follow import FollowChange

RECORDED = Path(__file__).parents[2] / "recorded" / "follow.prom"
DOCUMENTATION = Path(__file__).parents[3] / "docs" / "follow.md"
NOW = 1_000_000.0
RULES = parse("allow: {partitions: [gpu], users: ['*']}\n")
PINNED = FollowChange("7", NOW - 90, "ada", "gpu", "required_nodes", "", "a", "easy", NOW - 31, NOW - 31, NOW - 30,
                      NOW + 85,
                      "own", state="pinned", id=1)


def page(tally, now_s=NOW):
    text = generate_latest(registry(FollowPage(RULES, lambda: tally, lambda: now_s))).decode()
    return re.sub(r'version="[^"]*"', 'version="1"', text)


def test_the_page_is_as_it_was_recorded():
    tally = FollowCounts(Counter({("required_nodes", "pinned"): 3}), Counter(slurm=1), Counter(user=2),
                         (PINNED, replace(PINNED, state="started", id=2)), "", stopped=False, looked_s=NOW - 1)
    assert page(tally) == RECORDED.read_text()


def test_only_what_its_time_is_up_of_is_overdue():
    assert "idlewatt_follow_overdue_changes 0.0" in page(FollowCounts(standing=(PINNED,)), NOW + 86)
    assert "idlewatt_follow_overdue_changes 1.0" in page(FollowCounts(standing=(PINNED,)), NOW + 91)
    started = replace(PINNED, state="started")
    assert "idlewatt_follow_overdue_changes 0.0" in page(FollowCounts(standing=(started,)), NOW + 91)


def test_prometheus_finds_nothing_to_say_against_the_page():
    if not shutil.which("promtool"):
        pytest.skip("promtool is not installed")
    subprocess.run(("promtool", "check", "metrics"), input=RECORDED.read_bytes(), check=True, timeout=60)


def test_the_documentation_names_every_metric():
    named = set(re.findall(r"idlewatt_follow_[a-z_]+", DOCUMENTATION.read_text()))
    assert {name for name in re.findall(r"^# TYPE (\w+) ", RECORDED.read_text(), re.MULTILINE)} <= named
