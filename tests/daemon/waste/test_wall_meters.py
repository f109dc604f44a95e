import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from idlewatt.daemon.settings.waste import EnclosureSettings, WasteSettings
from idlewatt.daemon.waste import WasteAccountant
from idlewatt.daemon.waste.wall_meters import FORGET_AFTER_S, REMOVED_AFTER_S, Enclosures, rack_parts
from idlewatt.storage.records import Node, SchedulerSnapshot
from idlewatt.storage.telemetry import EnclosureMeter, EnclosureReading, NodeReading, Telemetry

RACK = EnclosureSettings(nodes=("tray*",), switch_watts=3600.0, rated_watts=140_000.0)
READING = EnclosureReading("rack7", 1000.0, 104_000.0, "redfish", 8, "shelf")
WATTS = st.floats(0, 20_000)


def test_a_racks_meter_is_trays_switches_and_loss():
    rack = rack_parts("rack7", 104_000.0, {"tray1": 60_000.0, "tray2": 38_000.0}, 3600.0)
    assert rack.parts == {"trays": 98_000.0, "switches": 3600.0, "loss": 2400.0, "unmeasured": 0.0}
    assert rack.nodes["tray1"] == pytest.approx(60_000 * 104 / 98)
    assert sum(rack.nodes.values()) == pytest.approx(104_000.0)


@given(st.floats(0, 200_000), st.dictionaries(st.text("ab", max_size=3), st.none() | WATTS, max_size=5), WATTS)
def test_parts_add_up_to_the_meter_or_to_the_trays_where_these_are_more(meter, trays, switches):
    rack = rack_parts("r", meter, trays, switches)
    whole = max(meter, sum(watts or 0.0 for watts in trays.values()))
    assert sum(rack.parts.values()) == pytest.approx(whole, abs=1e-6)
    assert min(rack.parts.values()) >= -1e-9
    assert not rack.nodes or sum(rack.nodes.values()) == pytest.approx(whole, abs=1e-6)
    assert rack.disagreement_watts == pytest.approx(whole - meter, abs=1e-6)


def test_a_tray_that_is_not_measured_leaves_the_rest_unknown():
    rack = rack_parts("rack7", 104_000.0, {"tray1": 60_000.0, "tray2": None}, 3600.0)
    assert rack.parts == {"trays": 60_000.0, "switches": 3600.0, "loss": 0.0, "unmeasured": 40_400.0}
    assert rack.nodes == {}


def test_meters_of_a_rack_are_added_up_and_what_lies_or_is_old_is_left_out():
    racks = Enclosures({"rack7": RACK}, 150.0)
    pdu, other = replace(READING, meter="shelf2", power_watts=1000.0), replace(READING, enclosure="other")
    racks.absorb([READING, pdu, other], 1000.0)
    (found,) = racks.judge({"tray1": 90_000.0, "cpu1": 900.0}, 1010.0)
    assert (found.meter_watts, found.parts["trays"]) == (105_000.0, 90_000.0)
    for lie in (150_000.0, math.nan, -1.0):
        racks.absorb([replace(READING, time_s=1005.0, power_watts=lie)], 1010.0)
    assert racks.rejected == 3
    racks.absorb([replace(READING, time_s=9000.0)], 1010.0)
    assert racks.judge({"tray1": 90_000.0}, 1010.0)[0].meter_watts == 105_000.0
    assert racks.judge({"tray1": 90_000.0}, 1151.0) == ()


def test_the_accounting_tells_racks_beside_its_classes():
    accountant = WasteAccountant(WasteSettings(enclosures={"rack7": RACK}))
    nodes = (NodeReading("tray1", 1000.0, 50_000.0, "redfish"), NodeReading("tray2", 1000.0, 48_000.0, "redfish"))
    snapshot = SchedulerSnapshot(1000.0, (Node("tray1", ("p",), 4), Node("tray2", ("p",), 4)))
    found = accountant.assess(snapshot, Telemetry(nodes=nodes, enclosures=(READING,)), 1000.0)
    assert found.enclosures[0].parts["loss"] == pytest.approx(2400.0)
    assert sum(sum(classes.values()) for classes in found.totals.values()) == pytest.approx(98_000.0)


def test_pdus_and_shelves_of_one_rack_measure_the_same_watts_and_are_not_added_up():
    racks = Enclosures({"rack7": RACK}, 150.0)
    pdu = replace(READING, power_source="snmp", power_watts=53_000.0)
    left, right = replace(pdu, meter="left"), replace(pdu, meter="right")
    racks.absorb([READING, left, right], 1000.0)
    (found,) = racks.judge({"tray1": 98_000.0}, 1010.0)
    assert (found.meter_watts, sum(found.parts.values())) == (106_000.0, 106_000.0)
    racks.absorb([replace(READING, time_s=1100.0)], 1100.0)
    (found,) = racks.judge({"tray1": 98_000.0}, 1200.0)
    assert found.meter_watts == 104_000.0, "PDUs that no longer tell leave the shelves"


def told(racks, time_s, *meters, asked=()):
    """Absorb 1 kW of each meter; return the rack's watts, None where it is not judged."""
    racks.absorb([replace(READING, time_s=time_s, meter=meter, power_watts=1000.0) for meter in meters], time_s,
                 [EnclosureMeter("rack7", "redfish", meter) for meter in asked])
    found = racks.judge({"tray1": 500.0}, time_s)
    return found[0].meter_watts if found else None


def test_a_meter_that_was_renamed_does_not_blind_its_rack_for_ever():
    racks = Enclosures({"rack7": RACK}, 150.0)
    assert told(racks, 1000.0, "pdu-a", "pdu-b") == 2000.0
    assert told(racks, 2000.0, "new", "pdu-b") is None, "the old name may tell again"
    assert told(racks, 1000.0 + FORGET_AFTER_S + 1.0, "new", "pdu-b") == 2000.0


def test_one_new_meter_takes_the_place_of_one_and_what_it_does_not_replace_stays_unmeasured():
    racks = Enclosures({"rack7": RACK}, 150.0)
    assert told(racks, 1000.0, "pdu-a", "pdu-b") == 2000.0
    for later in (2000.0, 10_000.0, 90_000.0):
        assert told(racks, later, "new") is None, "half of a rack is not the rack"
    assert told(racks, 91_000.0, "new", "other") == 2000.0


@pytest.mark.parametrize("back", [60.0, 500.0, 99_000.0])
def test_a_clock_set_back_does_not_blind_a_rack(back):
    racks = Enclosures({"rack7": RACK}, 150.0)
    assert told(racks, 100_000.0, "pdu-a", "pdu-b") == 2000.0
    now = 100_000.0 - back
    assert told(racks, now, "pdu-a") is None, "the other has not told since"
    assert told(racks, now + 15.0, "pdu-a", "pdu-b") == 2000.0


def test_a_meter_renamed_before_the_clock_was_set_back_is_forgotten_as_well():
    racks = Enclosures({"rack7": RACK}, 150.0)
    told(racks, 100_000.0, "pdu-a")
    told(racks, 100_015.0, "new")
    assert told(racks, 10_000.0, "new") is None
    assert told(racks, 10_000.0 + FORGET_AFTER_S + 1.0, "new") == 1000.0


def test_a_meter_that_is_taken_out_of_the_configuration_is_the_racks_no_more():
    racks = Enclosures({"rack7": RACK}, 150.0)
    assert told(racks, 1000.0, "pdu-a", "pdu-b", asked=("pdu-a", "pdu-b")) == 2000.0
    assert told(racks, 1200.0, "pdu-b", asked=("pdu-a", "pdu-b")) is None, "silent, but there"
    assert told(racks, 1215.0, "pdu-b", asked=("pdu-b",)) == 1000.0
    assert told(racks, 1230.0) is None, "nothing is asked any more"


def test_a_rack_is_not_judged_before_each_of_its_meters_has_told_once():
    racks = Enclosures({"rack7": RACK}, 150.0)
    assert told(racks, 1000.0, "pdu-a", asked=("pdu-a", "pdu-b")) is None, "half of a rack is not the rack"
    assert told(racks, 9000.0, "pdu-a", asked=("pdu-a", "pdu-b")) is None
    assert told(racks, 9015.0, "pdu-a", "pdu-b", asked=("pdu-a", "pdu-b")) == 2000.0


def test_what_another_source_asks_stays_when_nobody_says_whether_it_is_asked():
    racks = Enclosures({"rack7": RACK}, 150.0)
    assert told(racks, 1000.0, "by-prometheus") == 1000.0
    assert told(racks, 1015.0) == 1000.0


@pytest.mark.parametrize("ahead", [0.0, 5.0, 37.0])
def test_a_rack_is_measured_though_the_clock_of_who_reads_its_meters_is_ahead(ahead):
    accountant = WasteAccountant(WasteSettings(enclosures={"rack7": RACK}), interval_s=15.0)
    snapshot = SchedulerSnapshot(1000.0, (Node("tray1", ("p",), 4),))
    for now in (1000.0, 1015.0, 1030.0):
        pdu = replace(READING, time_s=now + ahead)
        found = accountant.assess(snapshot, Telemetry(enclosures=(pdu,)), now)
        assert [rack.meter_watts for rack in found.enclosures] == [104_000.0]
    assert found.rejected["future"] == 0


def test_a_racks_reading_that_is_further_ahead_than_any_other_may_be_is_counted_with_them():
    accountant = WasteAccountant(WasteSettings(enclosures={"rack7": RACK}), interval_s=15.0)
    pdu, tray = replace(READING, time_s=1040.0), NodeReading("tray1", 1040.0, 50_000.0, "redfish")
    found = accountant.assess(SchedulerSnapshot(1000.0), Telemetry(nodes=(tray,), enclosures=(pdu,)), 1000.0)
    assert (found.enclosures, found.rejected["future"]) == ((), 2)


def test_the_meter_of_a_clock_that_was_ahead_is_not_fresh_for_ever():
    racks = Enclosures({"rack7": RACK}, 150.0, early_s=37.5)
    racks.absorb([replace(READING, time_s=1030.0)], 1000.0)
    assert racks.judge({}, 1180.0)
    assert racks.judge({}, 1181.0) == ()


def fewer(racks, times, count=7):
    """Absorb the sum of fewer shelves at each time; return what is judged at the last."""
    for time_s in times:
        racks.absorb([replace(READING, time_s=time_s, power_watts=91_000.0, meters=count)], time_s)
    return [rack.meter_watts for rack in racks.judge({"tray1": 500.0}, time_s)]


def test_shelves_that_a_controller_has_not_counted_for_a_day_are_removed_and_that_is_told(caplog):
    racks = Enclosures({"rack7": RACK}, 150.0)
    racks.absorb([READING], 1000.0)
    end_s = 1060.0 + REMOVED_AFTER_S
    assert fewer(racks, np.arange(1060.0, end_s, 60.0)) == []
    assert "removed" not in caplog.text
    assert fewer(racks, [end_s]) == [91_000.0]
    (line,) = caplog.records
    assert line.getMessage() == ("a meter of rack rack7 (shelf) adds up 7 power shelves or PDUs for a day, 8 before: "
                                 "the others are taken as removed")
    assert fewer(racks, [end_s + 60.0], count=6) == [91_000.0], "the next that is missing is missed anew"
    assert fewer(racks, [end_s + 300.0], count=6) == []


@pytest.mark.parametrize("between", [[replace(READING, time_s=40_000.0)], []])
def test_a_day_of_fewer_shelves_begins_anew_after_all_were_counted_or_none_was_heard_of(between):
    racks = Enclosures({"rack7": RACK}, 150.0)
    racks.absorb([READING], 1000.0)
    fewer(racks, np.arange(1060.0, 40_000.0, 60.0))
    racks.absorb(between, 40_000.0)
    assert fewer(racks, np.arange(44_000.0, 44_000.0 + REMOVED_AFTER_S, 60.0)) == []
    assert fewer(racks, [44_000.0 + REMOVED_AFTER_S]) == [91_000.0]


def test_of_different_counts_within_the_day_the_largest_is_what_is_left():
    racks = Enclosures({"rack7": RACK}, 150.0)
    racks.absorb([READING], 1000.0)
    times = np.arange(1060.0, 1061.0 + REMOVED_AFTER_S, 600.0)
    fewer(racks, times[:50])
    fewer(racks, times[50:100], count=5)
    assert fewer(racks, times[100:], count=6) == [], "two shelves come and go: a sixth of them is not the rack"


def test_a_clock_that_is_set_does_not_shorten_the_day():
    racks = Enclosures({"rack7": RACK}, 150.0)
    racks.absorb([READING], 200_000.0)
    fewer(racks, np.arange(200_060.0, 203_600.0, 60.0))
    assert fewer(racks, np.arange(103_600.0, 103_600.0 + REMOVED_AFTER_S - 7200.0, 60.0)) == []
    assert fewer(racks, np.arange(182_800.0, 103_600.0 + REMOVED_AFTER_S, 60.0)) == [91_000.0]


def test_a_meter_that_adds_up_fewer_than_before_falls_silent():
    racks = Enclosures({"rack7": RACK}, 150.0)
    racks.absorb([READING], 1000.0)
    for later in range(1015, 9000, 15):
        racks.absorb([replace(READING, time_s=later, power_watts=91_000.0, meters=7)], later)
    assert racks.judge({"tray1": 500.0}, 1100.0)[0].meter_watts == 104_000.0
    assert racks.judge({"tray1": 500.0}, 9000.0) == ()
    assert racks.partial > 0
    racks.absorb([replace(READING, time_s=9015.0)], 9015.0)
    assert racks.judge({"tray1": 500.0}, 9015.0)[0].meter_watts == 104_000.0
