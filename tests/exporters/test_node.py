"""node_exporter's page: CPU as a difference, memory, and the power meter."""

import pytest

from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.node import METRICS, NodePages
from idlewatt.exporters.targets import Target

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
