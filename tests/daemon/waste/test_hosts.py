import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste.hosts import Wall, wall
from idlewatt.storage.telemetry import NodeReading


def meter(watts):
    return NodeReading("dgx-0", 0.0, power_watts=watts, power_source="ipmi")


@given(st.floats(0.1, 1e4), st.floats(0, 1e4))
def test_the_wall_is_never_less_than_its_gpus(metered, gpus):
    found = wall(meter(metered), gpus, None)
    assert found.watts == max(metered, gpus)
    assert found.disagreement_watts == max(0.0, gpus - metered)


@pytest.mark.parametrize(("reading", "gpus", "overhead", "expected"), [
    (None, 400.0, 300.0, Wall(700.0, "estimated")),
    (None, 400.0, None, Wall(400.0, "gpus")),
    (None, None, 300.0, Wall(None, "")),
    (meter(0.0), 400.0, None, Wall(400.0, "gpus")),
    (meter(0.0), None, None, Wall(0.0, "ipmi")),
    (meter(None), 400.0, None, Wall(400.0, "gpus")),
    (meter(900.0), None, 300.0, Wall(900.0, "ipmi")),
])
def test_the_source_says_what_was_really_measured(reading, gpus, overhead, expected):
    assert wall(reading, gpus, overhead) == expected
