import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste import WasteSettings
from idlewatt.daemon.waste.nodes import Wall, allocated_class, at_work, free_class, looks_hung, wall
from idlewatt.daemon.waste.readings import WatchedGpu
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.telemetry import GpuDetail, GpuReading, NodeReading

SETTINGS = WasteSettings()
CONTEXT, LIMIT = 90.0, 400.0
watts = st.floats(0, 500)
ratios = st.floats(0, 1)


def judged(u, p, floor=CONTEXT):
    """Return state, wasted and productive watts of a GPU that did the same throughout the window."""
    state, wasted = allocated_class(p, u, floor, quiet=u <= SETTINGS.epsilon,
                                    hung=looks_hung(p, u, floor, LIMIT, SETTINGS), settings=SETTINGS)
    return state, wasted, p - wasted


@pytest.mark.parametrize(("u", "p", "state", "wasted", "productive"), [
    (0.02, 95, PowerClass.ALLOCATED_IDLE, 95.0, 0.0),
    (0.02, 300, PowerClass.ALLOCATED_IDLE, 300.0, 0.0),
    (0.021, 95, PowerClass.ALLOCATED_UNDERUSED, 88.1, 6.9),
    (0.021, 300, PowerClass.ALLOCATED_UNDERUSED, 88.1, 211.9),
    (0.25, 95, PowerClass.ALLOCATED_UNDERUSED, 67.5, 27.5),
    (0.25, 300, PowerClass.ALLOCATED_UNDERUSED, 67.5, 232.5),
    (0.50, 95, PowerClass.PRODUCTIVE, 45.0, 50.0),
    (0.50, 300, PowerClass.PRODUCTIVE, 45.0, 255.0),
    (0.75, 95, PowerClass.PRODUCTIVE, 22.5, 72.5),
    (0.75, 300, PowerClass.PRODUCTIVE, 22.5, 277.5),
    (1.00, 95, PowerClass.ALLOCATED_HUNG, 95.0, 0.0),
    (1.00, 300, PowerClass.PRODUCTIVE, 0.0, 300.0),
])
def test_the_worked_values_hold(u, p, state, wasted, productive):
    found = judged(u, p)
    assert found[0] is state
    assert found[1:] == pytest.approx((wasted, productive), abs=0.05)


@given(ratios, watts)
def test_t43_waste_is_neither_negative_nor_more_than_the_gpu_draws(u, p):
    assert 0.0 <= judged(u, p)[1] <= p


@given(ratios, ratios, watts)
def test_t43_more_activity_never_wastes_more_except_when_it_looks_hung(first, second, p):
    low, high = sorted((first, second))
    state, wasted, _ = judged(high, p)
    assert state is PowerClass.ALLOCATED_HUNG or wasted <= judged(low, p)[1] + 1e-9


@given(watts)
def test_t44_underused_watts_vanish_as_activity_nears_one(p):
    state, wasted, _ = judged(1.0 - 1e-9, p)
    assert state is PowerClass.ALLOCATED_HUNG or wasted < 1e-6


def test_without_a_known_floor_nothing_is_blamed_on_the_job():
    assert judged(0.3, 200.0, floor=None)[1] == 0.0


@pytest.mark.parametrize(("beyond", "hung"), [(0.0, True), (0.1, False)])
def test_a_busy_gpu_looks_hung_up_to_a_tenth_of_the_way_from_its_idle_watts_to_its_limit(beyond, hung):
    assert looks_hung(CONTEXT + 0.1 * (LIMIT - CONTEXT) + beyond, 1.0, CONTEXT, LIMIT, SETTINGS) is hung


def test_a_limit_below_the_floor_proves_nothing_about_hanging():
    assert not looks_hung(50.0, 1.0, 90.0, 80.0, SETTINGS)


@pytest.mark.parametrize(("planned", "stranded", "state", "wasted"), [
    (True, True, PowerClass.PLANNED, 0.0),
    (False, True, PowerClass.STRANDED, 60.0),
    (False, False, PowerClass.IDLE_UNALLOCATED, 60.0),
])
def test_a_free_gpu_is_planned_before_stranded_before_idle(planned, stranded, state, wasted):
    assert free_class(60.0, planned=planned, stranded=stranded) == (state, wasted)


@pytest.mark.parametrize(("drawn", "works"), [(121.0, False), (121.1, True)])
def test_a_gpu_whose_activity_nobody_knows_works_when_it_draws_more_than_the_margin_above_idle(drawn, works):
    gpu = WatchedGpu(GpuReading("GPU-1", "dgx-0", 0, 1000.0))
    gpu.watts = drawn
    assert at_work(gpu, CONTEXT, LIMIT, SETTINGS) is works


@pytest.mark.parametrize(("detail", "hung"), [
    ({}, True), ({"tensor_active": 0.0, "dram_active": 1e-5}, True), ({"dram_active": 0.001}, False),
    ({"pcie_bytes_per_s": 1e6, "nvlink_bytes_per_s": 0.0}, True), ({"nvlink_bytes_per_s": 100e6}, False)])
def test_a_gpu_of_which_a_unit_or_a_link_works_is_not_hung(detail, hung):
    assert looks_hung(95.0, 1.0, CONTEXT, LIMIT, SETTINGS, GpuDetail(**detail)) is hung


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
