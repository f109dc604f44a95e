"""Racks by their PDUs: counts become watts by what the MIB says, and a PDU of no rack is a fault."""

import pytest

from idlewatt.exporters.exposition import Exposition, Series
from idlewatt.exporters.pdu import KNOWN, parse, racks
from idlewatt.exporters.source import SourceError
from idlewatt.exporters.targets import Target

RACK = Target("http://snmp:9116/snmp?target=pdu1", "pdu1", {"enclosure": "rack7"})
PAGE = ('# written by hand after PowerNet-MIB\nrPDU2DeviceStatusPower{rPDU2DeviceStatusIndex="1"} 613\n'
        'rPDU2DeviceStatusPower{rPDU2DeviceStatusIndex="2"} 587\n'
        'rPDU2DeviceStatusPower{rPDU2DeviceStatusIndex="3"} -1\n')


def read(page, scales=KNOWN, target=RACK):
    return parse(Exposition(scales).samples(page.encode()), target, 100.0, scales).enclosures


def test_apcs_hundredths_of_a_kilowatt_are_ten_watts_each_and_those_that_do_not_measure_are_left_out():
    (rack,) = read(PAGE)
    assert (rack.enclosure, rack.power_watts, rack.meters, rack.power_source) == ("rack7", 12_000.0, 2, "snmp")


def test_a_metric_that_the_site_names_comes_first_in_its_unit():
    (rack,) = read(PAGE + "inputTotalWatts 11870\n", {"inputTotalWatts": 1.0, **KNOWN})
    assert rack.power_watts == 11_870.0


def test_a_page_without_power_and_a_pdu_of_no_rack_are_faults():
    with pytest.raises(SourceError, match="none of rPDU2DeviceStatusPower"):
        read("sysUpTime 5\n")
    with pytest.raises(SourceError, match="no label `enclosure`"):
        read(PAGE, target=Target("http://snmp/", "pdu1"))


@pytest.mark.parametrize("reading", ["NaN", "+Inf", "1e6", "2147483647"])
def test_a_pdu_one_of_whose_rows_has_no_reading_is_not_the_sum_of_the_others(reading):
    lost = PAGE.replace("587", reading)
    with pytest.raises(SourceError, match="rPDU2DeviceStatusPower has a row without a reading: the sum of the others"):
        read(lost)
    (rack,) = read(lost + "inputTotalWatts 11870\n", {**KNOWN, "inputTotalWatts": 1.0})
    assert rack.power_watts == 11_870.0, "the next metric is whole"


def asked(*watts, job="snmp"):
    """Return the samples of one PDU as a Prometheus tells them, a row for each number."""
    return [(Series("rPDU2DeviceStatusPower", {"enclosure": "rack7", "instance": "pdu1", "job": job, "row": str(row)}),
             value) for row, value in enumerate(watts)]


def test_a_prometheus_does_not_tell_a_pdu_without_one_of_its_rows_either():
    def told(samples):
        return [rack.power_watts for rack in racks({"rPDU2DeviceStatusPower": samples}, lambda labels: 100.0)]

    assert told(asked(613, 587, -1)) == [12_000.0]
    assert told(asked(613, float("nan"))) == []
    assert told(asked(613, float("nan")) + asked(613, 587, job="again")) == [12_000.0]
