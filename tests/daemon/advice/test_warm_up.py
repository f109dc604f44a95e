import os
from threading import Event

from idlewatt.daemon.advice.warm_up import NICENESS, WarmUp


def test_the_process_that_compiles_gives_way_to_the_daemon():
    warm_up = WarmUp(("fifo+first-fit",))
    try:
        while os.getpriority(os.PRIO_PROCESS, warm_up._child.pid) < NICENESS:
            assert not warm_up.over()
            Event().wait(0.01)
    finally:
        warm_up.end()
