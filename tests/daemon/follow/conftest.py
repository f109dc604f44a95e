"""A scheduler with one job whose nice value a dead process has changed, and the ledger that knows of it."""

import pytest

from idlewatt.daemon.follow.sight import QueuedJob
from idlewatt.daemon.follow.slurm import SlurmError
from idlewatt.storage.follow import FollowChange
from idlewatt.storage.follow_ledger import FollowLedger

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


@pytest.fixture
def queue():
    return Queue()
