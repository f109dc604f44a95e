from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste.windows import SampleStreak


def trail(flags, step=15.0, holder="job", longest=37.5):
    made = SampleStreak()
    for position, flag in enumerate(flags):
        made.observe(position * step, holder, quiet=flag, hung=False, longest_s=longest)
    return made


def test_t47_one_busy_sample_in_24_hours_is_not_zero_utilization():
    day = [True] * 5760
    assert trail(day).quiet_for(86_000)
    day[2000] = False
    assert not trail(day).quiet_for(86_000)


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(0, 40))
def test_quiet_means_that_no_sample_within_the_window_was_busy(flags, steps):
    recent = flags[max(0, len(flags) - 1 - steps):]
    expected = len(flags) > steps and all(recent)
    assert trail(flags).quiet_for(steps * 15.0) is expected


def test_a_gap_neither_resets_nor_fills_the_window():
    made = trail([True] * 20)  # 285 s
    made.observe(100_000.0, "job", quiet=True, hung=False, longest_s=37.5)
    assert made.quiet_s == 285.0 + 37.5


def test_another_holder_starts_the_window_anew():
    made = trail([True] * 100)
    made.observe(1500.0, "next", quiet=True, hung=False, longest_s=37.5)
    assert made.quiet_s == 0.0


def test_a_clock_that_steps_back_adds_nothing():
    made = trail([True] * 3)
    made.observe(-500.0, "job", quiet=True, hung=False, longest_s=37.5)
    assert made.quiet_s == 30.0
