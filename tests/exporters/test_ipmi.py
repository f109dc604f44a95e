"""Wall power by management controllers: which metric wins, and when 0 W is true."""

import pytest

from idlewatt.exporters.cgroup import CgroupConfig
from idlewatt.exporters.exposition import Exposition, Series
from idlewatt.exporters.ipmi import METRICS, IpmiConfig, parse, servers
from idlewatt.exporters.source import SourceError
from idlewatt.exporters.targets import Target

TARGET = Target("http://dgx-01:9290/metrics", "dgx-01:9290")
SUPPLIES = ('ipmi_power_watts{id="1",name="PSU1 Input Power"} 400\nipmi_power_watts{id="2",name="PS2 Power In"} 300\n'
            'ipmi_power_watts{id="3",name="PS2 Power Out"} 280\n')


def watts(page: str | bytes):
    raw = page if isinstance(page, bytes) else page.encode()
    readings = parse(Exposition(METRICS).samples(raw), TARGET, 100.0).nodes
    assert len(readings) == 1
    return readings[0].power_watts, readings[0].power_source


def test_a_recorded_page_gives_the_dcmi_reading(recorded):
    assert watts(recorded("ipmi_exporter_1.6.1.prom")) == (2431, "ipmi")


@pytest.mark.parametrize(("page", "expected"), [
    ("ipmi_dcmi_power_consumption_current_watts 900\n", (900, "ipmi")),
    ("redfish_chassis_power_average_consumed_watts 910\n", (910, "redfish")),
    ('ceems_redfish_current_watts{chassis="a"} 500\nceems_redfish_current_watts{chassis="b"} 300\n', (800, "redfish")),
    ("ceems_ipmi_dcmi_current_watts 700\n", (700, "ceems")),
    ('kepler_platform_watts{chassis_id="A",source_id="PS1",source="redfish"} 245\n'
     'kepler_platform_watts{chassis_id="A",source_id="PS2",source="redfish"} 250\n'
     'kepler_platform_watts{chassis_id="B",source_id="PC1",source="redfish"} 400\n', (495, "redfish")),
    ('kepler_platform_watts{source="acpi"} 245\nceems_host_power_watts 800\n', (800, "ceems")),
    ('idrac_power_supply_input_watts{id="0"} 89\nidrac_power_supply_input_watts{id="1"} 91\n', (180, "redfish")),
    ('ceems_cray_pm_counters_power_watts{domain="node"} 900\nceems_cray_pm_counters_power_watts{domain="cpu"} 300\n',
     (900, "ceems")),
    ("ceems_ipmi_dcmi_current_watts 700\nipmi_dcmi_power_consumption_watts 710\n", (710, "ipmi")),
    (SUPPLIES, (700, "ipmi")),
    ("ipmi_dcmi_power_consumption_watts 0\n" + SUPPLIES, (700, "ipmi"))])
def test_the_best_metric_wins(page, expected):
    assert watts(page) == expected


@pytest.mark.parametrize(("page", "meter", "parts"), [
    (SUPPLIES, "ipmi_power_watts", 2),
    (SUPPLIES.partition("\n")[2], "ipmi_power_watts", 1),
    ("ipmi_dcmi_power_consumption_watts 900\n" + SUPPLIES, "ipmi_dcmi_power_consumption_watts", 1),
    ('idrac_power_supply_input_watts{id="0"} 89\nidrac_power_supply_input_watts{id="1"} 0\n',
     "idrac_power_supply_input_watts", 2),
    ('kepler_platform_watts{chassis_id="A"} 245\nkepler_platform_watts{chassis_id="B"} 9\n',
     "kepler_platform_watts", 2)])
def test_a_reading_says_of_how_many_parts_it_is_the_sum(page, meter, parts):
    """Else a supply that vanishes from the page cannot be told from one that draws nothing."""
    (reading,) = parse(Exposition(METRICS).samples(page.encode()), TARGET, 100.0).nodes
    assert (reading.meter, reading.meters) == (meter, parts)


@pytest.mark.parametrize("value", ["0", "NaN", "-5", "9.2e18", "1e7", "+Inf"])
def test_a_bmc_that_reports_nothing_measures_nothing(value):
    assert watts(f"ipmi_dcmi_power_consumption_watts {value}\nipmi_chassis_power_state 1\n") == (None, "")


def test_zero_watts_are_true_while_the_chassis_is_off():
    assert watts("ipmi_dcmi_power_consumption_watts 0\nipmi_chassis_power_state 0\n") == (0, "ipmi")


def test_standby_watts_of_a_chassis_that_is_off_are_kept():
    assert watts("ipmi_dcmi_power_consumption_watts 9\nipmi_chassis_power_state 0\n") == (9, "ipmi")


def test_a_chassis_that_is_off_does_not_draw_nothing_while_one_of_its_supplies_reads_more():
    page = SUPPLIES + 'ipmi_power_watts{id="4",name="PS3 Power In"} NaN\nipmi_chassis_power_state 0\n'
    assert watts(page) == (None, "")


def test_a_supply_that_stands_twice_counts_once():
    assert watts(SUPPLIES + SUPPLIES) == (700, "ipmi")


@pytest.mark.parametrize("missing", ["NaN", "-1", "+Inf", "1e7"])
@pytest.mark.parametrize("page", [
    'ipmi_power_watts{{id="1",name="PSU1 Input Power"}} 400\nipmi_power_watts{{id="2",name="PS2 Power In"}} {0}\n',
    'ipmi_power_watts{{id="1",name="PSU1 Input Power"}} {0}\nipmi_power_watts{{id="2",name="PS2 Power In"}} 400\n',
    'idrac_power_supply_input_watts{{id="0"}} 89\nidrac_power_supply_input_watts{{id="1"}} {0}\n',
    'ceems_redfish_current_watts{{chassis="a"}} 500\nceems_redfish_current_watts{{chassis="b"}} {0}\n',
    'kepler_platform_watts{{chassis_id="A",source_id="PS1"}} 245\n'
    'kepler_platform_watts{{chassis_id="A",source_id="PS2"}} {0}\n'
    'kepler_platform_watts{{chassis_id="B",source_id="PC1"}} 400\n'])
def test_a_sum_without_one_of_its_summands_is_no_measurement(page, missing):
    assert watts(page.format(missing)) == (None, "")


def test_a_supply_without_a_reading_takes_nothing_from_a_meter_of_the_whole_server():
    page = SUPPLIES + 'ipmi_power_watts{id="4",name="PS3 Power In"} NaN\n'
    assert watts(page + "ipmi_dcmi_power_consumption_watts 710\n") == (710, "ipmi")
    assert watts(page + "ipmi_dcmi_power_consumption_watts NaN\n") == (None, "")


def test_a_supply_in_standby_draws_nothing_and_one_that_stands_twice_is_measured_once():
    page = 'ipmi_power_watts{id="4",name="PS3 Power In"} '
    assert watts(f"{SUPPLIES}{page}0\n") == (700, "ipmi")
    assert watts(f"{SUPPLIES}{page}NaN\n{page}100\n{page}NaN\n") == (800, "ipmi")


def test_many_controllers_are_asked_through_one_exporter(loopback, recorded, clock):
    loopback.pages["/ipmi"] = recorded("ipmi_exporter_1.6.1.prom")
    config = IpmiConfig(exporter=loopback.address, module="dcmi", static_configs=[
        {"targets": ["10.1.0.1"], "labels": {"node": "dgx-01"}}, {"targets": ["10.1.0.2"]}])
    nodes = config.build(clock).read().nodes
    assert [(node.node, node.power_watts) for node in nodes] == [("dgx-01", 2431), ("10.1.0.2", 2431)]
    assert sorted(path for path, _ in loopback.requests) == [
        "/ipmi?target=10.1.0.1&module=dcmi", "/ipmi?target=10.1.0.2&module=dcmi"]


def test_a_page_that_speaks_for_more_servers_than_one_may_is_refused(loopback, clock):
    def read(servers, **options):
        loopback.pages["/metrics"] = "".join(f'ipmi_dcmi_power_consumption_watts{{node="x{number}"}} 45000\n'
                                             for number in range(servers)).encode()
        return IpmiConfig(targets=(loopback.address,), **options).build(clock).read()

    assert len(read(64).nodes) == 64
    with pytest.raises(SourceError, match=r"speaks for 19000 servers, more than 64 \(server_limit\)"):
        read(19_000)
    assert len(read(65, server_limit=65).nodes) == 65, "one page may rightly tell of many"


def test_servers_named_by_gpus_or_jobs_are_counted_too(loopback, clock):
    loopback.pages["/metrics"] = "".join(f'cgroup_cpu_total_seconds{{node="x{number}",jobid="7"}} 1\n'
                                         for number in range(65)).encode()
    with pytest.raises(SourceError, match="speaks for 65 servers"):
        CgroupConfig(targets=(loopback.address,)).build(clock).read()


def test_a_servers_watts_are_no_younger_than_the_exporter_that_tells_them():
    ages = {"ipmi": 10.0, "ceems": 115.0}
    rows = [(Series("ipmi_dcmi_power_consumption_watts", {"job": "ipmi"}), 710.0),
            (Series("ceems_host_power_watts", {"job": "ceems"}), 700.0)]
    (found,) = servers(rows, lambda labels: "n", lambda labels: ages[labels["job"]])
    assert (found.power_watts, found.time_s) == (710.0, 10.0)
    (found,) = servers(rows[::-1], lambda labels: "n", lambda labels: 125.0 - ages[labels["job"]])
    assert (found.power_watts, found.time_s) == (710.0, 115.0)
