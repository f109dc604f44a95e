"""One GPU or server of the same watts under every name that it is told by, on a page and through Prometheus."""

import pytest

from idlewatt.exporters import amd, amd_smi, dcgm, gaudi, ipmi, nvidia_smi, pdu
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.node import MeterBook
from idlewatt.exporters.prometheus_api import _GPU_FACTS, PrometheusConfig, queries, telemetry
from idlewatt.exporters.targets import Target

TARGET = Target("http://n1:9400/metrics", "n1:9400")
NVIDIA = 'gpu="0",UUID="GPU-0",modelName="NVIDIA H100 80GB HBM3"'
AMD = 'gpu_id="0",gpu_partition_id="0",card_model="Instinct MI300X",serial_number="SN00"'
SAME = {
    "dcgm": f'DCGM_FI_DEV_POWER_USAGE{{{NVIDIA},Hostname="n1"}} 412.5',
    "dcgm, instant": f'DCGM_FI_DEV_POWER_USAGE_INSTANT{{{NVIDIA},Hostname="n1"}} 412.5',
    "dcgm since 4.6": f'DCGM_FI_DEV_BOARD_POWER_WATTS{{{NVIDIA},hostname="n1"}} 412.5',
    "dcgm since 4.6, instant": f'DCGM_FI_DEV_BOARD_POWER_RAW_WATTS{{{NVIDIA},hostname="n1"}} 412.5',
    "dcgm, both": f'DCGM_FI_DEV_POWER_USAGE{{{NVIDIA},Hostname="n1"}} 412.5\n'
                  f'DCGM_FI_DEV_BOARD_POWER_WATTS{{{NVIDIA},hostname="n1"}} 412.5',
    "nvidia_smi": 'nvidia_smi_power_draw_watts{uuid="0"} 412.5\n'
                  'nvidia_smi_gpu_info{uuid="0",name="NVIDIA H100 80GB HBM3",index="0"} 1',
    "nvidia_smi, instant": 'nvidia_smi_power_draw_instant_watts{uuid="0"} 412.5\n'
                           'nvidia_smi_gpu_info{uuid="0",name="NVIDIA H100 80GB HBM3",index="0"} 1',
    "amd": f'gpu_package_power{{{AMD},hostname="n1"}} 412.5',
    "amd, MI2xx": f'gpu_average_package_power{{{AMD},hostname="n1"}} 412.5',
    "amd, both": f'gpu_power_usage{{{AMD},hostname="n1"}} 412.5',
    "amd, with the operator's prefix": f'amd_gpu_package_power{{{AMD},hostname="n1"}} 412.5',
    "amd_smi in microwatts": 'amd_gpu_power{gpu_power="0",productname="MI250X"} 412500000',
    "amd_smi in milliwatts": 'amd_gpu_power{gpu_power="0",productname="MI250X"} 412500',
    "amd_smi in watts": 'amd_gpu_power_avg{gpu_power_avg="0",productname="MI250X"} 412.5',
    "gaudi in milliwatts": 'habanalabs_power_mW{id="0",UUID="01P0"} 412500',
}
PARSERS = {"dcgm": (dcgm.parse, dcgm.METRICS), "nvidia_smi": (nvidia_smi.parse, nvidia_smi.METRICS),
           "amd": (amd.parse, amd.METRICS), "amd_smi": (amd_smi.parse, amd_smi.METRICS),
           "gaudi": (gaudi.parse, gaudi.METRICS)}
WALLS = {
    "ipmi_exporter": ("ipmi_dcmi_power_consumption_watts 2431", "ipmi"),
    "ipmi_exporter, as documented": ("ipmi_dcmi_power_consumption_current_watts 2431", "ipmi"),
    "ipmi_exporter, supplies": ('ipmi_power_watts{id="1",name="PSU1 Input Power"} 1231\n'
                                'ipmi_power_watts{id="2",name="PSU2 Input Power"} 1200', "ipmi"),
    "redfish_exporter": ('redfish_chassis_power_average_consumed_watts{chassis_id="1"} 2431', "redfish"),
    "idrac_exporter": ('idrac_power_control_consumed_watts{id="0",name="System Power Control"} 2431', "redfish"),
    "idrac_exporter, supplies": ('idrac_power_supply_input_watts{id="0"} 1231\n'
                                 'idrac_power_supply_input_watts{id="1"} 1200', "redfish"),
    "kepler": ('kepler_platform_watts{node_name="n1",bmc_id="b",chassis_id="Self",source="redfish",'
               'source_type="PowerControl"} 2431', "redfish"),
    "ceems, redfish": ('ceems_redfish_current_watts{chassis="1"} 2431', "redfish"),
    "ceems, dcmi": ("ceems_ipmi_dcmi_current_watts 2431", "ceems"),
    "ceems, cray": ('ceems_cray_pm_counters_power_watts{domain="node"} 2431', "ceems"),
    "ceems, rule": ("ceems_host_power_watts 2431", "ceems"),
}
_ALL = {*dcgm.METRICS, *nvidia_smi.METRICS, *amd.METRICS, *amd_smi.METRICS, *gaudi.METRICS, *ipmi.METRICS,
        *pdu.KNOWN}


def samples(page, metrics):
    return Exposition(metrics).samples((page + "\n").encode())


def through_prometheus(page):
    """Return what a Prometheus that has scraped this page answers to the questions that are asked."""
    config = PrometheusConfig(url="http://p")
    answers = {name: [] for name in queries(config)}
    for series, value in samples(page, _ALL):
        labels = {**series.labels, "job": "exporter", "instance": "n1:9400"}
        for fact in answers:
            if series.name in _GPU_FACTS.get(fact, (fact,)):
                answers[fact].append((series._replace(labels=labels), value))
    return telemetry(answers, 100.0, 120.0, MeterBook())


@pytest.mark.parametrize("told", SAME)
def test_a_gpu_has_the_same_watts_under_every_name(told):
    parse, metrics = PARSERS[told.partition(",")[0].partition(" ")[0]]
    for found in (parse(samples(SAME[told], metrics), TARGET, 100.0), through_prometheus(SAME[told])):
        (gpu,) = found.gpus
        assert (gpu.node, gpu.index, gpu.power_watts) == ("n1", 0, 412.5)


@pytest.mark.parametrize("told", WALLS)
def test_a_server_has_the_same_watts_under_every_name(told):
    page, source = WALLS[told]
    for found in (ipmi.parse(samples(page, ipmi.METRICS), TARGET, 100.0), through_prometheus(page)):
        (server,) = found.nodes
        assert (server.node, server.power_watts, server.power_source) == ("n1", 2431, source)


@pytest.mark.parametrize("lie", ["NaN", "0", "-3", "1e9", "+Inf", "9.2e18"])
@pytest.mark.parametrize("told", WALLS)
def test_a_lie_measures_nothing_under_every_name(told, lie):
    page = "\n".join(f"{line.rpartition(' ')[0]} {lie}" for line in WALLS[told][0].split("\n"))
    (server,) = ipmi.parse(samples(page, ipmi.METRICS), TARGET, 100.0).nodes
    assert server.power_watts is None
    assert through_prometheus(page).nodes == ()


def test_every_name_of_the_wall_and_of_a_gpus_power_is_in_these_tables():
    lines = "\n".join([*SAME.values(), *(page for page, _ in WALLS.values())])
    named = {line.partition("{")[0].partition(" ")[0] for line in lines.split("\n")}
    powers = {*dcgm.POWER, *(new for new, old in dcgm.RENAMED.items() if old in dcgm.POWER),
              *amd.POWER, "nvidia_smi_power_draw_watts", "nvidia_smi_power_draw_instant_watts", amd_smi.POWER,
              gaudi.POWER}
    assert {*ipmi.WALL, *powers} <= named
