"""The collector rests while something large is read, in as many threads as want it, and then goes on."""

import gc
from threading import Barrier, Thread

import pytest

from idlewatt.exporters.bulk import uncollected


@pytest.fixture(autouse=True)
def awake():
    gc.enable()
    yield
    gc.enable()


def test_the_collector_rests_within_and_works_again_after_an_error():
    def read():
        with uncollected():
            assert not gc.isenabled()
            raise ValueError("nonsense")

    with pytest.raises(ValueError, match="nonsense"):
        read()
    assert gc.isenabled()


def test_it_rests_until_the_last_of_all_threads_is_done():
    first, second = Barrier(2, timeout=60.0), Barrier(2, timeout=60.0)

    def read():
        with uncollected():
            first.wait()
            second.wait()

    thread = Thread(target=read)
    thread.start()
    with uncollected():
        first.wait()
    assert not gc.isenabled()
    second.wait()
    thread.join(10.0)
    assert gc.isenabled()


def test_one_that_was_off_before_stays_off():
    gc.disable()
    with uncollected(), uncollected():
        pass
    assert not gc.isenabled()
