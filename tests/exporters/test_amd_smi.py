"""amd_smi_exporter: the GPU's number stands in a label called like the metric, the unit shows in the number."""

import pytest

from idlewatt.exporters.amd_smi import METRICS, parse, watts
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target

TARGET = Target("http://mi-02:2021/metrics", "mi-02:2021")


def read(page):
    return parse(Exposition(METRICS).samples(page), TARGET, 100.0).gpus


def test_a_page_gives_watts_of_microwatts_and_degrees_of_thousandths(recorded):
    first, second = read(recorded("amd_smi_mi250x_hand_written.prom"))
    assert (first.index, first.node, first.model) == (0, "mi-02", "AMD Instinct MI250X")
    assert (first.power_watts, first.power_limit_watts) == (301, 550)
    assert (first.activity, first.temperature_celsius) == (0.93, 52)
    assert (second.index, second.power_watts, second.activity) == (1, 45, 0)


@pytest.mark.parametrize(("told", "meant"), [
    (45, 45), (45_000, 45), (45_000_000, 45), (1_400_000_000, 1400), (1400, 1400), (0, None), (-1, None), (9e12, None),
    (float("nan"), None)])
def test_the_unit_of_watts_is_seen_from_their_size(told, meant):
    assert watts(told) == meant


def test_0_watts_and_0_degrees_are_unmeasured():
    (gpu,) = read(b'amd_gpu_power{gpu_power="0"} 0\namd_gpu_current_temperature{gpu_current_temperature="0"} 0\n'
                  b'amd_gpu_use_percent{gpu_use_percent="0"} 93\n')
    assert (gpu.power_watts, gpu.temperature_celsius, gpu.activity) == (None, None, 0.93)


def test_the_older_name_of_its_power_is_read():
    assert read(b'amd_gpu_power_avg{gpu_power_avg="3"} 95000000\n')[0].power_watts == 95


def test_a_number_that_no_exporter_writes_costs_its_own_row_only():
    page = 'amd_gpu_power{gpu_power="1"} 45e6\namd_gpu_use_percent{gpu_power="\u00b2",gpu_use_percent="1"} 7\n'
    (gpu,) = parse(Exposition(METRICS).samples(page.encode()), TARGET, 100.0).gpus
    assert (gpu.index, gpu.power_watts, gpu.activity) == (1, 45, 0.07)
    odd = 'amd_gpu_use_percent{gpu_power="\u00b2",gpu_use_percent="1"} 7\n'
    assert [one.index for one in parse(Exposition(METRICS).samples(odd.encode()), TARGET, 100.0).gpus] == [1]
