import pytest

from idlewatt.daemon.advice.scaling.wording import sooner


@pytest.mark.parametrize(("ratio", "interval", "said"), [
    (-0.43, (-0.52, -0.31), "43 % sooner (31 to 52)"), (0.79, (0.6, 0.9), "79 % later (60 to 90)"),
    (0.3, (-0.001, 0.6), "30 % later (0 to 60)"), (-0.3, (-0.6, 0.001), "30 % sooner (0 to 60)"),
    (0.001, (-0.001, 0.004), "no change (0 to 0 % later)"), (-0.004, (-0.02, 0.03), "no change (-2 to 3 % later)")])
def test_a_change_in_time_is_told_with_its_interval(ratio, interval, said):
    assert sooner(ratio, interval) == said
