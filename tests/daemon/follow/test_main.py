"""The end of what follows: what it tells is whether anything of its own may still stand."""

import socket
import threading
from dataclasses import replace

import pytest

from idlewatt.daemon.follow import main
from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.follower import FollowCounts, Follower
from idlewatt.daemon.follow.sight import Advised, BelievedAdvice
from idlewatt.daemon.follow.slurm import SlurmError
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.follow import FollowChange

RULES = parse("allow: {partitions: [gpu], users: ['*']}\n")
STARTED = FollowChange("7", 1.0, "ada", "gpu", "required_nodes", "", "a", "easy", 2.0, 2.0, 3.0, 90.0, "own",
                       state="started",
                       id=1)


class Through:
    """One whose job has started, and that has nothing else to take back."""

    tally = FollowCounts(standing=(STARTED,))

    def take_all_back(self, why):
        return 0


class Away(Through):
    def take_all_back(self, why):
        raise StoreUnavailable("the disk is gone")


def stopped():
    stop = threading.Event()
    stop.set()
    return stop


def test_jobs_that_have_started_are_nothing_that_is_left():
    assert main._run(RULES, Through(), stopped()) == 0


def test_what_could_not_be_taken_back_is_told():
    assert main._run(RULES, Away(), stopped()) == 1


def test_one_change_on_which_slurm_does_not_answer_counts_as_one_error(ledger, queue):
    def away(job_id, attribute, value):
        raise SlurmError("scontrol did not answer within 10 s")

    queue.nice, queue.change = 0, away
    rules = parse("dry_run: false\nallow: {partitions: [gpu], users: ['*'], actions: [nice]}\n")
    for change in ledger.open_changes():
        ledger.move(replace(change, state="started"))
    advised = Advised("7", 1.0, "gpu", ("a",), "easy", 50.0, 50.0)
    follower = Follower(rules, queue, ledger, lambda _: BelievedAdvice((advised,)), "own", lambda: 50.0)
    main._look(follower)
    assert follower.tally.errors == {"slurm": 1}


@pytest.mark.parametrize(("address", "says"), [
    ("127.0.0.1:many", "an address with a port up to 65535 is expected"), ("127.0.0.1:70000", "port up to 65535"),
    ("127.0.0.1", "an address with a port"), ("127.0.0.1:{taken}", "Address already in use$")])
def test_an_address_that_cannot_be_listened_on_is_told_in_words(address, says):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = address.format(taken=other.getsockname()[1])
        with pytest.raises(main.CannotFollow, match=f"cannot listen on {address}: .*{says}"), \
                main._page(address, RULES, Through()):
            pass
