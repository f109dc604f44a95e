"""node_exporter's pages: what its power meters measure, and what of servers they tell from one page to the next."""

import pytest

from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.node import METRICS, MeterBook, NodePages, judged, watts_of
from idlewatt.exporters.targets import Target


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
    drawn, source = watts_of(judged(meters(*watts), {}, {}))
    assert (drawn and pytest.approx(drawn), source) == found


def test_what_nobody_can_tell_says_what_to_do():
    assert {meter.why for meter in judged(meters(900, 500, 400, 300), {}, {})} == {
        "several that do not add up: configure power_meters"}


def test_what_is_configured_wins_and_the_rest_is_left_out():
    found = judged(meters(900, 500, 300), {}, {"*:00": "module", "*:01": "module"})
    assert [meter.role for meter in found] == ["module", "module", "part"]
    assert watts_of(found) == (1400, "modules")


def test_beside_an_acpi_meter_other_chips_are_parts():
    found = judged({"lnxsybus:00_acpi000d:00": 812.0, "0000:03:00_0": 900.0}, {}, {})
    assert watts_of(found) == (812, "hwmon")


def test_what_was_once_told_apart_stays_so_while_the_meters_are_the_same():
    book = MeterBook()
    assert watts_of(book.judge("t1", meters(1500, 1480), {})) == (2980, "modules")
    assert watts_of(book.judge("t1", meters(1500, 200), {})) == (1700, "modules")
    assert watts_of(book.judge("t2", meters(1500, 200), {})) == (None, "")
    assert watts_of(book.judge("t1", meters(1500, 200, 90), {})) == (None, "")


@pytest.mark.parametrize("unread", [float("nan"), float("inf"), -1.0, 1e7])
def test_a_module_without_a_reading_leaves_its_tray_unmeasured(unread):
    assert watts_of(MeterBook().judge("t1", meters(1500, unread), {})) == (None, ""), "the other is not the wall"
    told = {name: "module power socket 0" for name in meters(1, 2)}
    assert watts_of(MeterBook().judge("t1", meters(1500, unread), told)) == (None, "")
    assert watts_of(MeterBook({"*": "wall"}).judge("t1", meters(1500, unread), {})) == (None, "")
    part = {"lnxsybus:00_acpi000d:00": 812.0, "0000:03:00_0": unread}
    assert watts_of(MeterBook().judge("t1", part, {})) == (812, "hwmon"), "a device's own meter is none of the server's"


@pytest.mark.parametrize("silent", [(1500,), (1500, 0)])
def test_the_module_that_is_left_when_the_other_is_silent_is_not_the_wall(silent):
    book = MeterBook()
    assert watts_of(book.judge("t1", meters(1500, 1480), {})) == (2980, "modules")
    assert watts_of(book.judge("t1", meters(*silent), {})) == (None, "")
    assert watts_of(book.judge("t1", meters(1500, 200), {})) == (1700, "modules")


def test_a_meter_that_is_silent_for_a_day_is_removed_and_that_is_told(caplog):
    book = MeterBook({"*:00": "wall", "*:01": "wall"})
    assert watts_of(book.judge("t1", meters(400, 410), {}, 0.0)) == (810, "hwmon")
    assert watts_of(book.judge("t1", meters(400), {}, 15.0)) == (None, "")
    assert watts_of(book.judge("t1", meters(400), {}, 86_414.0)) == (None, "")
    assert caplog.text == ""
    assert watts_of(book.judge("t1", meters(400), {}, 86_415.0)) == (400, "hwmon")
    assert "power meters of t1 that are silent for a day are taken as removed: lnxsybus:00_acpi000d:01" in caplog.text
    for now_s in (90_000.0, 200_000.0):
        assert watts_of(book.judge("t1", meters(400, 0), {}, now_s)) == (400, "hwmon")


TARGET = Target("http://dgx-01:9100/metrics", "dgx-01:9100")


def read(page: str | bytes, pages: NodePages | None = None, target: Target = TARGET):
    raw = page if isinstance(page, bytes) else page.encode()
    nodes = (pages or NodePages()).parse(Exposition(METRICS).samples(raw), target, 100.0).nodes
    assert len(nodes) == 1
    return nodes[0]


def cpu(idle: float, user: float, iowait: float = 0.0) -> str:
    return "".join(f'node_cpu_seconds_total{{cpu="0",mode="{mode}"}} {value}\n'
                   for mode, value in {"idle": idle, "iowait": iowait, "user": user}.items())


def test_a_recorded_page_gives_memory_and_the_servers_own_name(recorded):
    reading = read(recorded("node_exporter.prom"))
    assert reading.memory_total_bytes > reading.memory_used_bytes > 0
    assert reading.cpu_busy_ratio is None
    assert (reading.power_watts, reading.power_source) == (None, "")


def test_busy_is_not_the_share_since_a_page_of_hours_ago():
    pages = NodePages()
    busy = [pages.parse(Exposition(METRICS).samples(page.encode()), TARGET, time_s).nodes[0].cpu_busy_ratio
            for page, time_s in ((cpu(100, 50), 0.0), (cpu(100, 36_000), 36_000.0), (cpu(115, 36_000), 36_015.0))]
    assert busy == [None, None, 0.0]


def test_busy_is_the_share_since_the_last_page():
    pages = NodePages()
    busy = [read(page, pages).cpu_busy_ratio for page in (cpu(100, 50), cpu(106, 53, 1), cpu(106, 63, 1))]
    assert busy == [None, pytest.approx(0.3), 1.0]


@pytest.mark.parametrize("after", [cpu(0, 1), cpu(100, 50), cpu(float("nan"), 60)])
def test_counters_that_restart_or_stand_still_are_unmeasured(after):
    pages = NodePages()
    read(cpu(100, 50), pages)
    assert read(after, pages).cpu_busy_ratio is None


def test_the_target_label_names_the_server_then_its_own_name_then_its_address():
    named = 'node_uname_info{nodename="dgx-07"} 1\n'
    assert read(named + cpu(1, 1), target=Target("u", "10.0.0.1:9100", {"node": "n1"})).node == "n1"
    assert read(named + cpu(1, 1)).node == "dgx-07"
    assert read(cpu(1, 1)).node == "dgx-01"


def test_the_acpi_meter_is_the_wall():
    page = ('node_hwmon_power_average_watt{chip="LNXSYSTM:00_LNXSYBUS:00_ACPI000D:00",sensor="power1"} 812\n'
            'node_hwmon_power_average_watt{chip="0000:03:00_0",sensor="power1"} 900\n')
    assert (read(page).power_watts, read(page).power_source) == (812, "hwmon")


def test_available_memory_above_the_total_is_unmeasured():
    assert read("node_memory_MemTotal_bytes 10\nnode_memory_MemAvailable_bytes 20\n").memory_used_bytes is None


def test_a_page_without_our_metrics_gives_nothing():
    assert NodePages().parse([], TARGET, 1.0).nodes == ()


def grace(*modules: tuple[float, float, float, float]) -> str:
    meters = [watts for module in modules for watts in module]
    return "".join(f'node_hwmon_power_average_watt{{chip="lnxsybus:00_acpi000d:{number:02x}"}} {watts}\n'
                   for number, watts in enumerate(meters))


def test_two_grace_modules_are_added_up_and_called_modules_not_the_wall():
    """The trap: the largest ACPI meter of such a tray is one module."""
    reading = read(grace((1500, 310, 280, 30), (1480, 300, 272, 28)))
    assert (reading.power_watts, reading.power_source) == (2980, "modules")


def test_a_single_grace_module_is_no_wall_either():
    assert read(grace((600, 150, 120, 28))).power_source == "modules"


@pytest.mark.parametrize("label", [
    'node_hwmon_sensor_label{{chip="lnxsybus:00_acpi000d:{number:02x}",sensor="power1",label="{name}"}} 1\n',
    'node_power_meter_info{{meter="ACPI000D:{number:02x}",model_number="",serial_number="",oem_info="{name}"}} 1\n'])
def test_meters_are_what_the_firmware_calls_them(label):
    names = ("Grace Power Socket 0", "Module Power Socket 0", "CPU Power Socket 0", "Module Power Socket 1")
    page = grace((900, 700, 100, 650)) + "".join(label.format(number=number, name=name)
                                                 for number, name in enumerate(names))
    assert (read(page).power_watts, read(page).power_source) == (1350, "modules")


def test_a_site_says_which_meter_is_which():
    pages = NodePages({"*acpi000d:00": "wall", "*": "part"})
    assert (read(grace((1500, 310, 280, 30)), pages).power_watts, read(grace((1500, 310, 280, 30)), pages).power_source
            ) == (1500, "hwmon")


def test_the_meter_of_a_device_is_no_wall():
    page = "".join(f'node_hwmon_power_average_watt{{chip="0000:0{bus}:00_0_0000:0c:00_0",sensor="power1"}} 750\n'
                   for bus in range(8))
    assert read(cpu(1, 1) + page).power_watts is None


def ports(*moved, rates=(1e9, 1e9)):
    """Return RDMA ports with what each has sent in bytes, and what it can send in a second."""
    sent = "".join(f'node_infiniband_port_data_transmitted_bytes_total{{device="m{place}",port="1"}} {count}\n'
                   for place, count in enumerate(moved))
    return cpu(100, 50) + sent + "".join(f'node_infiniband_rate_bytes_per_second{{device="m{place}",port="1"}} {rate}\n'
                                         for place, rate in enumerate(rates))


@pytest.mark.parametrize(("after", "share"), [
    (ports(1e10, 2e10), 0.75), (ports(1e10, 5.0), None), (ports(1e10, "NaN"), None),
    (ports(1e10, 2e10, rates=(1e9, "NaN")), None)])
def test_what_one_port_does_not_tell_is_not_the_share_of_the_others(after, share):
    pages = NodePages()
    found = [pages.parse(Exposition(METRICS).samples(page.encode()), TARGET, time_s).nodes[0].fabric_ratio
             for page, time_s in ((ports(0, 10), 0.0), (after, 10.0))]
    assert found == [None, share and pytest.approx(share)]
