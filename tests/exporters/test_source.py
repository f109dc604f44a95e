"""A watched source never raises: it keeps the last good snapshot with its age, and says each fault once."""

import logging

import pytest

from idlewatt.exporters.source import SourceConfig, SourceError, TargetHealth, Watched, kinds, register
from idlewatt.storage.telemetry import GpuReading, Telemetry

GOOD = Telemetry(gpus=(GpuReading("GPU-0", "n", 0, 1.0),))


class Scripted:
    """Gives what the test wrote down, one read after the other."""

    name, role = "dcgm", "telemetry"

    def __init__(self, *script):
        self.script, self.down, self.closed = list(script), (), False

    def read(self):
        step = self.script.pop(0)
        if isinstance(step, Exception):
            raise step
        return step

    def health(self):
        return self.down

    def close(self):
        self.closed = True


@pytest.fixture
def timer():
    class Timer:
        now = 0.0

        def __call__(self):
            return self.now

    return Timer()


def test_a_good_read_is_fresh_and_counted(clock):
    watched = Watched(Scripted(GOOD), clock)
    snapshot = watched.read()
    assert (snapshot.data, snapshot.fresh, snapshot.read_s) == (GOOD, True, clock.now)
    assert (watched.status.success, watched.status.reads, watched.status.last_success_s) == (True, 1, clock.now)


@pytest.mark.parametrize("fault", [SourceError("x is down"), KeyError("power"), ValueError("bad"), OSError("full"),
                                   TypeError("none"), RuntimeError("pool"), RecursionError(), UnicodeError("u")])
def test_a_fault_keeps_the_last_good_snapshot_with_when_it_was_read(clock, fault):
    watched = Watched(Scripted(GOOD, fault), clock)
    watched.read()
    clock.now += 40
    snapshot = watched.read()
    assert (snapshot.data, snapshot.fresh, snapshot.read_s) == (GOOD, False, clock.now - 40)
    assert not watched.status.success
    assert (watched.status.failures, watched.status.last_success_s) == (1, clock.now - 40)


def test_before_the_first_success_there_is_no_data(clock):
    snapshot = Watched(Scripted(SourceError("down")), clock).read()
    assert (snapshot.data, snapshot.read_s) == (None, None)


def test_the_same_fault_is_told_once_then_now_and_then_and_its_end_once(clock, timer, caplog):
    caplog.set_level(logging.INFO)
    watched = Watched(Scripted(*[SourceError("x is down")] * 50, GOOD, GOOD), clock, timer=timer, remind_s=600)
    for _ in range(52):
        watched.read()
        timer.now += 15
    assert [record.getMessage() for record in caplog.records] == [
        "dcgm cannot be read: x is down", "dcgm cannot be read: x is down", "dcgm: everything can be read again"]


def test_targets_that_are_down_are_told_in_one_line(clock, caplog):
    source = Scripted(GOOD, GOOD)
    source.down = tuple(TargetHealth(f"n{number}:9400", False, 0.1, "refused") for number in range(100))
    watched = Watched(source, clock)
    watched.read()
    watched.read()
    assert [record.getMessage() for record in caplog.records] == [
        "dcgm: 100 targets are down: n0:9400: refused; n1:9400: refused; n2:9400: refused"]


def test_closing_closes_the_source(clock):
    source = Scripted()
    Watched(source, clock).close()
    assert source.closed


def test_two_kinds_of_one_name_are_refused():
    assert "dcgm" in kinds()
    with pytest.raises(ValueError, match="two sources call themselves 'dcgm'"):
        @register("dcgm")
        class Other(SourceConfig):
            pass


def test_a_read_that_does_not_end_has_failed_and_keeps_its_data(clock, timer):
    watched = Watched(Scripted(GOOD), clock, timer=timer)
    watched.read()
    watched._began = timer.now
    timer.now += 60
    assert watched.status.success
    timer.now += 15
    assert (watched.status.success, watched.status.error) == (False, "the present read has not ended for 75 s")
    assert watched.facts() == GOOD
