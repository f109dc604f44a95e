import os
from threading import Event

from idlewatt.daemon.advice.warm_up import NICENESS, WarmUp


def test_the_process_that_compiles_gives_way_to_the_daemon():
    rehearsal = WarmUp(("fifo+first-fit",))
    try:
        while os.getpriority(os.PRIO_PROCESS, rehearsal._child.pid) < NICENESS:
            assert not rehearsal.over()
            Event().wait(0.01)
    finally:
        rehearsal.end()
