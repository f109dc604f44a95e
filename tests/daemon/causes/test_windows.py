"""Windows of GPUs and servers: means where enough was measured, in few bytes for each GPU of a site."""

import math
import tracemalloc

import pytest

from idlewatt.daemon.causes.windows import ENOUGH, NAMES, Sums, of_gpu, of_node, throttled
from idlewatt.storage.telemetry import GpuDetail, GpuReading, NodeReading


def test_means_are_told_of_what_was_measured_for_most_of_the_window():
    sums = Sums()
    sums.add(iter([("sm", 0.2), ("tensor", 0.5), ("limit", None), ("heat", math.nan)]), 30.0)
    sums.add(iter([("sm", 0.8)]), 90.0)
    assert sums.seconds == 120.0
    assert sums.means() == {"sm": pytest.approx((0.2 * 30 + 0.8 * 90) / 120)}
    sums.add(iter([("tensor", 1.0)]), 600.0)
    assert ENOUGH * 720 < 630
    assert sums.means() == {"tensor": pytest.approx((0.5 * 30 + 600) / 630)}


def test_a_window_in_which_nothing_was_measured_has_no_mean():
    assert Sums().means() == {}


def test_everything_that_readings_tell_has_a_place():
    gpu, node = GpuReading("GPU-1", "dgx01", 0, 1000.0), NodeReading("dgx01", 1000.0)
    told = [name for name, _ in (*of_gpu(gpu, throttled(gpu), None), *of_node(node))]
    assert [*told, "cpus"] == list(NAMES)


@pytest.mark.parametrize(("gained_s", "share"), [
    (3.0, 0.2), (15.0, 1.0), (60.0, 1.0), (36_000.0, None), (-5.0, None)])
def test_a_counter_of_held_down_time_that_gains_more_than_has_passed_tells_nothing(gained_s, share):
    # The counter is the sum of two, of which one was not told at the first reading.
    first, second = (GpuReading("GPU-1", "dgx01", 0, time_s, detail=GpuDetail(
        throttled_by_power_s=counted, throttled_by_heat_s=counted)) for time_s, counted in (
            (1000.0, 100.0), (1015.0, 100.0 + gained_s)))
    told = dict(of_gpu(second, throttled(first), None))
    assert (told["power"], told["heat"]) == (share and pytest.approx(share),) * 2


def test_the_window_of_a_gpu_takes_few_bytes():
    tracemalloc.start()
    try:
        windows = [Sums() for _ in range(1000)]
        for number, window in enumerate(windows):
            for seconds in (15.0, 16.0):
                window.add(((name, number / 1000 + 0.001) for name in NAMES), seconds)
        assert tracemalloc.get_traced_memory()[0] < 600 * len(windows)
    finally:
        tracemalloc.stop()
