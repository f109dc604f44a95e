
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.waste import WasteSettings
from idlewatt.daemon.waste.readings import Fleet, SampleStreak
from idlewatt.daemon.waste.wall_meters import FORGET_AFTER_S, MOST_METERS, REMOVED_AFTER_S

LONGEST = 37.5


def fleet_of(site, *gpus, now=1000.0, fleet=None, walls=()):
    fleet = fleet or Fleet(WasteSettings())
    for each in gpus:
        fleet.absorb(site.telemetry((each,), tuple(walls)), now, LONGEST)
    return fleet


def only(fleet):
    (found,) = fleet.gpus.values()
    return found


def test_the_rate_of_the_energy_counter_comes_before_the_power_gauge(site):
    fleet = fleet_of(site, site.gpu(time_s=985.0, energy_joules=1000.0, watts=300.0),
                     site.gpu(time_s=1000.0, energy_joules=1900.0, watts=300.0))
    assert (only(fleet).watts, only(fleet).power_source) == (60.0, "energy_counter")


@pytest.mark.parametrize(("then", "joules"), [(985.0, 5000.0), (985.0, 900.0), (900.0, 500.0), (960.0, 500.0)],
                         ids=["reset", "stood still", "moved too long ago", "looked at too long ago"])
def test_t36_a_counter_that_cannot_be_a_rate_leaves_it_to_the_gauge(site, then, joules):
    fleet = fleet_of(site, site.gpu(time_s=then, energy_joules=joules),
                     site.gpu(time_s=1000.0, energy_joules=900.0, watts=70.0))
    assert (only(fleet).watts, only(fleet).power_source) == (70.0, "power")


def test_a_counter_that_is_renewed_less_often_than_it_is_read_is_a_rate_over_the_time_between_its_changes(site):
    """dcgm-exporter renews every thirty seconds by default; looked at every fifteen, it had twice the watts."""
    fleet, told = None, []
    for look in range(5):
        fleet = fleet_of(site, site.gpu(time_s=985.0 + 15 * look, energy_joules=1000.0 + 3000.0 * (look // 2),
                                        watts=99.0), now=985.0 + 15 * look, fleet=fleet)
        told.append((only(fleet).watts, only(fleet).power_source))
    assert told[1:] == [(99.0, "power"), (100.0, "energy_counter")] * 2


def test_a_counter_that_moves_again_after_long_gives_no_rate(site):
    fleet = None
    for look in range(7):
        fleet = fleet_of(site, site.gpu(time_s=985.0 + 15 * look, energy_joules=1000.0 + 3e4 * (look == 6), watts=99.0),
                         now=985.0 + 15 * look, fleet=fleet)
    assert (only(fleet).watts, only(fleet).power_source) == (99.0, "power")


@pytest.mark.parametrize("watts", [math.nan, -1.0, math.inf, 1201.0])
def test_implausible_watts_are_unmeasured_and_counted(site, watts):
    fleet = fleet_of(site, site.gpu(watts=watts))
    assert only(fleet).watts is None
    assert fleet.rejected["implausible_power"] == 1


@pytest.mark.parametrize(("joules", "watts", "believed"), [
    (4.5, 300.0, (300.0, "power")),             # a counter in kJ that is called J: 0.3 W beside 300 W
    (4_500_000.0, 300.0, (300.0, "power")),     # a counter in mJ that is called J
    (4.5, None, (None, "")),                    # alone, 0.3 W of a GPU of 400 W is no measurement
    (4500.0, 60.0, (300.0, "energy_counter")),  # a mean of 300 W beside an idle moment
    (750.0, 390.0, (50.0, "energy_counter"))])  # an idle mean beside a busy moment
def test_an_energy_counter_in_the_wrong_unit_is_not_believed(site, joules, watts, believed):
    fleet = fleet_of(site, site.gpu(time_s=985.0, energy_joules=1000.0, watts=watts),
                     site.gpu(time_s=1000.0, energy_joules=1000.0 + joules, watts=watts))
    assert (only(fleet).watts, only(fleet).power_source) == believed
    assert fleet.rejected["wrong_unit"] == (joules == 4.5)


@pytest.mark.parametrize("activity", [math.nan, -0.1, 1.5, math.inf])
def test_an_activity_that_is_no_ratio_is_unmeasured(site, activity):
    assert only(fleet_of(site, site.gpu(u=activity, resident=None))).activity is None


def test_t40_late_readings_change_nothing(site):
    fleet = fleet_of(site, site.gpu(time_s=1000.0, watts=70.0), site.gpu(time_s=990.0, watts=300.0))
    assert only(fleet).watts == 70.0
    assert fleet.rejected["late"] == 1


@pytest.mark.parametrize("time_s", [math.nan, 5000.0])
def test_readings_from_the_future_are_refused(site, time_s):
    fleet = fleet_of(site, site.gpu(time_s=time_s), walls=[site.wall(500.0, time_s=time_s)])
    assert not fleet.gpus
    assert not fleet.walls
    assert fleet.rejected["future"] == 2


def test_of_repeats_of_one_moment_the_largest_power_counts(site):
    fleet = Fleet(WasteSettings())
    fleet.absorb(site.telemetry(tuple(site.gpu(watts=watts) for watts in (60.0, 62.0, None, 61.0)), ()), 1000.0,
                 LONGEST)
    assert only(fleet).watts == 62.0


@pytest.mark.parametrize("watts", [-5.0, math.nan, 60_000.0])
def test_an_implausible_wall_is_not_believed(site, watts):
    fleet = fleet_of(site, site.gpu(), walls=[site.wall(watts)])
    assert not fleet.walls_by_node(1000.0)
    assert fleet.rejected["implausible_wall"] == 1


def test_the_first_fresh_wall_source_wins(site):
    fleet = fleet_of(site, site.gpu(), walls=[site.wall(500.0, source="hwmon"), site.wall(510.0, source="redfish")])
    fleet.absorb(site.telemetry((), (site.wall(490.0, source="ipmi", time_s=700.0),)), 1000.0, LONGEST)
    assert fleet.walls_by_node(1000.0)["dgx-0"].power_source == "redfish"
    assert fleet.walls_by_node(760.0)["dgx-0"].power_source == "ipmi"


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize("source", ["ipmi", "redfish", "hwmon", "ceems"])
def test_every_wall_meter_wins_over_the_modules_of_a_tray_whichever_comes_first(site, source, order):
    walls = [site.wall(2980.0, source="modules"), site.wall(3600.0, source=source)]
    fleet = fleet_of(site, site.gpu(), walls=walls[::order])
    assert fleet.walls_by_node(1000.0)["dgx-0"].power_watts == 3600.0


def test_however_many_servers_meters_name_no_more_are_kept_than_any_site_has(site):
    fleet = Fleet(WasteSettings())

    def names(prefix, now):
        walls = tuple(site.wall(45_000.0, f"{prefix}{number}", now) for number in range(MOST_METERS))
        fleet.absorb(site.telemetry((), (site.wall(900.0, "dgx-0", now), *walls)), now, LONGEST)
        for reading in fleet.walls_by_node(now).values():
            fleet.last_walls.note(reading, reading.power_watts, {})
        assert max(len(fleet.walls), len(fleet.last_walls.nodes)) <= MOST_METERS
        assert fleet.walls_by_node(now)["dgx-0"].time_s == now, "who was there first goes on"

    names("a", 1000.0)
    assert fleet.rejected["too_many_meters"] == 1
    names("b", 1015.0)
    assert "b0" not in fleet.walls_by_node(1015.0)
    names("c", 1300.0)
    assert "c0" in fleet.walls_by_node(1300.0), "names that are no longer told make room"


def supplies(fleet, site, time_s, count, source="redfish", meter="PowerSupplies"):
    """Absorb the sum over some supplies of 400 W; return what is believed of the server then."""
    wall = replace(site.wall(400.0 * count, time_s=time_s, source=source), meters=count, meter=meter)
    fleet.absorb(site.telemetry((), (wall,)), time_s, LONGEST)
    found = fleet.walls_by_node(time_s).get("dgx-0")
    return found.power_watts if found else None


def test_a_supply_that_vanishes_from_its_page_leaves_the_server_unmeasured_for_a_day(site, caplog):
    fleet = Fleet(WasteSettings())
    assert supplies(fleet, site, 1000.0, 2) == 800.0
    assert supplies(fleet, site, 1060.0, 1) == 800.0, "the last whole reading is fresh"
    assert fleet.rejected["part_of_wall"] == 1
    gone = [supplies(fleet, site, 1060.0 + step, 1) for step in range(600, int(REMOVED_AFTER_S), 600)]
    assert set(gone) == {None}
    assert supplies(fleet, site, 1060.0 + REMOVED_AFTER_S, 1) == 400.0
    assert caplog.messages == ["the power meter of dgx-0 (redfish) adds up 1 power supplies or chassis for a day, "
                               "2 before: the others are taken as removed"]


def test_a_supply_that_is_back_is_added_up_again(site):
    fleet = Fleet(WasteSettings())
    found = [supplies(fleet, site, 1000.0 + 600.0 * look, count) for look, count in enumerate((2, 1, 2, 3, 2))]
    assert found == [800.0, None, 800.0, 1200.0, None]


def test_a_clock_that_is_set_back_does_not_prolong_the_day_of_a_missing_supply(site):
    fleet = Fleet(WasteSettings())
    supplies(fleet, site, 100_000.0, 2)
    for step in range(0, int(REMOVED_AFTER_S) // 2, 600):
        supplies(fleet, site, 100_600.0 + step, 1)
    back = 100_600.0 + REMOVED_AFTER_S / 2 - 90_000.0
    gone = [supplies(fleet, site, back + step, 1) for step in range(0, int(REMOVED_AFTER_S) // 2, 600)]
    assert set(gone) == {None}
    assert supplies(fleet, site, back + REMOVED_AFTER_S / 2 + 600, 1) == 400.0


def test_another_meter_of_the_whole_server_is_believed_beside_one_that_lacks_a_supply(site):
    fleet = Fleet(WasteSettings())
    supplies(fleet, site, 1000.0, 4)
    assert supplies(fleet, site, 1600.0, 3) is None
    assert supplies(fleet, site, 1660.0, 1, meter="Power") == 400.0
    assert supplies(fleet, site, 1660.0, 1, source="ipmi", meter="ipmi_dcmi_power_consumption_watts") == 400.0


def test_gpus_that_vanish_are_forgotten(site):
    fleet = fleet_of(site, site.gpu(0))
    later = 1000.0 + 2 * FORGET_AFTER_S
    fleet_of(site, site.gpu(1, time_s=later), now=later, fleet=fleet)
    assert [found.reading.index for found in fleet.gpus.values()] == [1]


@pytest.mark.parametrize("back", [60.0, 500.0, 99_000.0])
def test_a_clock_set_back_does_not_blind_us(site, back):
    fleet = fleet_of(site, site.gpu(time_s=100_000.0), now=100_000.0)
    now = 100_000.0 - back
    fleet_of(site, site.gpu(time_s=now, watts=71.0), now=now, fleet=fleet)
    assert only(fleet).watts == 71.0


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


@pytest.mark.parametrize("how", [{"quiet": True, "hung": False}, {"quiet": False, "hung": True}])
def test_it_is_known_since_when_a_gpu_is_quiet_or_looks_hung(how):
    made = SampleStreak()
    for time_s in (100.0, 115.0, 130.0):
        made.observe(time_s, "job", longest_s=37.5, **how)
    assert made.since_s == 100.0
    made.observe(145.0, "job", quiet=False, hung=False, longest_s=37.5)
    assert made.since_s is None


@pytest.mark.parametrize("first", [{"quiet": True, "hung": False}, {"quiet": False, "hung": True}])
def test_a_gpu_that_was_quiet_and_now_looks_hung_is_so_since_the_change_and_likewise_back(first):
    made = SampleStreak()
    for position in range(240):
        made.observe(position * 15.0, "job", **first, longest_s=37.5)
    other = {how: not so for how, so in first.items()}
    for position in range(240, 480):
        made.observe(position * 15.0, "job", **other, longest_s=37.5)
        assert made.since_s == 240 * 15.0


def test_a_gpu_is_not_said_to_have_done_nothing_while_nobody_looked():
    made = trail([True] * 100)  # 1485 s
    made.observe(36_000.0, "job", quiet=True, hung=False, longest_s=37.5)  # its exporter was down for the night
    assert made.since_s == 36_000.0
    made.observe(36_015.0, "job", quiet=True, hung=False, longest_s=37.5)
    assert made.since_s == 36_000.0


def test_a_sample_that_is_missing_once_in_an_hour_does_not_make_a_gpu_look_busy():
    made = trail([True] * 240)
    made.observe(240 * 15.0 + 60.0, "job", quiet=True, hung=False, longest_s=37.5)
    assert made.since_s == 0.0


def test_another_holder_starts_the_window_anew():
    made = trail([True] * 100)
    made.observe(1500.0, "next", quiet=True, hung=False, longest_s=37.5)
    assert made.quiet_s == 0.0


def test_a_clock_that_steps_back_adds_nothing():
    made = trail([True] * 3)
    made.observe(-500.0, "job", quiet=True, hung=False, longest_s=37.5)
    assert made.quiet_s == 30.0
