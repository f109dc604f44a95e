"""Power caps: said only where like runs were measured under two limits, with the interval, as a command."""

import random
from dataclasses import replace

import pytest
from pydantic import TypeAdapter

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.power_caps import PowerCapRecommender, lost
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
    recommender = PowerCapRecommender(PowerCapsSettings(**options))
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
    recommender = PowerCapRecommender(PowerCapsSettings())
    for number in range(6):
        found = watch(recommender, number, 500 if number < 3 else 700, 450 if number < 3 else 680, None)
    assert found.rows == ()


def test_a_speed_that_jobs_of_two_schedulers_may_have_is_no_measurement(monkeypatch):
    recommender = PowerCapRecommender(PowerCapsSettings())
    alone = recommender.recommend

    def beside_another(context):
        (job,) = context.snapshot.jobs
        other = replace(job, submit_s=NOW - 5, source="b", allocations=(Allocation("n0", 2, (0, 1)),))
        return alone(replace(context, snapshot=replace(context.snapshot, jobs=(job, other))))

    monkeypatch.setattr(recommender, "recommend", beside_another)
    for number in range(6):
        low = number < 3
        found = watch(recommender, number, 500 if low else 700, 450 if low else 680, (990 if low else 1000) + number)
    assert found.rows == ()


@pytest.mark.parametrize(("state", "rows"), [(JobState.RUNNING, 2), (JobState.PENDING, 1)])
def test_jobs_of_two_schedulers_that_share_id_and_partition_have_rows_and_no_series_that_is_either_ones(
        monkeypatch, state, rows):
    recommender = PowerCapRecommender(PowerCapsSettings())
    for number in range(6):
        low = number < 3
        found = watch(recommender, number, 500 if low else 700, 450 if low else 680, (990 if low else 1000) + number)
    assert {labels[1] for labels in found.metrics["power_cap_saving_ratio"]} == {"5"}
    alone = recommender.recommend

    def beside_another(context):
        (job,) = context.snapshot.jobs
        other = replace(job, submit_s=NOW - 5, source="b", allocations=(Allocation("n0", 2, (0, 1)),), state=state)
        return alone(replace(context, snapshot=replace(context.snapshot, jobs=(job, other))))

    monkeypatch.setattr(recommender, "recommend", beside_another)
    found = watch(recommender, 6, 700, 680, None)
    assert [(row.job_id, row.submit_s) for row in found.rows] == [("6", NOW), ("6", NOW - 5)][:rows]
    assert found.metrics["power_cap_saving_ratio"] == {}


def test_power_of_another_moment_than_the_speed_is_no_measurement():
    recommender = PowerCapRecommender(PowerCapsSettings())
    for number in range(6):
        low = number < 3
        found = watch(recommender, number, 500 if low else 700, 450 if low else 680, 1000, age_s=500.0)
    assert found.rows == ()


@pytest.mark.parametrize("detail", [{"least_limit_watts": 600.0}])
def test_a_limit_that_the_gpus_refuse_is_not_advised(detail):
    recommender = PowerCapRecommender(PowerCapsSettings())
    for number in range(6):
        low = number < 3
        found = watch(recommender, number, 500 if low else 700, 450 if low else 680, 990 if low else 1000, **detail)
    assert found.rows == ()


def test_runs_of_another_name_are_not_alike():
    recommender = PowerCapRecommender(PowerCapsSettings())
    for number in range(3):
        watch(recommender, number, 500, 450, 990, name="other")
    for number in range(3, 6):
        found = watch(recommender, number, 700, 680, 1000)
    assert found.rows == ()


def test_limits_below_the_default_and_throttling_are_counted():
    gpus = (gpu(0, 500.0, 450.0), gpu(1, 700.0, 680.0, throttled_by=("heat", "power")),
            gpu(2, 700.0, 100.0, throttled_by=()))
    found = PowerCapRecommender(PowerCapsSettings()).recommend(RecommenderContext(
        NOW, SchedulerSnapshot(NOW, (), (), ()), Telemetry(gpus)))
    assert found.metrics["capped_gpus"] == 1
    assert found.metrics["throttled_gpus"] == {"power": 2, "heat": 1}
    check(found.metrics)
    bare = Telemetry(tuple(replace(one, detail=GpuDetail()) for one in gpus))
    found = PowerCapRecommender(PowerCapsSettings()).recommend(RecommenderContext(
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


RUNS = {"usual": [(1000, 990), (1010, 1000), (990, 1010)], "under": [(840, 985), (850, 990), (845, 995)]}
"""Watts and speed of runs without and with a profile, as a site writes them down."""


def profile(**options):
    known = {"profile": 1, "name": "Max-Q", "model": "B200", "jobs": "train-*"} | {
        side: tuple({"watts": watts, "speed": speed} for watts, speed in runs) for side, runs in RUNS.items()} | options
    return PowerCapsSettings.model_validate({"profiles": [known]})


def told(settings, *, name="train-7b", model="NVIDIA B200", limit=1000.0, gpus=(2, 3), recommender=None, **detail):
    job = Job("7", NOW, JobState.RUNNING, "p", Request(2), user="ann", name=name, start_s=NOW,
              allocations=(Allocation("n0", len(gpus), gpus),))
    readings = tuple(replace(gpu(index, limit, 950.0, **detail), model=model) for index in range(4))
    return (recommender or PowerCapRecommender(settings)).recommend(RecommenderContext(
        NOW, SchedulerSnapshot(NOW, (Node("n0", ("p",), 4, gpu_model="b200"),), (), (job,)), Telemetry(readings)))


def test_a_profile_that_a_site_has_measured_is_a_command_with_what_it_saves_and_costs():
    found = told(profile())
    (row,) = found.rows
    assert (row.profile, row.limit_watts, row.cap_watts, row.runs) == ("1 Max-Q", 1000, None, (3, 3))
    assert row.saves_ratio == pytest.approx(1 - 845 / 990 / (1000 / 1000), abs=0.002)
    assert 0 < row.saves_interval[0] < row.saves_ratio < row.saves_interval[1]
    assert row.slower_interval[0] < row.slower_ratio == pytest.approx(0.01, abs=0.001)
    assert row.commands == ("ssh n0 nvidia-smi power-profiles -i 2,3 -sr 1",)
    check(found.metrics)
    assert found.metrics["power_profile_saving_ratio"]["p", "7", "1 Max-Q", "low"] == row.saves_interval[0]
    assert found.metrics["power_cap_saving_ratio"] == {}
    cells = subjects()["power_caps"].cells(TypeAdapter(PowerCap).dump_python(row, mode="json"))
    assert cells["change"] == "1000 W \N{RIGHTWARDS ARROW} profile 1 Max-Q"


@pytest.mark.parametrize(("options", "scene"), [
    ({}, {"name": "infer"}), ({}, {"model": "NVIDIA GB200"}), ({}, {"model": "NVIDIA H100 80GB HBM3"}),
    ({"user": "bob"}, {}), ({"gpus": 8}, {}), ({}, {"gpus": (2, 9)}),
    ({"limit": 850}, {"limit": 850.0}),                                            # they have it
    ({"under": [{"watts": 840, "speed": 900}] * 3}, {}),                           # it would cost too much
    ({"under": [{"watts": watts, "speed": 990} for watts in (700, 900, 1100)]}, {})])   # not sure to save anything
def test_of_other_jobs_and_of_profiles_that_are_not_worth_it_nothing_is_said(options, scene):
    assert told(profile(**options), **scene).rows == ()


def test_a_profile_that_nobody_has_measured_is_not_advised():
    assert told(profile(usual=[], under=[], limit=850)).rows == ()


@pytest.mark.parametrize("options", [
    {"usual": [], "under": []}, {"under": []}, {"under": [{"watts": 840, "speed": 1}] * 2}, {"profile": 255},
    {"name": "x\n# TYPE"}, {"model": ""}, {"under": [{"watts": float("nan"), "speed": 1}] * 3},
    {"under": [{"watts": 840, "speed": 0}] * 3}, {"limit": float("inf")}])
def test_a_profile_with_too_few_or_impossible_runs_is_refused(options):
    with pytest.raises(ValueError, match="profile"):
        profile(**options)


def test_a_limit_by_which_a_profile_shows_is_advised_as_the_profile():
    recommender = PowerCapRecommender(profile(usual=[], under=[], limit=498, model="H100"))
    for number in range(6):
        low = number < 3
        found = watch(recommender, number, 500 if low else 700, (450, 440, 460, 680, 690, 670)[number],
                      990 if low else 1000)
    (row,) = found.rows
    assert (row.profile, row.cap_watts) == ("1 Max-Q", 500)
    assert row.commands == ("ssh n0 nvidia-smi power-profiles -i 2,3 -sr 1",)


def test_gpus_of_which_no_exporter_tells_a_limit_are_advised_a_profile_all_the_same():
    found = told(profile(), limit=None)
    assert [row.limit_watts for row in found.rows] == [None]
    cells = subjects()["power_caps"].cells(TypeAdapter(PowerCap).dump_python(found.rows[0], mode="json"))
    assert cells["change"] == "now \N{RIGHTWARDS ARROW} profile 1 Max-Q"
