from idlewatt.daemon.clock_steps import ClockWatch


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
