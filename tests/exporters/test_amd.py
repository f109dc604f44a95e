"""AMD's device-metrics-exporter: a socket is one GPU in every partition mode, energy in microjoules, memory in MiB."""

import pytest

from idlewatt.exporters.amd import METRICS, parse
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.telemetry import GpuDetail

TARGET = Target("http://mi-01:5000/metrics", "mi-01:5000")


def read(page, target=TARGET):
    raw = page if isinstance(page, bytes) else page.encode()
    return parse(Exposition(METRICS).samples(raw), target, 100.0).gpus


def row(metric, value, gpu=0, **labels):
    pairs = {"gpu_id": str(gpu), "serial_number": f"SN-{gpu}", "card_model": "Instinct MI300X", "hostname": "mi-01"}
    written = ",".join(f'{name}="{text}"' for name, text in (pairs | labels).items())
    return f"{metric}{{{written}}} {value}\n"


def test_a_page_of_eight_gpus_gives_each_with_its_units(recorded):
    gpus = read(recorded("amd_mi300x_spx_hand_written.prom"))
    assert [(gpu.index, gpu.uuid, gpu.node) for gpu in gpus] == [(n, f"AMD-SN{n:02d}", "mi-01") for n in range(8)]
    first = gpus[0]
    assert (first.power_watts, first.energy_joules, first.activity) == (748, 1.4e11, 0.97)
    assert (first.memory_used_bytes, first.memory_total_bytes) == (183265 * 2**20, 196592 * 2**20)
    assert (first.model, first.temperature_celsius, first.jobs) == ("Instinct MI300X", 76, ("4711",))
    assert first.detail == GpuDetail(dram_active=0.42, sm_clock_hertz=2.104e9, memory_clock_hertz=1.3e9,
                                     memory_temperature_celsius=61, throttled_by=("power",))
    assert (gpus[7].power_watts, gpus[7].activity, gpus[7].jobs) == (141, 0, ())
    assert gpus[7].detail.throttled_by == ()


def test_partitions_of_a_gpu_are_one_gpu_and_their_zeros_no_watts(recorded):
    gpus = read(recorded("amd_mi300x_cpx_hand_written.prom"))
    assert [(gpu.index, gpu.power_watts, gpu.activity) for gpu in gpus] == [(0, 402, 0.4), (1, 150, 0)]
    assert [gpu.memory_used_bytes for gpu in gpus] == [8000 * 2**20, 0]
    assert {gpu.memory_total_bytes for gpu in gpus} == {8 * 24574 * 2**20}
    assert gpus[0].energy_joules == 5e6


def test_without_serial_numbers_partitions_belong_to_the_gpu_before_them():
    page = "".join(row("gpu_package_power", 0 if number % 4 else 200 + number, number, serial_number="N/A",
                       gpu_partition_id=str(number % 4)) for number in range(8))
    assert [(gpu.index, gpu.power_watts, gpu.uuid) for gpu in read(page)] == [
        (0, 200, "mi-01/amd/0"), (1, 204, "mi-01/amd/4")]


def test_two_gpus_under_one_number_are_two_with_the_partitions_of_each():
    page = "".join(row("gpu_package_power", watts if not part else 0, part, serial_number=serial,
                       gpu_partition_id=str(part)) + row("gpu_used_vram", used, part, serial_number=serial,
                                                         gpu_partition_id=str(part))
                   for serial, watts, used in (("A", 200, 5), ("B", 700, 9)) for part in (0, 1))
    assert {(gpu.uuid, gpu.power_watts, gpu.memory_used_bytes) for gpu in read(page)} == {
        ("AMD-A", 200, 10 * 2**20), ("AMD-B", 700, 18 * 2**20)}


def test_a_row_without_the_serial_number_is_of_the_only_gpu_of_its_number():
    page = row("gpu_package_power", 200) + row("gpu_used_vram", 5, serial_number="N/A")
    assert [(gpu.uuid, gpu.power_watts, gpu.memory_used_bytes) for gpu in read(page)] == [("AMD-SN-0", 200, 5 * 2**20)]


def test_one_serial_number_for_all_names_none_of_them():
    page = row("gpu_package_power", 200, 0, serial_number="X") + row("gpu_package_power", 201, 1, serial_number="X")
    assert [(gpu.uuid, gpu.power_watts) for gpu in read(page)] == [("mi-01/amd/0", 200), ("mi-01/amd/1", 201)]


@pytest.mark.parametrize("name", METRICS)
def test_a_metric_reads_alike_with_the_prefix_and_without(name):
    clock = {"clock_type": "system"} if name.endswith("gpu_clock") else {}
    bare = name.removeprefix("amd_")
    assert read(row(f"amd_{bare}", 60, **clock)) == read(row(bare, 60, **clock))


def test_an_mi2xx_tells_its_average_and_what_measures_nothing_is_no_watts():
    assert read(row("gpu_average_package_power", 94))[0].power_watts == 94
    assert read(row("gpu_package_power", 0) + row("gpu_power_usage", 0))[0].power_watts is None
    assert read(row("gpu_package_power", 65535) + row("gpu_used_vram", 1.8446744073709552e19))[0] == read(
        row("gpu_package_power", "NaN"))[0]


def test_use_told_as_a_share_is_seen_by_the_page():
    assert [gpu.activity for gpu in read(row("gpu_gfx_activity", 0.93) + row("gpu_gfx_activity", 0, 1))] == [0.93, 0]


def test_pods_of_a_gpu_are_named_and_the_exporters_own_is_not():
    page = row("gpu_package_power", 60, pod="amd-device-metrics-exporter-x", exported_pod="train",
               exported_namespace="ml") + row("gpu_package_power", 60, 1, pod="amd-device-metrics-exporter-x")
    assert [gpu.jobs for gpu in read(page)] == [("ml/train",), ()]


def test_a_metric_of_that_name_from_elsewhere_is_no_gpu():
    assert read('gpu_power_usage{gpu_id="0"} 60\ngpu_power_usage{card_model="x",gpu_id="all"} 60\n') == ()


def test_memory_of_one_partition_that_is_not_told_is_not_the_sum_of_the_others():
    page = "".join(row("gpu_used_vram", used, part, serial_number="A", gpu_partition_id=str(part))
                   for part, used in enumerate((5, "NaN"))) + row("gpu_package_power", 200, 0, serial_number="A")
    assert [(gpu.memory_used_bytes, gpu.power_watts) for gpu in read(page)] == [(None, 200)]
