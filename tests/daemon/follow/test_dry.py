"""A dry run beside what was changed in earnest before it: on the scheduler nothing is only said to be taken back."""

from idlewatt.daemon.follow import main
from idlewatt.daemon.follow.config import parse

RULES = parse("allow: {partitions: [gpu], users: ['*'], actions: [nice]}\ndaemon: {url: 'http://127.0.0.1:1'}\n"
              "kill_switch: /nowhere/stop\n").model_copy(update={"dry_run": True})


def test_what_a_former_process_changed_is_taken_back_before_a_dry_run(ledger, queue):
    main._follower(RULES, queue, ledger)
    assert (queue.nice, [one.state for one in ledger.changes(0.0)]) == (0, ["taken_back"])


def test_a_dry_run_says_of_nothing_that_stands_that_it_was_taken_back(ledger, queue):
    queue.away = True
    follower = main._follower(RULES, queue, ledger)
    queue.away = False
    follower.look()
    assert (queue.nice, [one.state for one in ledger.open_changes()]) == (-100, ["pinned"])
    assert follower.take_all_back("stopped") == 1
