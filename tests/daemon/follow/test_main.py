"""The end of what follows: what it tells is whether anything of its own may still stand."""

import socket
import threading

import pytest

from idlewatt.daemon.follow import main
from idlewatt.daemon.follow.config import parse
from idlewatt.daemon.follow.follower import FollowCounts
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.follow import FollowChange

RULES = parse("allow: {partitions: [gpu], users: ['*']}\n")
STARTED = FollowChange("7", 1.0, "ada", "gpu", "required_nodes", "", "a", "easy", 2.0, 2.0, 3.0, 90.0, "own",
                       state="started",
                       id=1)


class Follower:
    """One whose job has started, and that has nothing else to take back."""

    tally = FollowCounts(standing=(STARTED,))

    def take_all_back(self, why):
        return 0


class Away(Follower):
    def take_all_back(self, why):
        raise StoreUnavailable("the disk is gone")


def stopped():
    stop = threading.Event()
    stop.set()
    return stop


def test_jobs_that_have_started_are_nothing_that_is_left():
    assert main._run(RULES, Follower(), stopped()) == 0


def test_what_could_not_be_taken_back_is_told():
    assert main._run(RULES, Away(), stopped()) == 1


@pytest.mark.parametrize(("address", "says"), [
    ("127.0.0.1:many", "an address with a port up to 65535 is expected"), ("127.0.0.1:70000", "port up to 65535"),
    ("127.0.0.1", "an address with a port"), ("127.0.0.1:{taken}", "Address already in use$")])
def test_an_address_that_cannot_be_listened_on_is_told_in_words(address, says):
    with socket.create_server(("127.0.0.1", 0)) as other:
        address = address.format(taken=other.getsockname()[1])
        with pytest.raises(main.CannotFollow, match=f"cannot listen on {address}: .*{says}"), \
                main._page(address, RULES, Follower()):
            pass
