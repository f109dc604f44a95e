"""What the guard takes back beside a process that hangs."""

import pytest

from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.follower import Follower
from idlewatt.daemon.follow.sight import BelievedAdvice

RULES = parse("allow: {partitions: [gpu], users: ['*'], actions: [nice]}\n")


@pytest.mark.parametrize(("now_s", "nice"), [(50.0, -100), (101.0, 0), (-3600.0, 0)],
                         ids=["in time", "late", "clock set back"])
def test_the_guard_takes_back_what_is_late_or_may_be(ledger, queue, now_s, nice):
    guard = Follower(RULES, queue, ledger, lambda _: BelievedAdvice(), "guard", lambda: now_s)
    assert guard.take_back_overdue(10.0) == 0
    assert queue.nice == nice
