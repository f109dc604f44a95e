"""Real waits: each job once, at its first start, in buckets that only grow."""

import tracemalloc
from dataclasses import replace

from idlewatt.daemon.waits import LARGEST, MOST_ACCOUNTS, OTHER, REMEMBERED_S, WaitHistogram
from idlewatt.exporters.metrics.declared import BUCKETS_S
from idlewatt.storage.records import Job, JobState, Request

BEGAN = 1_000_000.0


def started(job_id="1", wait_s=120.0, gpus=4, **more):
    known = {"account": "lab", "start_s": BEGAN + 10}
    submit_s = (known | more)["start_s"] - wait_s
    return Job(job_id, submit_s, JobState.RUNNING, "a100", Request(gpus), **known | more)


def counts(found):
    return {labels: (one.counts[-1], one.total) for labels, one in found.items()}


def test_a_wait_falls_into_its_bucket_by_partition_account_and_size():
    found = WaitHistogram(BEGAN).noted([started()])
    ((labels, one),) = found.items()
    assert labels == ("a100", "lab", "2-4")
    below = dict(zip(BUCKETS_S, one.counts, strict=False))
    assert (below[60.0], below[300.0], one.counts[-1], one.total) == (0, 1, 1, 120.0)


def test_a_job_counts_once_however_often_it_is_seen_and_by_whom():
    waits, job = WaitHistogram(BEGAN), started()
    for seen in (job, job, replace(job, state=JobState.COMPLETED, end_s=BEGAN + 900)):
        found = waits.noted([seen])
    assert counts(found) == {("a100", "lab", "2-4"): (1, 120.0)}


def test_a_wait_begins_when_the_job_could_start():
    held = started(wait_s=5000.0, eligible_s=BEGAN - 20)
    assert counts(WaitHistogram(BEGAN).noted([held]))["a100", "lab", "2-4"] == (1, 30.0)


def test_what_started_before_the_daemon_or_ran_before_is_not_counted():
    waits = WaitHistogram(BEGAN)
    for job in (started(start_s=BEGAN - 1), started(restarts=1)):
        assert waits.noted([job]) == {}
    pending = Job("9", BEGAN, JobState.PENDING, "a100", Request(1))
    assert waits.noted([pending]) == {}


def test_accounts_are_bounded_and_no_count_moves_from_one_to_another():
    waits = WaitHistogram(BEGAN)
    jobs = [started(str(number), account=f"account {number}", gpus=64) for number in range(MOST_ACCOUNTS + 5)]
    found = waits.noted(jobs)
    assert len(found) == MOST_ACCOUNTS + 1
    assert counts(found)["a100", OTHER, LARGEST] == (5, 600.0)
    again = waits.noted([started("more", account="account 0", gpus=64)])
    assert counts(again)["a100", "account 0", LARGEST][0] == 2


def test_a_clock_that_was_set_back_makes_no_negative_wait():
    assert counts(WaitHistogram(BEGAN).noted([started(wait_s=-50.0)]))["a100", "lab", "2-4"] == (1, 0.0)


def test_a_start_is_remembered_in_few_bytes():
    waits, many = WaitHistogram(BEGAN), 20_000
    first = [started(f"{number}", start_s=BEGAN + number) for number in range(many)]
    tracemalloc.start()
    try:
        waits.noted(first)
        before = tracemalloc.get_traced_memory()[0]
        waits.noted([started(f"next-{number}", start_s=BEGAN + many + number) for number in range(many)])
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert counts(waits.noted(first))["a100", "lab", "2-4"][0] == 2 * many
    assert grown < 20 * many


def test_a_start_is_known_again_for_as_long_as_accounting_is_asked_back():
    waits, job = WaitHistogram(BEGAN), started()
    waits.noted([job])
    waits.noted([started("2", start_s=BEGAN + REMEMBERED_S)])
    assert counts(waits.noted([job]))["a100", "lab", "2-4"][0] == 2
    waits.noted([started("3", start_s=BEGAN + REMEMBERED_S + 11)])
    assert counts(waits.noted([job]))["a100", "lab", "2-4"][0] == 4


def test_a_job_that_is_told_twice_at_once_counts_once():
    assert counts(WaitHistogram(BEGAN).noted([started(), started()]))["a100", "lab", "2-4"][0] == 1
