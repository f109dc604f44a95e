"""Power caps: said only where like runs were measured under two limits, with the interval, as a command."""

import random
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.power_caps import Recommender, lost
from idlewatt.daemon.settings.recommenders import PowerCapsSettings
from idlewatt.exporters.publish import check
from idlewatt.storage.power_caps import PowerCap
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.speeds import JobRate, Throughput
from idlewatt.storage.telemetry import GpuDetail, GpuReading, Telemetry

NOW = 1_800_000_000.0


def gpu(index, limit, watts, node="n0", **detail):
    known = {"default_limit_watts": 700.0, "least_limit_watts": 200.0, "throttled_by": ("power",)}
    return GpuReading(f"GPU-{node}-{index}", node, index, NOW, "H100", power_watts=watts, power_limit_watts=limit,
                      detail=GpuDetail(**(known | detail)))


def watch(recommender, number, limit, watts, rate, *, samples=3, name="train-7b", age_s=10.0, **detail):
    """Let one run be seen so often, on GPUs 2 and 3; return what is said at the last."""
    job = Job(str(number), NOW, JobState.RUNNING, "p", Request(2), user="ann", name=name, start_s=NOW,
              allocations=(Allocation("n0", 2, (2, 3)),))
    for sample in range(samples):
        now = NOW + 1000 + sample
        gpus = tuple(replace(gpu(index, limit, watts, **detail), time_s=now - age_s) for index in range(4))
        given = (Throughput(now, (JobRate(str(number), rate),)),) if rate else ()
        found = recommender.recommend(RecommenderContext(
            now, SchedulerSnapshot(now, (Node("n0", ("p",), 4, gpu_model="h100"),), (), (job,)), Telemetry(gpus),
            facts=given))
    return found


def site(capped=(450, 440, 460), full=(680, 690, 670), slow=0.98, runs=3, **options):
    recommender = Recommender(PowerCapsSettings(**options))
    for number in range(runs):
        watch(recommender, number, 500, capped[number], 1000 * slow * (1 + 0.001 * number))
    for number in range(runs):
        found = watch(recommender, 10 + number, 700, full[number], 1000 * (1 + 0.001 * number))
    return found


def test_a_limit_that_like_runs_did_well_under_is_a_command_with_what_it_saves_and_costs():
    (row,) = site().rows
    assert (row.job_id, row.nodes, row.gpus, row.limit_watts, row.cap_watts) == ("12", ("n0",), 2, 700, 500)
    assert row.saves_ratio == pytest.approx(1 - 450 / 680 / 0.98, abs=0.01)
    assert row.saves_interval[0] < row.saves_ratio < row.saves_interval[1]
    assert row.slower_interval[0] < row.slower_ratio < row.slower_interval[1] < 0.05
    assert row.slower_ratio == pytest.approx(0.02, abs=0.002)
    assert (row.runs, row.throttled_ratio) == ((3, 3), 1.0)
    assert row.commands == ("ssh n0 nvidia-smi -i 2,3 -pl 500",)


@pytest.mark.parametrize("options", [
    {"slow": 0.9},                                               # it would cost too much
    {"capped": (660, 690, 700), "full": (680, 690, 670)},        # it is not sure to save anything
    {"runs": 2}, {"settle": 5000}])                              # too little was measured
def test_what_is_not_sure_is_not_said(options):
    assert site(**options).rows == ()


def test_nothing_measured_nothing_said():
    recommender = Recommender(PowerCapsSettings())
    for number in range(6):
        found = watch(recommender, number, 500 if number < 3 else 700, 450 if number < 3 else 680, None)
    assert found.rows == ()


def test_power_of_another_moment_than_the_speed_is_no_measurement():
    recommender = Recommender(PowerCapsSettings())
    for number in range(6):
        low = number < 3
        found = watch(recommender, number, 500 if low else 700, 450 if low else 680, 1000, age_s=500.0)
    assert found.rows == ()


@pytest.mark.parametrize("detail", [{"least_limit_watts": 600.0}])
def test_a_limit_that_the_gpus_refuse_is_not_advised(detail):
    recommender = Recommender(PowerCapsSettings())
    for number in range(6):
        low = number < 3
        found = watch(recommender, number, 500 if low else 700, 450 if low else 680, 990 if low else 1000, **detail)
    assert found.rows == ()


def test_runs_of_another_name_are_not_alike():
    recommender = Recommender(PowerCapsSettings())
    for number in range(3):
        watch(recommender, number, 500, 450, 990, name="other")
    for number in range(3, 6):
        found = watch(recommender, number, 700, 680, 1000)
    assert found.rows == ()


def test_limits_below_the_default_and_throttling_are_counted():
    gpus = (gpu(0, 500.0, 450.0), gpu(1, 700.0, 680.0, throttled_by=("heat", "power")),
            gpu(2, 700.0, 100.0, throttled_by=()))
    found = Recommender(PowerCapsSettings()).recommend(RecommenderContext(
        NOW, SchedulerSnapshot(NOW, (), (), ()), Telemetry(gpus)))
    assert found.metrics["capped_gpus"] == 1
    assert found.metrics["throttled_gpus"] == {"power": 2, "heat": 1}
    check(found.metrics)
    bare = Telemetry(tuple(replace(one, detail=GpuDetail()) for one in gpus))
    found = Recommender(PowerCapsSettings()).recommend(RecommenderContext(
        NOW, SchedulerSnapshot(NOW, (), (), ()), bare))
    assert (found.metrics["capped_gpus"], found.metrics["throttled_gpus"]) == (None, {})


def test_the_interval_holds_the_truth_as_often_as_it_says():
    chance = random.Random(1)
    held = 0
    for _ in range(1000):
        new, old = ([center * chance.lognormvariate(0, 0.05) for _ in range(5)] for center in (90.0, 100.0))
        low, high = lost(new, old)[1]
        held += low <= 0.1 <= high
    assert held / 1000 == pytest.approx(0.95, abs=0.02)


def test_a_row_is_shown_with_its_command():
    found = site()
    check(found.metrics)
    kind = subjects()["power_caps"]
    cells = kind.cells(TypeAdapter(PowerCap).dump_python(found.rows[0], mode="json"))
    assert cells["change"] == "700 \N{RIGHTWARDS ARROW} 500 W"
    assert cells["how"] == "ssh n0 nvidia-smi -i 2,3 -pl 500"
    assert cells["saves"].startswith("3")
    assert set(kind.columns) <= cells.keys()
