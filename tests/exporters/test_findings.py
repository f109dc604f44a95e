"""A page that answers but shows nothing of what it is read for is a fault, told with what it shows instead."""

import pytest

from idlewatt.exporters.amd import AmdConfig
from idlewatt.exporters.amd_smi import AmdSmiConfig
from idlewatt.exporters.dcgm import DcgmConfig
from idlewatt.exporters.gaudi import GaudiConfig
from idlewatt.exporters.ipmi import IpmiConfig
from idlewatt.exporters.node import NodeConfig
from idlewatt.exporters.nvidia_smi import NvidiaSmiConfig
from idlewatt.exporters.source import SourceError

POWER = b'DCGM_FI_DEV_POWER_USAGE{gpu="%d",UUID="GPU-%d",Hostname="%s"} 60\n'


def fault(config, loopback, clock, page, **options):
    loopback.pages["/metrics"] = page
    reader = config(targets=(loopback.address,), **options).build(clock)
    with pytest.raises(SourceError) as caught:
        reader.read()
    assert [health.up for health in reader.health()] == [False]
    return str(caught.value)


def test_another_exporters_page_is_told_apart(loopback, clock, recorded):
    said = fault(DcgmConfig, loopback, clock, recorded("node_exporter.prom"))
    assert "no GPU on this page: it shows node_" in said
    assert "(is this node_exporter?)" in said
    said = fault(NodeConfig, loopback, clock, recorded("dcgm_h100_8gpu_k8s.prom"))
    assert "no server on this page: it shows DCGM_FI_" in said
    assert "(is this dcgm-exporter?)" in said


def test_an_exporter_that_finds_no_gpu_is_a_fault(loopback, clock):
    page = b'DCGM_FI_DEV_POWER_USAGE{nvswitch="0"} 60\nother 1\n'
    assert "no GPU on this page: it shows DCGM_FI_DEV_POWER_USAGE, other" in fault(DcgmConfig, loopback, clock, page)


@pytest.mark.parametrize(("config", "page", "whose"), [
    (DcgmConfig, "amd_mi300x_spx_hand_written.prom", "AMD's device-metrics-exporter"),
    (AmdConfig, "amd_smi_mi250x_hand_written.prom", "an exporter of AMD GPUs"),
    (AmdSmiConfig, "gaudi2_hand_written.prom", "Intel's Gaudi metric exporter"),
    (GaudiConfig, "nvidia_smi/h100_idle.prom", "nvidia_gpu_exporter"),
    (NvidiaSmiConfig, "dcgm_h100_8gpu_k8s.prom", "dcgm-exporter")])
def test_the_page_of_another_vendors_exporter_is_a_fault_that_names_it(loopback, clock, recorded, config, page, whose):
    said = fault(config, loopback, clock, recorded(page))
    assert "no GPU on this page: it shows " in said
    assert f"(is this {whose}?)" in said


def test_a_controller_that_measures_nothing_is_a_fault(loopback, clock):
    page = b'ipmi_up{collector="dcmi"} 0\nipmi_chassis_power_state 1\n'
    said = fault(IpmiConfig, loopback, clock, page)
    assert "no power meter on this page: it shows ipmi_up, ipmi_chassis_power_state (is this ipmi_exporter?)" in said


def test_a_server_that_is_off_draws_nothing_and_is_no_fault(loopback, clock):
    loopback.pages["/metrics"] = b"ipmi_chassis_power_state 0\n"
    assert [node.power_watts for node in IpmiConfig(targets=(loopback.address,)).build(clock).read().nodes] == [0]


@pytest.mark.parametrize("name", [b"localhost", b"localhost.localdomain"])
def test_a_node_called_localhost_is_a_fault_not_a_node(loopback, clock, name):
    said = fault(DcgmConfig, loopback, clock, POWER % (0, 0, name))
    assert f"the server is called {name.decode()}, which is no node's name: give this target the label `node`" in said
    page = b'node_uname_info{nodename="%s"} 1\nnode_memory_MemTotal_bytes 1e9\n' % name
    assert "is called localhost" in fault(NodeConfig, loopback, clock, page)


def test_a_name_that_the_operator_gives_is_taken(loopback, clock):
    loopback.pages["/metrics"] = POWER % (0, 0, b"localhost")
    labelled = DcgmConfig(static_configs=[{"targets": [loopback.address], "labels": {"node": "dgx-01"}}])
    assert [gpu.node for gpu in labelled.build(clock).read().gpus] == ["dgx-01"]


def test_a_target_with_thousands_of_gpus_is_refused(loopback, clock):
    page = b"".join(POWER % (gpu, gpu, b"dgx-01") for gpu in range(1000))
    assert "shows 1000 GPUs, more than 64 (gpu_limit)" in fault(DcgmConfig, loopback, clock, page)


def test_samples_that_say_they_are_old_are_no_reading(loopback, clock):
    stale = POWER.replace(b"60\n", b"60 %d\n") % (0, 0, b"dgx-01", (clock.now - 3600) * 1000)
    said = fault(DcgmConfig, loopback, clock, stale)
    assert "no GPU on this page but 1 samples whose own timestamps are too old (max_age)" in said


def test_a_reading_is_as_old_as_its_oldest_sample(loopback, clock):
    loopback.pages["/metrics"] = POWER.replace(b"60\n", b"60 %d\n") % (0, 0, b"dgx-01", (clock.now - 40) * 1000)
    assert [gpu.time_s for gpu in DcgmConfig(targets=(loopback.address,)).build(clock).read().gpus] == [clock.now - 40]


def test_reading_a_page_is_within_the_timeout(loopback, clock, answer):
    page = b"".join(b'DCGM_FI_DEV_POWER_USAGE{gpu="0",a="\\"%d"} 1 5\n' % number for number in range(19_000))
    loopback.pages["/metrics"] = page
    assert "timeout" in fault(DcgmConfig, loopback, clock, page, timeout=0.2)
