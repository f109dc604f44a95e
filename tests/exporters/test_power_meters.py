"""Which power meter is which: as configured, as the firmware calls it, or as the numbers add up."""

import pytest

from idlewatt.exporters.power_meters import MeterBook, judged, total


def meters(*watts):
    return {f"lnxsybus:00_acpi000d:{number:02x}": float(number_of) for number, number_of in enumerate(watts)}


@pytest.mark.parametrize(("watts", "found"), [
    ((812,), (812, "hwmon")),                                     # an x86 server
    ((812, 0), (812, "hwmon")),                                   # a meter that measures nothing
    ((812, 200), (None, "")),                                     # a wall and a part, or two modules
    ((1500, 1480), (2980, "modules")),                            # two modules and nothing else
    ((1500, 310, 280, 30), (1500, "modules")),                    # a GH200
    ((1500, 310, 280, 30, 1480, 300, 272, 28), (2980, "modules")),  # a GB200 tray
    ((165.6, 35.1, 30.4, 0.1, 197.1, 36.7, 35.1, 0.2), (362.7, "modules")),  # idle modules of a public reading
    ((900, 500, 400, 300), (None, "")),                           # nobody can tell
    ((), (None, "")), ((0, 0), (None, ""))])
def test_unnamed_meters_are_judged_by_how_they_add_up(watts, found):
    drawn, source = total(judged(meters(*watts), {}, {}))
    assert (drawn and pytest.approx(drawn), source) == found


def test_what_nobody_can_tell_says_what_to_do():
    assert {meter.why for meter in judged(meters(900, 500, 400, 300), {}, {})} == {
        "several that do not add up: configure power_meters"}


def test_what_is_configured_wins_and_the_rest_is_left_out():
    found = judged(meters(900, 500, 300), {}, {"*:00": "module", "*:01": "module"})
    assert [meter.role for meter in found] == ["module", "module", "part"]
    assert total(found) == (1400, "modules")


def test_beside_an_acpi_meter_other_chips_are_parts():
    found = judged({"lnxsybus:00_acpi000d:00": 812.0, "0000:03:00_0": 900.0}, {}, {})
    assert total(found) == (812, "hwmon")


def test_what_was_once_told_apart_stays_so_while_the_meters_are_the_same():
    book = MeterBook()
    assert total(book.judge("t1", meters(1500, 1480), {})) == (2980, "modules")
    assert total(book.judge("t1", meters(1500, 200), {})) == (1700, "modules")
    assert total(book.judge("t2", meters(1500, 200), {})) == (None, "")
    assert total(book.judge("t1", meters(1500, 200, 90), {})) == (None, "")
