"""The clock was set, or the machine slept: the daemon notices it while it runs, and waits for it as it starts."""

import pytest

from idlewatt.daemon.degraded import ClockWatch
from idlewatt.daemon.main import WAIT_S, await_clock


class Hands:
    """A clock that can be set, and one that cannot."""

    wall_s, true_s = 1e9, 0.0

    def go(self, seconds: float, step_s: float = 0.0, speed: float = 1.0) -> None:
        self.true_s += seconds
        self.wall_s += seconds * speed + step_s


def watching(speed: float = 1.0) -> tuple[Hands, ClockWatch]:
    hands = Hands()
    return hands, ClockWatch(lambda: hands.wall_s, speed, lambda: hands.true_s)


def test_a_clock_that_goes_on_as_time_does_has_not_jumped():
    hands, watch = watching()
    hands.go(86400.0, step_s=1.0)
    assert watch.look(hands.wall_s, 600) == (0.0, None)


def test_an_accelerated_clock_has_not_jumped():
    hands, watch = watching(60.0)
    hands.go(100.0, speed=60.0)
    assert watch.look(hands.wall_s, 600) == (0.0, None)


def test_a_clock_that_was_set_back_is_noticed_and_told_for_a_while():
    hands, watch = watching()
    hands.go(15.0, step_s=-3600.0)
    at = hands.wall_s
    assert watch.look(at, 600) == (-3600.0, at)
    hands.go(600.0)
    assert watch.look(hands.wall_s, 600) == (-3600.0, at)
    hands.go(1.0)
    assert watch.look(hands.wall_s, 600) == (0.0, None)


def test_a_machine_that_slept_is_noticed():
    hands, watch = watching()
    hands.go(15.0, step_s=7200.0)
    assert watch.look(hands.wall_s, 600) == (7200.0, hands.wall_s)


class Pause:
    """A wait in which time goes on, and the clock is set after a while."""

    def __init__(self, hands: Hands, set_after_s: float, step_s: float, stop_after_s: float = 1e9) -> None:
        self._hands, self._set_after_s, self._step_s, self._stop_after_s = hands, set_after_s, step_s, stop_after_s

    def wait(self, timeout: float) -> bool:
        step_s = self._step_s if self._hands.true_s < self._set_after_s <= self._hands.true_s + timeout else 0.0
        self._hands.go(timeout, step_s)
        return self._hands.true_s >= self._stop_after_s


@pytest.mark.parametrize(("newest_s", "waits_s"), [(None, 0.0), (1e9 - 300, 0.0), (1e9 + 60, 0.0), (1e9 + 7200, 30.0)])
def test_a_clock_that_is_behind_what_was_recorded_is_waited_for_until_it_is_set(newest_s, waits_s):
    hands = Hands()
    await_clock(newest_s, lambda: hands.wall_s, Pause(hands, 30.0, 7300.0), lambda: hands.true_s)
    assert hands.true_s == waits_s


@pytest.mark.parametrize(("stop_after_s", "waits_s"), [(1e9, WAIT_S), (10.0, 10.0)])
def test_a_clock_that_nobody_sets_keeps_the_daemon_from_starting_for_two_minutes_at_most(stop_after_s, waits_s):
    hands = Hands()
    await_clock(hands.wall_s + 7200, lambda: hands.wall_s, Pause(hands, 1e9, 0.0, stop_after_s), lambda: hands.true_s)
    assert hands.true_s == waits_s
