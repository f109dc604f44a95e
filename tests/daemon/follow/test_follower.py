"""What the guard takes back beside a process that hangs."""

from dataclasses import replace

import pytest

from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.follower import Follower
from idlewatt.daemon.follow.sight import Advised, BelievedAdvice, QueuedJob

RULES = parse("allow: {partitions: [gpu], users: ['*'], actions: [nice]}\n")


@pytest.mark.parametrize(("now_s", "nice"), [(50.0, -100), (101.0, 0), (-3600.0, 0)],
                         ids=["in time", "late", "clock set back"])
def test_the_guard_takes_back_what_is_late_or_may_be(ledger, queue, now_s, nice):
    guard = Follower(RULES, queue, ledger, lambda _: BelievedAdvice(), "guard", lambda: now_s)
    assert guard.take_back_overdue(10.0) == 0
    assert queue.nice == nice


def test_what_was_given_back_counts_as_such_only_once_it_is_seen(ledger, queue):
    guard = Follower(RULES, queue, ledger, lambda _: BelievedAdvice(), "guard", lambda: 101.0)
    jobs = queue.jobs
    queue.jobs = lambda job_ids: jobs(job_ids) if queue.nice else {"7": QueuedJob.unread("7")}
    assert guard.take_back_overdue(10.0) == 1
    assert [change.state for change in ledger.open_changes()] == ["taking_back"]
    queue.jobs = jobs
    assert guard.take_back_overdue(10.0) == 0
    assert not ledger.open_changes()


def test_a_job_that_has_waited_for_us_as_long_as_it_may_is_left_alone_days_later_too(ledger, queue):
    now_s, advised = 200_000.0, Advised("7", 1.0, "gpu", ("a",), "easy", 200_000.0, 200_000.0)
    queue.nice = 0
    rules = RULES.model_copy(update={"dry_run": False})
    (left,) = ledger.open_changes()
    ledger.move(replace(left, state="taken_back", ended_s=3.0 + rules.start_within))
    follower = Follower(rules, queue, ledger, lambda _: BelievedAdvice((advised,)), "own", lambda: now_s)
    follower.look()
    assert (queue.nice, follower.tally.passed_over) == (0, {"waited": 1})
