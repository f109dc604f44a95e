"""A dry run beside what was changed in earnest before it: on the scheduler nothing is only said to be taken back."""

from dataclasses import replace

import pytest

from idlewatt.daemon.follow import main
from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.sight import QueuedJob
from idlewatt.daemon.follow.slurm import SlurmError
from idlewatt.storage.follow import FollowChange
from idlewatt.storage.follow_ledger import FollowLedger

RULES = parse("allow: {partitions: [gpu], users: ['*'], actions: [nice]}\ndaemon: {url: 'http://127.0.0.1:1'}\n"
              "kill_switch: /nowhere/stop\n")
LEFT = FollowChange("7", 1.0, "ada", "gpu", "nice", "0", "-100", "easy", 2.0, 2.0, 3.0, 90.0, "former", state="pinned")


class Queue:
    """A scheduler with one job, whose nice value a dead process has changed."""

    def __init__(self) -> None:
        self.nice, self.away = -100, False

    def jobs(self, job_ids):
        if self.away:
            raise SlurmError("squeue did not answer within 10 s")
        return {"7": QueuedJob("7", "PENDING", "gpu", "ada", (), self.nice, 1.0)} if "7" in set(job_ids) else {}

    def change(self, job_id, attribute, value):
        before, self.nice = self.nice, int(value)
        return str(before)


@pytest.fixture
def ledger(tmp_path):
    with FollowLedger.own(tmp_path / "follow.db") as made:
        made.intend(LEFT)
        yield made


def test_what_a_former_process_changed_is_taken_back_before_a_dry_run(ledger):
    queue = Queue()
    main._follower(RULES.model_copy(update={"dry_run": True}), queue, ledger)
    assert (queue.nice, [one.state for one in ledger.changes(0.0)]) == (0, ["taken_back"])


def test_a_dry_run_says_of_nothing_that_stands_that_it_was_taken_back(ledger):
    queue = Queue()
    queue.away = True
    follower = main._follower(RULES.model_copy(update={"dry_run": True}), queue, ledger)
    queue.away = False
    follower.look()
    assert (queue.nice, [one.state for one in ledger.open_changes()]) == (-100, ["pinned"])
    assert follower.take_all_back("stopped") == 1
    assert replace(ledger.open_changes()[0], id=None) == LEFT
