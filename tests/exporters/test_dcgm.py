"""dcgm-exporter's page: one reading per physical board, whatever repeats it, and nothing that was not measured."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from idlewatt.exporters.dcgm import METRICS, DcgmConfig, parse
from idlewatt.exporters.exposition import Exposition
from idlewatt.exporters.targets import Target

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


def test_a_recorded_h100_page_gives_eight_boards(recorded):
    boards = read(recorded("dcgm_h100_8gpu_k8s.prom"))
    assert sorted(board.index for board in boards) == list(range(8))
    assert {board.node for board in boards} == {"gpu-node-1"}
    assert boards[0].model == "NVIDIA H100 80GB HBM3"
    assert boards[0].power_watts == 113.611
    assert boards[0].activity_source == "gpu_util"
    assert boards[0].jobs == ("dynamo-workload/vllm-agg-0-vllmdecodeworker-s65j5",)
    assert boards[1].jobs == ()
    assert all(board.energy_joules is None for board in boards)


@pytest.mark.parametrize("sentinel", [
    *(str(0x7FFFFFFFFFFFFFF0 + kind) for kind in range(4)), "9.223372036854776e+18",
    *(str(0x7FFFFFF0 + kind) for kind in range(4)), *(f"{2.0**47 + kind:.6f}" for kind in range(4)),
    "NaN", "+Inf", "-Inf", "-1"])
@pytest.mark.parametrize("metric", [POWER, UTIL, SM, USED, "DCGM_FI_DEV_GPU_TEMP"])
def test_t31_each_dcgm_sentinel_is_unmeasured(metric, sentinel):
    board = only(row(metric, sentinel))
    assert (board.power_watts, board.activity, board.memory_used_bytes, board.temperature_celsius) == (None,) * 4


def test_t31_an_energy_counter_may_pass_through_an_int32_sentinel():
    assert only(row(ENERGY, 2147483632)).energy_joules == 2147483.632
    assert only(row(ENERGY, 9223372036854775794)).energy_joules is None


def test_t32_mig_instances_are_one_board():
    slices = {"1": "3g.20gb", "2": "2g.10gb", "3": "1g.5gb"}
    page = "".join(
        row(POWER, 52.6 + int(number) / 10, GPU_I_ID=number, GPU_I_PROFILE=profile)
        + row(USED, 1000, GPU_I_ID=number, GPU_I_PROFILE=profile)
        + row(GR, 1, GPU_I_ID=number, GPU_I_PROFILE=profile) for number, profile in slices.items())
    board = only(page)
    assert board.power_watts == pytest.approx(52.9)
    assert board.memory_used_bytes == 3000 * 2**20
    assert board.activity == pytest.approx(6 / 7)


def test_t32_a_mig_row_under_the_instances_own_uuid_is_its_parents_board():
    board = only(row(POWER, 60, UUID="MIG-1", GPU_I_ID="1") + row(POWER, 61))
    assert (board.uuid, board.power_watts) == ("GPU-0", 61)


def test_t33_jobs_that_share_a_gpu_are_one_board_with_both_named():
    board = only(row(POWER, 200, hpc_job="7") + row(POWER, 201, hpc_job="12") + row(USED, 9, hpc_job="7")
                 + row(USED, 9, hpc_job="12"))
    assert (board.power_watts, board.memory_used_bytes, board.jobs) == (201, 9 * 2**20, ("12", "7"))


def test_t33_a_recorded_page_with_jobs_gives_each_board_once(recorded):
    boards = read(recorded("dcgm_v100_simulated_with_hpc_job.prom"))
    assert len(boards) == len({board.uuid for board in boards}) == 8
    first = next(board for board in boards if board.index == 0)
    assert first.jobs == ("3",)
    assert first.energy_joules == 20896.031
    assert (first.activity, first.activity_source, first.resident) == (0.54, "gr_engine_active", 0.54)
    assert first.memory_total_bytes == (13829 + 18939) * 2**20


def test_t34_a_time_slice_split_sums_to_one_gpu():
    board = only("".join(row(POWER, 300, pod=f"train-{pod}", namespace="ml") for pod in range(4)))
    assert board.power_watts == 300
    assert board.jobs == tuple(f"ml/train-{pod}" for pod in range(4))


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
    board = only(row(USED, 2) + row(FREE, 6) + row(UTIL, 37))
    assert (board.memory_used_bytes, board.memory_total_bytes) == (2 * 2**20, 8 * 2**20)
    assert (board.activity, board.resident) == (0.37, 0.37)


def test_the_best_activity_wins_and_is_named():
    metrics = {UTIL: 100, GR: 0.8, SM: 0.3}
    page = ""
    for (metric, value), source in zip(metrics.items(), ("gpu_util", "gr_engine_active", "sm_active"), strict=True):
        page += row(metric, value)
        assert only(page).activity_source == source
    assert (only(page).activity, only(page).resident) == (0.3, 1.0)


def test_gpu_util_100_at_idle_watts_is_delivered_with_its_source():
    board = only(row(UTIL, 100) + row(POWER, 57.8))
    assert (board.activity, board.activity_source, board.power_watts) == (1.0, "gpu_util", 57.8)


def test_instant_power_wins_over_the_average():
    assert only(row(POWER, 250) + row("DCGM_FI_DEV_POWER_USAGE_INSTANT", 260)).power_watts == 260


def test_an_unmeasured_instant_power_leaves_the_average():
    assert only(row(POWER, 250) + row("DCGM_FI_DEV_POWER_USAGE_INSTANT", 2147483634)).power_watts == 250


@pytest.mark.parametrize(("metric", "lie"), [(POWER, 1e6), (UTIL, 4000), (SM, 37)])
def test_what_physics_excludes_is_unmeasured(metric, lie):
    board = only(row(metric, lie))
    assert board.power_watts is board.activity is None


def test_indexes_may_have_holes():
    assert [board.index for board in read("".join(row(POWER, 60, gpu=gpu) for gpu in (0, 1, 2, 4)))] == [0, 1, 2, 4]


def test_rows_that_are_no_boards_are_left_out():
    assert read(f'{POWER}{{nvswitch="0"}} 3\n{POWER}{{gpu="",UUID="x"}} 3\n{POWER} 3\n') == ()


def test_the_exporters_own_pod_is_no_workload():
    page = row(POWER, 60, pod="nvidia-dcgm-exporter-x", namespace="gpu-operator") + row(
        POWER, 60, gpu=1, pod="nvidia-dcgm-exporter-x", exported_pod="train", exported_namespace="ml")
    assert [board.jobs for board in read(page)] == [(), ("ml/train",)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(sorted(METRICS)), st.integers(0, 3), st.floats(0, 1)), min_size=1),
       st.sampled_from([{"hpc_job": "9"}, {"pod": "p"}, {"DCGM_FI_DRIVER_VERSION": "1"}]))
def test_copies_of_a_boards_rows_change_nothing_but_the_jobs(rows, labels):
    page = "".join(row(metric, value, gpu) for metric, gpu, value in rows)
    copies = "".join(row(metric, value, gpu, **labels) for metric, gpu, value in rows)
    def bare(text):
        return [(b.uuid, b.power_watts, b.energy_joules, b.activity, b.memory_used_bytes) for b in read(text)]
    assert bare(page + copies) == bare(page)


def test_the_configuration_builds_a_source(clock):
    assert DcgmConfig(targets=("h:9400",)).build(clock).name == "dcgm"
