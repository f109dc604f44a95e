"""Work that goes on beside other work, and what becomes of it when nobody waits for it any more."""

import multiprocessing
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from idlewatt.daemon.reproduce.progress import completed, processes

ENDLESS_S = 3600.0


def test_results_of_an_earlier_run_come_first_and_are_not_repeated():
    asked = []

    def work(task):
        asked.append(task)
        return -task

    with ThreadPoolExecutor(1) as pool:
        found = list(completed("work", [1, 2, 3], {2: -2, 3: None}.get, work, pool))
    assert found == [(2, -2), (1, -1), (3, -3)]
    assert asked == [1, 3]


@pytest.mark.parametrize("leaving", [KeyboardInterrupt, RuntimeError])
def test_an_early_exit_does_not_wait_for_running_tasks(leaving):
    def leave():
        with processes(2) as pool:
            found = completed("sleeping", [ENDLESS_S, 0.0], lambda task: None, time.sleep, pool)
            assert next(found) == (0.0, None)
            raise leaving

    before = set(multiprocessing.active_children())
    began = time.monotonic()
    with pytest.raises(leaving):
        leave()
    assert time.monotonic() - began < ENDLESS_S / 10
    assert not set(multiprocessing.active_children()) - before
