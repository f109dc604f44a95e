"""dcgm-exporter's page: one reading per physical GPU, whatever repeats it, and nothing that was not measured."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.exporters.dcgm import METRICS, REASONS, RENAMED, DcgmConfig, parse
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target
from idlewatt.storage.telemetry import GpuDetail

TARGET = Target("http://dgx-01:9400/metrics", "dgx-01:9400")
POWER, UTIL, ENERGY = "DCGM_FI_DEV_POWER_USAGE", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_TOTAL_ENERGY_CONSUMPTION"
SM, GR, USED, FREE = ("DCGM_FI_PROF_SM_ACTIVE", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "DCGM_FI_DEV_FB_USED",
                      "DCGM_FI_DEV_FB_FREE")


def read(page: str | bytes, target: Target = TARGET):
    raw = page if isinstance(page, bytes) else page.encode()
    return parse(Exposition(METRICS).samples(raw), target, 100.0).gpus


def row(metric: str, value: object, gpu: int = 0, **labels: str) -> str:
    pairs = {"gpu": str(gpu), "UUID": f"GPU-{gpu}", "modelName": "NVIDIA A100-SXM4-40GB", "Hostname": "dgx-01"} | labels
    written = ",".join(f'{name}="{text}"' for name, text in pairs.items())
    return f"{metric}{{{written}}} {value}\n"


def only(page: str):
    readings = read(page)
    assert len(readings) == 1
    return readings[0]


def test_a_recorded_h100_page_gives_eight_gpus(recorded):
    gpus = read(recorded("dcgm_h100_8gpu_k8s.prom"))
    assert sorted(gpu.index for gpu in gpus) == list(range(8))
    assert {gpu.node for gpu in gpus} == {"gpu-node-1"}
    assert gpus[0].model == "NVIDIA H100 80GB HBM3"
    assert gpus[0].power_watts == 113.611
    assert gpus[0].activity_source == "gpu_util"
    assert gpus[0].jobs == ("dynamo-workload/vllm-agg-0-vllmdecodeworker-s65j5",)
    assert gpus[1].jobs == ()
    assert all(gpu.energy_joules is None for gpu in gpus)


@pytest.mark.parametrize("sentinel", [
    *(str(0x7FFFFFFFFFFFFFF0 + kind) for kind in range(4)), "9.223372036854776e+18",
    *(str(0x7FFFFFF0 + kind) for kind in range(4)), *(f"{2.0**47 + kind:.6f}" for kind in range(4)),
    "NaN", "+Inf", "-Inf", "-1"])
@pytest.mark.parametrize("metric", [POWER, UTIL, SM, USED, "DCGM_FI_DEV_GPU_TEMP"])
def test_t31_each_dcgm_sentinel_is_unmeasured(metric, sentinel):
    gpu = only(row(metric, sentinel))
    assert (gpu.power_watts, gpu.activity, gpu.memory_used_bytes, gpu.temperature_celsius) == (None,) * 4


def test_t31_an_energy_counter_may_pass_through_an_int32_sentinel():
    assert only(row(ENERGY, 2147483632)).energy_joules == 2147483.632
    assert only(row(ENERGY, 9223372036854775794)).energy_joules is None


def test_t32_mig_instances_are_one_gpu():
    slices = {"1": "3g.20gb", "2": "2g.10gb", "3": "1g.5gb"}
    page = "".join(
        row(POWER, 52.6 + int(number) / 10, GPU_I_ID=number, GPU_I_PROFILE=profile)
        + row(USED, 1000, GPU_I_ID=number, GPU_I_PROFILE=profile)
        + row(GR, 1, GPU_I_ID=number, GPU_I_PROFILE=profile) for number, profile in slices.items())
    gpu = only(page)
    assert gpu.power_watts == pytest.approx(52.9)
    assert gpu.memory_used_bytes == 3000 * 2**20
    assert gpu.activity == pytest.approx(6 / 7)


def test_t32_a_mig_row_under_the_instances_own_uuid_is_its_parents_gpu():
    gpu = only(row(POWER, 60, UUID="MIG-1", GPU_I_ID="1") + row(POWER, 61))
    assert (gpu.uuid, gpu.power_watts) == ("GPU-0", 61)


def test_two_gpus_under_one_number_are_two():
    page = row(POWER, 60, UUID="GPU-a") + row(POWER, 300, UUID="GPU-b") + row(USED, 9, UUID="GPU-a")
    assert {(gpu.uuid, gpu.index, gpu.power_watts, gpu.memory_used_bytes) for gpu in read(page)} == {
        ("GPU-a", 0, 60, 9 * 2**20), ("GPU-b", 0, 300, None)}


def test_rows_without_a_uuid_are_told_apart_by_the_bus_and_are_not_guessed_to_be_of_one_of_two():
    first, second = {"UUID": "GPU-a", "pci_bus_id": "07"}, {"UUID": "GPU-b", "pci_bus_id": "0F"}
    page = row(POWER, 60, **first) + row(POWER, 300, **second)
    own = row(USED, 9, UUID="", pci_bus_id="0F") + row(USED, 7, UUID="MIG-x", pci_bus_id="07", GPU_I_ID="1")
    assert {(gpu.uuid, gpu.memory_used_bytes) for gpu in read(page + own)} == {
        ("GPU-a", 7 * 2**20), ("GPU-b", 9 * 2**20)}
    assert {(gpu.uuid, gpu.memory_used_bytes) for gpu in read(page + row(USED, 9, UUID=""))} == {
        ("GPU-a", None), ("GPU-b", None)}
    nameless = row(POWER, 60, UUID="", pci_bus_id="07") + row(POWER, 300, UUID="", pci_bus_id="0F")
    assert sorted(gpu.power_watts for gpu in read(nameless)) == [60, 300]
    assert len({gpu.uuid for gpu in read(nameless)}) == 2


def test_t33_jobs_that_share_a_gpu_are_one_gpu_with_both_named():
    gpu = only(row(POWER, 200, hpc_job="7") + row(POWER, 201, hpc_job="12") + row(USED, 9, hpc_job="7")
                 + row(USED, 9, hpc_job="12"))
    assert (gpu.power_watts, gpu.memory_used_bytes, gpu.jobs) == (201, 9 * 2**20, ("12", "7"))


def test_t33_a_recorded_page_with_jobs_gives_each_gpu_once(recorded):
    gpus = read(recorded("dcgm_v100_simulated_with_hpc_job.prom"))
    assert len(gpus) == len({gpu.uuid for gpu in gpus}) == 8
    first = next(gpu for gpu in gpus if gpu.index == 0)
    assert first.jobs == ("3",)
    assert first.energy_joules == 20896.031
    assert (first.activity, first.activity_source, first.resident) == (0.54, "gr_engine_active", 0.54)
    assert first.memory_total_bytes == (13829 + 18939) * 2**20


def test_t34_a_time_slice_split_sums_to_one_gpu():
    gpu = only("".join(row(POWER, 300, pod=f"train-{pod}", namespace="ml") for pod in range(4)))
    assert gpu.power_watts == 300
    assert gpu.jobs == tuple(f"ml/train-{pod}" for pod in range(4))


@pytest.mark.parametrize("label", ["Hostname", "hostname"])
def test_t35_hostname_is_read_in_either_spelling(label):
    page = f'{POWER}{{gpu="0",UUID="GPU-0",{label}="dgx-07"}} 60\n'
    assert only(page).node == "dgx-07"


def test_the_targets_node_label_wins_over_the_host_name():
    assert read(row(POWER, 60), Target("u", "10.0.0.1:9400", {"node": "rack1-gpu3"}))[0].node == "rack1-gpu3"


def test_without_a_host_name_the_asked_host_is_the_node():
    assert read(f'{POWER}{{gpu="0", UUID="GPU-0"}} 60\n')[0].node == "dgx-01"


def test_t36_millijoules_become_joules():
    assert only(row(ENERGY, 123456)).energy_joules == 123.456


def test_t36_a_counter_that_restarted_is_delivered_as_it_is():
    assert [only(row(ENERGY, value)).energy_joules for value in (5_000_000, 1000)] == [5000, 1]


def test_mebibytes_and_percent_become_bytes_and_ratio():
    gpu = only(row(USED, 2) + row(FREE, 6) + row(UTIL, 37))
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (2 * 2**20, 8 * 2**20)
    assert (gpu.activity, gpu.resident) == (0.37, 0.37)


def test_the_best_activity_wins_and_is_named():
    metrics = {UTIL: 100, GR: 0.8, SM: 0.3}
    page = ""
    for (metric, value), source in zip(metrics.items(), ("gpu_util", "gr_engine_active", "sm_active"), strict=True):
        page += row(metric, value)
        assert only(page).activity_source == source
    assert (only(page).activity, only(page).resident) == (0.3, 1.0)


def test_gpu_util_100_at_idle_watts_is_delivered_with_its_source():
    gpu = only(row(UTIL, 100) + row(POWER, 57.8))
    assert (gpu.activity, gpu.activity_source, gpu.power_watts) == (1.0, "gpu_util", 57.8)


def test_instant_power_wins_over_the_average():
    assert only(row(POWER, 250) + row("DCGM_FI_DEV_POWER_USAGE_INSTANT", 260)).power_watts == 260


def test_a_gpu_that_reports_0_watts_is_unmeasured_however_busy_it_is():
    """Drivers with a fault report 0 W of a GPU that works: that is no saving."""
    gpu = only(row(POWER, 0) + row(SM, 0.9) + row("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 0))
    assert (gpu.power_watts, gpu.power_limit_watts, gpu.activity) == (None, None, 0.9)
    assert only(row(POWER, 250) + row("DCGM_FI_DEV_POWER_USAGE_INSTANT", 0)).power_watts == 250


def test_a_sensor_that_is_not_there_is_not_at_0_degrees_and_a_gpu_has_some_memory():
    gpu = only(row("DCGM_FI_DEV_GPU_TEMP", 0) + row("DCGM_FI_DEV_MEMORY_TEMP", 0) + row(USED, 0) + row(FREE, 0))
    assert (gpu.temperature_celsius, gpu.detail.memory_temperature_celsius) == (None, None)
    assert (gpu.memory_used_bytes, gpu.memory_total_bytes) == (None, None)
    assert only(row(USED, 0) + row(FREE, 9)).memory_used_bytes == 0


def test_an_unmeasured_instant_power_leaves_the_average():
    assert only(row(POWER, 250) + row("DCGM_FI_DEV_POWER_USAGE_INSTANT", 2147483634)).power_watts == 250


@pytest.mark.parametrize(("metric", "lie"), [(POWER, 1e6), (UTIL, 4000), (SM, 37)])
def test_what_physics_excludes_is_unmeasured(metric, lie):
    gpu = only(row(metric, lie))
    assert gpu.power_watts is gpu.activity is None


def test_indexes_may_have_holes():
    assert [found.index for found in read("".join(row(POWER, 60, gpu=gpu) for gpu in (0, 1, 2, 4)))] == [0, 1, 2, 4]


def test_rows_that_are_no_gpus_are_left_out():
    assert read(f'{POWER}{{nvswitch="0"}} 3\n{POWER}{{gpu="",UUID="x"}} 3\n{POWER} 3\n') == ()


def test_the_exporters_own_pod_is_no_workload():
    page = row(POWER, 60, pod="nvidia-dcgm-exporter-x", namespace="gpu-operator") + row(
        POWER, 60, gpu=1, pod="nvidia-dcgm-exporter-x", exported_pod="train", exported_namespace="ml")
    assert [gpu.jobs for gpu in read(page)] == [(), ("ml/train",)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(METRICS)), st.integers(0, 3), st.floats(0, 1)), min_size=1),
       st.sampled_from([{"hpc_job": "9"}, {"pod": "p"}, {"DCGM_FI_DRIVER_VERSION": "1"}]))
def test_copies_of_a_gpus_rows_change_nothing_but_the_jobs(rows, labels):
    page = "".join(row(metric, value, gpu) for metric, gpu, value in rows)
    copies = "".join(row(metric, value, gpu, **labels) for metric, gpu, value in rows)
    def bare(text):
        return [(b.uuid, b.power_watts, b.energy_joules, b.activity, b.memory_used_bytes) for b in read(text)]
    assert bare(page + copies) == bare(page)


def test_the_configuration_builds_a_source(clock):
    assert DcgmConfig(targets=("h:9400",)).build(clock).name == "dcgm"


SINCE_4_6 = {new: old for new, old in RENAMED.items() if old != REASONS}


@pytest.mark.parametrize(("new", "old"), SINCE_4_6.items())
def test_a_field_reads_alike_under_its_name_before_and_since_dcgm_4_6(new, old):
    value = 63 if old in (POWER, UTIL) else 0.63 if "_PROF_" in old else 631.95
    assert only(row(new, value)) == only(row(old, value)) != only(row(new, "NaN"))


@pytest.mark.parametrize(("new", "old"), RENAMED.items())
def test_both_spellings_on_one_page_count_once(new, old):
    assert only(row(new, 63) + row(old, 63)) == only(row(old, 63))


def test_a_page_since_dcgm_4_6_gives_the_watts_of_the_page_before(recorded):
    """The page is the recorded one of 8 H100 with the names of DCGM 4.6 put in by hand."""
    before = recorded("dcgm_h100_8gpu_k8s.prom").decode()
    after = before
    for new, old in SINCE_4_6.items():
        after = re.sub(rf"\b{old}\b", new, after)
    after = after.replace("Hostname=", "hostname=")
    assert "BOARD_POWER_WATTS" in after
    assert read(after) == read(before)
    assert sum(gpu.power_watts for gpu in read(after)) == pytest.approx(sum(gpu.power_watts for gpu in read(before)))


@pytest.mark.parametrize(("numbers", "shares"), [
    ((0, 37, 100), (0, 0.37, 1.0)),         # whole per cent, as recorded pages have it
    ((0, 0.93, 1), (0, 0.93, 1.0)),         # shares: one is a fraction, none is above 1
    ((0.93, 93), (None, 0.93)),             # they contradict each other: the fraction may be either
    ((0.5, 37.4), (0.005, 0.374)),          # per cent that somebody has averaged
    ((0, 1), (0, 0.01)), ((4000,), (None,)), ((), ())])
@pytest.mark.parametrize("name", [UTIL, "DCGM_FI_DEV_GPU_UTIL_RATIO"])
def test_the_unit_of_utilisation_is_judged_by_the_page_not_by_the_name(numbers, shares, name):
    page = "".join(row(name, number, gpu) for gpu, number in enumerate(numbers))
    found = read(page + row(POWER, 60, 99))
    assert [gpu.activity for gpu in found if gpu.index != 99] == pytest.approx(shares)


def test_a_busy_page_of_ones_is_no_page_of_one_per_cent():
    busy = "".join(row(UTIL, 1, gpu) + row(POWER, 650, gpu) + row("DCGM_FI_DEV_ENFORCED_POWER_LIMIT", 700, gpu)
                   for gpu in range(8))
    assert {gpu.activity for gpu in read(busy)} == {1.0}
    assert {gpu.activity for gpu in read(busy.replace(" 650\n", " 75\n"))} == {0.01}


def test_each_server_of_a_page_has_its_own_unit():
    page = row(UTIL, 0.5, Hostname="a") + row(UTIL, 50, Hostname="b")
    assert [(gpu.node, gpu.activity) for gpu in read(page)] == [("a", 0.5), ("b", 0.5)]


def test_what_the_units_of_a_gpu_do_is_read():
    page = (row("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 0.4) + row("DCGM_FI_PROF_DRAM_ACTIVE", 0.3)
            + row("DCGM_FI_PROF_SM_OCCUPANCY", 0.2) + row("DCGM_FI_PROF_PCIE_TX_BYTES", 1e9)
            + row("DCGM_FI_PROF_PCIE_RX_BYTES", 2e9) + row("DCGM_FI_PROF_NVLINK_TX_BYTES", 5e9)
            + row("DCGM_FI_DEV_SM_CLOCK", 1980) + row("DCGM_FI_DEV_MEM_CLOCK", 2619)
            + row("DCGM_FI_DEV_MEMORY_TEMP", 54) + row("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 0x4 + 0x40 + 0x1)
            + row("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_POWER_CAP_NS", 5e9)
            + row("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN_NS", 1e9)
            + row("DCGM_FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN_NS", 0)
            + row("DCGM_FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN_NS", 3e9)
            + row("DCGM_FI_DEV_POWER_MGMT_LIMIT_DEF", 700) + row("DCGM_FI_DEV_POWER_MGMT_LIMIT_MIN", 200)
            + row("DCGM_FI_DEV_XID_ERRORS", 79))
    assert only(page).detail == GpuDetail(
        tensor_active=0.4, dram_active=0.3, sm_occupancy=0.2, pcie_bytes_per_s=3e9, nvlink_bytes_per_s=None,
        sm_clock_hertz=1.98e9, memory_clock_hertz=2.619e9, memory_temperature_celsius=54,
        throttled_by=("heat", "power"), throttled_by_power_s=6, throttled_by_heat_s=3, default_limit_watts=700,
        least_limit_watts=200, xid=79)
    assert only(row(POWER, 60)).detail == GpuDetail()


@pytest.mark.parametrize("missing", ["SW_POWER_CAP", "HW_POWER_BRAKE_SLOWDOWN"])
def test_a_counter_of_clocks_held_down_with_a_part_missing_is_not_measured(missing):
    """A sum without one part falls, and jumps when the part is back: hours would be counted within one window."""
    counters = {"SW_POWER_CAP": 5e9, "HW_POWER_BRAKE_SLOWDOWN": 4e12, "SW_THERM_SLOWDOWN": 1e9,
                "HW_THERM_SLOWDOWN": 2e9}
    page = "".join(row(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{name}_NS", number)
                   for name, number in counters.items() if name != missing)
    found = only(page + row(f"DCGM_FI_DEV_CLOCKS_EVENT_REASON_{missing}_NS", "NaN")).detail
    assert (found.throttled_by_power_s, found.throttled_by_heat_s) == (None, 3)


def test_no_reason_to_throttle_is_told_apart_from_not_measured():
    assert only(row("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", 1)).detail.throttled_by == ()
    assert only(row("DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "NaN") + row(POWER, 1)).detail.throttled_by is None


def test_ratios_of_mig_instances_are_weighed_by_their_slices():
    slices = {"1": "3g.40gb", "2": "4g.40gb"}
    page = "".join(row("DCGM_FI_PROF_PIPE_TENSOR_ACTIVE", 1.0, GPU_I_ID=number, GPU_I_PROFILE=profile)
                   for number, profile in slices.items())
    assert only(page).detail.tensor_active == pytest.approx(1.0)


@pytest.mark.parametrize(("model", "profile", "instances"), [
    ("NVIDIA A30", "1g.6gb", 4), ("NVIDIA A30", "2g.12gb", 2), ("NVIDIA A30", "1g.6gb+me", 4),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "1g.24gb", 4),
    ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "4g.96gb", 1), ("NVIDIA H100 80GB HBM3", "1g.10gb", 7)])
def test_a_gpu_all_of_whose_instances_work_works_fully_whatever_its_number_of_slices(model, profile, instances):
    gpu = only("".join(row(SM, 1.0, modelName=model, GPU_I_ID=str(number), GPU_I_PROFILE=profile)
                       for number in range(instances)))
    assert gpu.activity == pytest.approx(1.0)
    assert [(one.slices, one.activity) for one in gpu.instances] == [
        (pytest.approx(1 / instances), pytest.approx(1.0))] * instances


def test_masks_of_power_profiles_which_the_exporter_cannot_print_spoil_no_other_row():
    labels = 'gpu="0",UUID="GPU-a",modelName="NVIDIA B200",Hostname="n"'
    page = (f"DCGM_FI_DEV_POWER_USAGE{{{labels}}} 500\n"
            f"DCGM_FI_DEV_REQUESTED_POWER_PROFILE_MASK{{{labels}}} ERROR - FAILED TO CONVERT TO STRING\n"
            f"DCGM_FI_DEV_ENFORCED_POWER_LIMIT{{{labels}}} 850\n")
    (gpu,) = read(page)
    assert (gpu.power_watts, gpu.power_limit_watts) == (500.0, 850.0)


def test_a_page_that_shows_only_grace_and_nvswitches_shows_no_gpu():
    page = 'DCGM_FI_DEV_CPU_POWER_WATTS{cpu="0"} 90\nDCGM_FI_DEV_BOARD_POWER_WATTS{nvswitch="0"} 90\n'
    assert read(page) == ()


FABRIC, CLIQUE = "DCGM_FI_DEV_FABRIC_CLUSTER_UUID", "DCGM_FI_DEV_FABRIC_CLIQUE_ID"
CLUSTER = "1A2B3C4D-0000-4000-8000-00AA00BB00CC"


@pytest.mark.parametrize(("labels", "metric", "domain"), [
    ({FABRIC: CLUSTER, CLIQUE: "32766"}, "", f"{CLUSTER.lower()}.32766"),
    ({FABRIC: CLUSTER}, "32766", f"{CLUSTER.lower()}.32766"),
    ({FABRIC: CLUSTER}, "0", f"{CLUSTER.lower()}.0"),
    ({FABRIC: CLUSTER}, "", None), ({}, "7", None), ({}, "", None),
    ({FABRIC: CLUSTER}, str(0x7FFFFFF0), None), ({FABRIC: CLUSTER}, "-1", None),
    ({FABRIC: "00000000-0000-0000-0000-000000000000", CLIQUE: "0"}, "", "")])
def test_the_nvlink_domain_is_told_by_fabric_and_clique_as_labels_or_metric(labels, metric, domain):
    page = row(POWER, 200.0, **labels) + (row(CLIQUE, metric, **labels) if metric else "")
    assert only(page).domain == domain


@pytest.mark.parametrize("whole", [0.0, 0.2])
def test_a_gpu_does_not_do_less_than_its_instances_whatever_its_own_row_says(whole):
    rows = [row(GR, whole), *(row(GR, 1.0, GPU_I_ID=number, GPU_I_PROFILE="3g.20gb") for number in "12")]
    for page in (rows, rows[::-1]):
        gpu = only("".join(page))
        assert gpu.activity == gpu.resident == pytest.approx(6 / 7)
    assert only(row(GR, 0.9) + row(GR, 0.1, GPU_I_ID="1", GPU_I_PROFILE="3g.20gb")).activity == 0.9


@pytest.mark.parametrize("profile", ["0g.10gb", "9" * 400 + "g.10gb", "\u0663g.10gb", "", "all"])
def test_a_profile_that_no_gpu_has_is_taken_for_one_slice(profile):
    gpu = only(row(SM, 0.5, GPU_I_ID="1", GPU_I_PROFILE=profile))
    assert (gpu.activity, gpu.instances[0].slices, gpu.instances[0].activity) == (
        pytest.approx(0.5 / 7), 1 / 7, pytest.approx(0.5))


MIG = ({"GPU_I_ID": "1", "GPU_I_PROFILE": "3g.20gb"}, {"GPU_I_ID": "2", "GPU_I_PROFILE": "4g.20gb"})


@pytest.mark.parametrize("metric", [SM, USED])
@pytest.mark.parametrize("reading", ["NaN", "9223372036854775794", "-1"])
def test_what_one_instance_does_not_tell_is_not_the_sum_of_the_others(metric, reading):
    page = row(metric, 1, **MIG[0]) + row(metric, reading, **MIG[1]) + row(POWER, 300)
    gpu = only(page)
    assert (gpu.activity, gpu.memory_used_bytes, gpu.power_watts) == (None, None, 300)
    told = {one.number: (one.activity, one.memory_used_bytes) for one in gpu.instances}
    assert told == {"1": (pytest.approx(1.0), None) if metric == SM else (None, 2**20), "2": (None, None)}
    whole = only(page + row(metric, 0.5))
    assert (whole.activity, whole.memory_used_bytes) == ((0.5, None) if metric == SM else (None, 2**19))
