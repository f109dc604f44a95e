from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.daemon.settings.waste import WasteSettings
from idlewatt.daemon.waste.assessment import CLASSES
from idlewatt.daemon.waste.energy import MOST_CLOSED, WINDOW_S, Windows
from idlewatt.storage.batches import Batch, decode, encode
from idlewatt.storage.power_classes import WASTED, PowerClass

GPUS = range(4)


def run(site, times, accountant=None, *, watts=300.0, u=0.5, wall=2000.0, free_u=None):
    """Assess a node with four GPUs, two of them held, at each moment; return the accountant and the last answer."""
    accountant = accountant or site.accountant()
    node, found = site.node(gpus=4, gpus_allocated=2), None
    for now in times:
        used = (u, u, *(2 * [u if free_u is None else free_u]))
        gpus = tuple(site.gpu(index, time_s=now, watts=watts, u=used[index]) for index in GPUS)
        snapshot = site.snapshot([node], [site.running(indexes=[0, 1])], time_s=now)
        found = accountant.assess(snapshot, site.telemetry(gpus, (site.wall(wall, time_s=now),)), now)
    return accountant, found


def total(counters):
    return sum(counters.energy_joules.values())


@given(st.lists(st.one_of(st.floats(0, 60), st.floats(60, 5000), st.floats(-500, 0)), min_size=1, max_size=20))
@settings(max_examples=60, deadline=None)
def test_t40_over_any_pattern_of_cycles_the_classes_add_up_to_the_wall_energy(site, steps):
    times = [100_000.0]
    for step in steps:
        times.append(times[-1] + step)
    accountant, _ = run(site, times)
    observed = sum(min(max(step, 0.0), 37.5) for step in steps)
    gaps = sum(max(step - 37.5, 0.0) for step in steps)
    assert total(accountant.counters) == pytest.approx(2000.0 * observed, abs=1e-6)  # steps of nothing round to it
    assert accountant.counters.unmeasured_seconds.get("gpu", 0.0) == pytest.approx(4 * gaps)


@given(st.lists(st.tuples(st.floats(-100, 400), st.floats(0, 400), st.floats(0, 1), st.floats(0, 3000)), min_size=1,
                max_size=15))
@settings(max_examples=40, deadline=None)
def test_counters_never_go_down(site, cycles):
    accountant, now, before = site.accountant(), 1000.0, {}
    for step, watts, u, wall in cycles:
        now = max(0.0, now + step)
        run(site, [now], accountant, watts=watts, u=u, wall=wall)
        after = dict(accountant.counters.energy_joules)
        assert all(after[key] >= joules for key, joules in before.items())
        before = after


@given(st.lists(st.floats(1, 200), min_size=5, max_size=60), st.integers(2, 5))
@settings(max_examples=30, deadline=None)
def test_closed_windows_hold_the_energy_of_the_counters_by_partition_and_by_node(site, steps, drains):
    accountant, now, readings, rollups = site.accountant(), 1000.0, [], []
    run(site, [now], accountant)
    for position, step in enumerate([*steps, 1e6]):
        now += step
        # The last cycle only closes the window: nothing is booked across so long a gap but its end.
        run(site, [now], accountant)
        if position % drains == 0 or step == 1e6:
            closed = accountant.drain_closed()
            rollups, readings = rollups + closed.rollups, readings + closed.readings
    still_open = 2000.0 * min(37.5, now % WINDOW_S)
    by_partition = sum(reading.energy_joules for reading in readings if not reading.node)
    assert by_partition == pytest.approx(total(accountant.counters) - still_open)
    assert sum(reading.energy_joules for reading in readings if reading.node) == pytest.approx(by_partition)
    assert len({(rollup.start_s, rollup.uuid) for rollup in rollups}) == len(rollups)
    assert all(rollup.measured_seconds <= WINDOW_S + 1e-6 for rollup in rollups)
    assert all(rollup.start_s % WINDOW_S == 0 for rollup in rollups)


def test_a_rollup_tells_mean_and_most_and_what_was_really_observed(site):
    accountant, _ = run(site, [float(now) for now in range(1200, 1350, 15)], watts=100.0, u=0.2)
    run(site, [float(now) for now in range(1350, 1515, 15)], accountant, watts=300.0, u=0.6)
    rollups = accountant.drain_closed().rollups
    first = rollups[0]
    assert (first.start_s, first.uuid, first.seconds) == (1200.0, "GPU-dgx-0-0", 300.0)
    assert first.measured_seconds == first.allocated_seconds == pytest.approx(300.0)
    assert first.energy_joules == pytest.approx(100.0 * 135 + 300.0 * 165)
    assert (first.power_max_watts, first.activity_max) == (300.0, 0.6)
    assert first.power_mean_watts == pytest.approx(first.energy_joules / 300.0)
    assert first.activity_mean == pytest.approx((0.2 * 135 + 0.6 * 165) / 300)
    assert rollups[3].allocated_seconds == 0.0


def test_an_unmeasured_gpu_rolls_up_to_nothing_known(site):
    accountant = site.accountant()
    for now in range(1200, 1515, 15):
        gpu = replace(site.gpu(time_s=float(now), watts=None), activity=None)
        accountant.assess(site.snapshot([site.node(gpus=1)], time_s=now), site.telemetry((gpu,), ()), float(now))
    closed = accountant.drain_closed()
    (rollup,), readings = closed.rollups, closed.readings
    assert rollup.energy_joules is rollup.activity_mean is rollup.power_max_watts is None
    assert rollup.measured_seconds == 0.0
    assert readings == []


def test_readings_that_stop_are_unmeasured_not_repeated(site):
    accountant, _ = run(site, [1000.0, 1015.0])
    snapshot = site.snapshot([site.node(gpus=4)], time_s=1060.0)
    found = accountant.assess(snapshot, site.telemetry(), 1060.0)
    assert found.unmeasured_gpus["gpu"] == 4
    assert found.totals["gpu"][PowerClass.UNMEASURED] == 2000.0


def test_the_wasted_counters_are_those_of_the_wasted_classes(site):
    accountant, _ = run(site, [1000.0, 1015.0], free_u=0.0)
    wasted = accountant.counters.wasted_joules
    assert {reason for _, reason in wasted} == set(WASTED)
    assert wasted["gpu", PowerClass.IDLE_UNALLOCATED] == 2 * 300.0 * 15
    assert wasted["gpu", PowerClass.ALLOCATED_UNDERUSED] == 0.0 + 2 * 45.0 * 15
    assert accountant.counters.wasted_gpu_seconds["gpu"] == 2 * 0.5 * 15


def test_windows_that_nobody_fetches_are_bounded(site):
    accountant, _ = run(site, [1000.0 + 30 * cycle for cycle in range(20 * MOST_CLOSED)])
    rollups = accountant.drain_closed().rollups
    assert len({rollup.start_s for rollup in rollups}) == MOST_CLOSED


def test_a_span_that_ends_before_it_begins_adds_nothing_to_a_window():
    windows, watts = Windows(), {("dgx-0", "gpu"): [100.0] * len(CLASSES)}
    windows.add(1250.0, 30.0, [], watts)
    windows.add(1245.0, -5.0, [], watts)
    windows.close(1250.0)
    readings = windows.drain().readings
    assert {reading.energy_joules for reading in readings} == {100.0 * 30}


def test_what_is_closed_is_made_kind_by_kind_and_drained_once(site):
    accountant = site.accountant()
    for now in range(0, 1200, 15):
        accountant.assess(site.snapshot((site.node(),), time_s=float(now)), site.telemetry(
            (site.gpu(time_s=float(now)),)), float(now))
    closed = accountant.drain_closed()
    assert len({rollup.start_s for rollup in closed.rollups}) == 3
    assert closed.rollups == closed.rollups
    assert closed.rollups[0] is not closed.rollups[0]
    assert not accountant.drain_closed().rollups
    assert len({share.start_s for share in closed.shares}) == 3


def test_a_window_cut_short_at_a_stop_is_the_same_window_after_it_has_waited_on_disk(site):
    accountant, _ = run(site, [1_700_000_100.0, 1_700_000_115.0, 1_700_000_120.12345671653748])
    closed = accountant.drain_all()
    for kind, made in (("rollups", closed.rollups), ("waste", closed.readings), ("shares", closed.shares)):
        back = decode(encode(Batch(kind, tuple(made), len(made)))).facts
        assert {(window.start_s, window.seconds) for window in back} == {(1_700_000_100.0, 20.123)}
        assert {(window.start_s, window.seconds) for window in made} == {(1_700_000_100.0, 20.123)}


def windowed(closed):
    """Return the windows of what was closed, each once."""
    return sorted({(rollup.start_s, rollup.seconds) for rollup in closed.rollups})


def test_a_clock_that_is_set_back_by_an_hour_puts_no_more_into_a_window_than_it_has_seconds(site):
    noon, one = 43_200.0, 46_800.0
    accountant, _ = run(site, [one + 15.0 * cycle for cycle in range(5)])
    run(site, [noon + 60.0 + 15.0 * cycle for cycle in range(61)], accountant)
    closed = accountant.drain_all()
    assert windowed(closed) == [(noon, 300.001), (noon + 300, 300.001), (noon + 600, 300.001), (noon + 900, 60.001),
                                (one, 60.0)]
    assert all(rollup.measured_seconds <= rollup.seconds for rollup in closed.rollups)
    assert {rollup.power_mean_watts for rollup in closed.rollups} == {300.0}
    by_partition = sum(reading.energy_joules for reading in closed.readings if not reading.node)
    assert by_partition == pytest.approx(total(accountant.counters)) == 2000.0 * 960
    assert sum(sum(share.joules.values()) for share in closed.shares) == pytest.approx(by_partition)


def test_a_window_is_not_lost_at_a_stop_before_its_start_or_within_what_it_holds(site):
    for back_s in (60.0, 200.0, 299.0):
        accountant, _ = run(site, [46_800.0 + 15.0 * cycle for cycle in range(9)])
        run(site, [46_920.0 - back_s, 46_935.0 - back_s], accountant)
        closed = accountant.drain_all()
        assert windowed(closed) == [(46_800.0, 135.0)]
        assert sum(reading.energy_joules for reading in closed.readings if not reading.node) == 2000.0 * 135


@given(st.lists(st.one_of(st.floats(1, 37), st.floats(-400, 400), st.floats(-8000, 8000)), min_size=5, max_size=60))
@settings(max_examples=60, deadline=None)
def test_however_the_clock_is_set_windows_hold_the_energy_of_the_counters_and_each_is_another(site, steps):
    accountant, now, drained = site.accountant(), 1_700_000_000.0, []
    run(site, [now], accountant)
    for step in steps:
        now += step
        run(site, [now, now + 15.0], accountant)
        now += 15.0
        drained.append(accountant.drain_closed())
    drained.append(accountant.drain_all())
    rollups = [rollup for closed in drained for rollup in closed.rollups]
    readings = [reading for closed in drained for reading in closed.readings]
    assert len({(rollup.start_s, rollup.seconds, rollup.uuid) for rollup in rollups}) == len(rollups)
    assert all(rollup.measured_seconds <= rollup.seconds + 1e-3 for rollup in rollups)
    assert all(0 < rollup.seconds <= WINDOW_S + 1e-3 * len(steps) for rollup in rollups)
    by_partition = sum(reading.energy_joules for reading in readings if not reading.node)
    assert by_partition == pytest.approx(total(accountant.counters), abs=1e-3)


def test_an_hour_that_the_clock_shows_again_after_a_reload_has_windows_of_its_own_too(site):
    accountant, _ = run(site, [3600.0 + 15.0 * cycle for cycle in range(41)])
    run(site, [3600.0, 3615.0], accountant)
    before = windowed(accountant.drain_all())
    later = accountant.renewed(WasteSettings(), 15.0)
    run(site, [3630.0 + 15.0 * cycle for cycle in range(40)], later)
    assert before == [(3600.0, 15.001), (3600.0, 300.0), (3900.0, 300.0)]
    assert windowed(later.drain_all()) == [(3600.0, 300.002), (3900.0, 300.002), (4200.0, 15.002)]
    assert later.counters is accountant.counters
