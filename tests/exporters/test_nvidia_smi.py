"""nvidia_gpu_exporter: recorded pages of real GPUs, joined by uuid."""

import pytest

from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.nvidia_smi import METRICS, gpus, parse
from idlewatt.exporters.targets import Target

TARGET = Target("http://ws-01:9835/metrics", "ws-01:9835")
ZERO = "00000000-0000-0000-0000-000000000000"


def read(page):
    return parse(Exposition(METRICS).samples(page), TARGET, 100.0).gpus


@pytest.mark.parametrize(("page", "model", "watts", "activity", "limit"), [
    ("h100_idle", "NVIDIA H100 80GB HBM3", 69.62, 0, 700), ("h100_load", "NVIDIA H100 80GB HBM3", 625.68, 1, 700),
    ("h100_mig_load", "NVIDIA H100 80GB HBM3", 447.35, None, 700), ("l40s_load", "NVIDIA L40S", 112.38, 0.09, 350)])
def test_recorded_pages_of_real_gpus_are_read(recorded, page, model, watts, activity, limit):
    (gpu,) = read(recorded(f"nvidia_smi/{page}.prom"))
    assert (gpu.uuid, gpu.index, gpu.node, gpu.model) == (f"GPU-{ZERO}", 0, "ws-01", model)
    assert (gpu.power_watts, gpu.activity, gpu.power_limit_watts) == (watts, activity, limit)
    assert gpu.memory_total_bytes > gpu.memory_used_bytes >= 0
    assert gpu.detail.throttled_by is not None


def test_a_recorded_page_tells_clocks_limits_and_temperatures(recorded):
    (gpu,) = read(recorded("nvidia_smi/h100_load.prom"))
    found = gpu.detail
    assert (found.sm_clock_hertz, found.memory_clock_hertz, found.memory_temperature_celsius) == (1.98e9, 2.619e9, 54)
    assert (found.default_limit_watts, found.least_limit_watts, found.throttled_by_power_s) == (700, 200, 0)
    assert (gpu.temperature_celsius, gpu.memory_used_bytes) == (59, 20780679168)


def test_0_watts_0_degrees_and_no_memory_at_all_are_unmeasured():
    names = ("power_draw_instant_watts", "power_draw_watts", "temperature_gpu", "temperature_memory",
             "memory_used_bytes", "memory_total_bytes")
    (gpu,) = read("".join(f'nvidia_smi_{name}{{uuid="a"}} 0\n' for name in names).encode()
                  + b'nvidia_smi_utilization_gpu_ratio{uuid="a"} 0.93\n')
    assert (gpu.power_watts, gpu.temperature_celsius, gpu.detail.memory_temperature_celsius) == (None, None, None)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes, gpu.activity) == (None, None, 0.93)


def test_gpus_are_joined_with_their_names_by_uuid():
    page = b"".join(b'nvidia_smi_power_draw_watts{uuid="%c"} %d\n' % (name, watts)
                    for name, watts in ((ord("a"), 60), (ord("b"), 70)))
    page += b'nvidia_smi_gpu_info{uuid="b",index="0",name="NVIDIA GB10"} 1\n'
    page += b'nvidia_smi_gpu_info{uuid="a",index="1",name="NVIDIA L40S"} 1\n'
    page += b'nvidia_smi_gpu_info{uuid="c",index="2",name="NVIDIA L40S"} 1\n'
    assert [(gpu.uuid, gpu.index, gpu.model, gpu.power_watts) for gpu in read(page)] == [
        ("GPU-a", 1, "NVIDIA L40S", 60), ("GPU-b", 0, "NVIDIA GB10", 70)]


def test_gpus_without_an_index_are_numbered_by_their_server():
    page = "".join(f'nvidia_smi_power_draw_watts{{uuid="{name}",node="{name[0]}"}} 60\n'
                   for name in ("a0", "b0", "a1", "b1"))
    found = gpus(Exposition(METRICS).samples(page.encode()), lambda labels: labels["node"], lambda _labels: 100.0)
    assert {gpu.uuid: gpu.index for gpu in found} == {"GPU-a0": 0, "GPU-a1": 1, "GPU-b0": 0, "GPU-b1": 1}


def test_a_gpu_without_an_index_is_not_given_that_of_another():
    page = b'nvidia_smi_power_draw_watts{uuid="a"} 60\nnvidia_smi_power_draw_watts{uuid="b"} 70\n'
    page += b'nvidia_smi_gpu_info{uuid="a",index="1",name="NVIDIA L40S"} 1\n'
    assert [(gpu.uuid, gpu.index) for gpu in read(page)] == [("GPU-a", 1), ("GPU-b", 0)]


@pytest.mark.parametrize("lost", ["nvidia_smi_clocks_event_reasons_counters_sw_power_cap_seconds",
                                  "nvidia_smi_clocks_event_reasons_counters_hw_power_brake_slowdown_seconds"])
def test_a_counter_of_held_down_time_without_one_of_its_two_parts_is_not_told(recorded, lost):
    page = recorded("nvidia_smi/l40s_load.prom")
    (whole,) = read(page)
    assert whole.detail.throttled_by_power_s == pytest.approx(204.642816)
    (torn,) = read(b"".join(line for line in page.splitlines(True) if not line.startswith(lost.encode())))
    assert torn.detail.throttled_by_power_s is None
    assert torn.detail.throttled_by_heat_s == whole.detail.throttled_by_heat_s
