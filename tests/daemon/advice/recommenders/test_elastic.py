from dataclasses import asdict, replace

import pytest

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.elastic import ElasticRecommender
from idlewatt.daemon.settings.recommenders import CurveSettings, ElasticSettings
from idlewatt.exporters.publish import check
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.speeds import JobRate, Throughput
from idlewatt.storage.telemetry import GpuReading, Telemetry
from idlewatt.storage.waiting import WaitReason

NOW = 100_000.0
NODE = Node("n1", ("a100",), 8, "a100", cpus=64, gpus_allocated=4, cpus_allocated=32)
KNOWN = CurveSettings(name="bert-*", speeds={2: 190.0, 4: 340.0, 8: 560.0})


def job(job_id="1", gpus=4, name="bert-ft", state=JobState.RUNNING, **more):
    held = (Allocation("n1", gpus, tuple(range(gpus)), 8 * gpus),) if state is JobState.RUNNING else ()
    return Job(job_id, 0.0, state, "a100", Request(gpus, 1, gpus, 8 * gpus), user="alice", name=name,
               start_s=10.0 if held else None, allocations=held, **more)


def scene(*jobs, rates=(), now_s=NOW, gpus=(), nodes=(NODE,)):
    facts = (Throughput(now_s, tuple(JobRate(job_id, rate) for job_id, rate in rates)),) if rates else ()
    return RecommenderContext(now_s, SchedulerSnapshot(now_s, nodes, jobs=jobs), Telemetry(gpus), facts=facts)


@pytest.fixture
def history(tmp_path):
    with History.open(str(tmp_path / "idlewatt.db")) as opened:
        yield opened


@pytest.fixture
def recommender(history):
    """Return a function that opens an recommender; the same history goes on."""
    return lambda **settings: ElasticRecommender(ElasticSettings(**settings), history)


def watched(recommender, *runs):
    """Let runs of (id, GPUs, rate) be watched for as long as it takes to count; return what is recommended then."""
    found = None
    for job_id, gpus, rate in runs:
        for minute in range(3):
            found = recommender.recommend(scene(job(job_id, gpus, "train_7"), rates=[(job_id, rate)],
                                          now_s=NOW + 60 * minute))
    return found


def test_a_curve_is_learned_from_runs_of_two_sizes_and_not_from_one(recommender):
    opened = recommender()
    found = watched(opened, ("1", 2, 190.0), ("2", 2, 200.0))
    assert found.rows == ()
    assert found.metrics["elastic_unknown_jobs"] == {
        "unseen": 0.0, "one_size": 1.0, "no_curve": 0.0, "too_far": 0.0}
    found = watched(opened, ("3", 4, 340.0))
    (row,) = found.rows
    assert (row.job_id, row.gpus, row.basis, row.runs, row.sizes) == ("3", 4, "throughput", 3, (2, 4))
    assert row.more.gpus == 4
    assert row.has_room


def test_only_the_curves_of_the_last_round_are_kept_and_one_that_did_not_change_is_not_fitted_again(recommender):
    opened = recommender()
    watched(opened, ("1", 2, 190.0), *((str(number), 4, 340.0 + number) for number in range(2, 22)))
    (curve,) = opened._fitted.values()
    opened.recommend(scene(job("21", 4, "train_7"), now_s=NOW + 240))
    assert next(iter(opened._fitted.values())) is curve
    opened.recommend(scene(now_s=NOW + 300))
    assert opened._fitted == {}


def test_what_was_learned_survives_a_restart(recommender):
    watched(recommender(), ("1", 2, 190.0), ("2", 4, 340.0))
    found = recommender().recommend(scene(job("9", 4, "train_12", JobState.PENDING)))
    assert [(row.job_id, row.state, row.sizes) for row in found.rows] == [("9", "pending", (2, 4))]


def test_another_users_runs_and_other_names_tell_nothing(recommender):
    opened = recommender()
    watched(opened, ("1", 2, 190.0), ("2", 4, 340.0))
    strangers = (replace(job("8", name="train_1"), user="bob"), job("9", name="other"))
    found = opened.recommend(scene(*strangers))
    assert found.rows == ()
    assert found.metrics["elastic_unknown_jobs"]["unseen"] == 2.0


def test_without_throughput_activity_stands_in_and_the_row_says_so(recommender):
    opened = recommender()
    for job_id, gpus in (("1", 2), ("2", 4)):
        for minute in range(3):
            now_s = NOW + 60 * minute
            readings = tuple(GpuReading(f"G{index}", "n1", index, now_s, activity=0.9) for index in range(8))
            found = opened.recommend(scene(job(job_id, gpus), gpus=readings, now_s=now_s))
    assert [row.basis for row in found.rows] == ["activity"]


def test_jobs_of_two_schedulers_that_share_an_id_keep_their_own_speeds(recommender, history):
    jobs = [replace(job(gpus=2), submit_s=submit_s, source=node, allocations=(Allocation(node, 2, (0, 1)),))
            for node, submit_s in (("n1", 0.0), ("n2", 5.0))]
    gpus = tuple(GpuReading(f"G{node}{index}", node, index, NOW, activity=activity)
                 for node, activity in (("n1", 0.9), ("n2", 0.2)) for index in range(2))
    recommender().recommend(scene(*jobs, gpus=gpus, nodes=(NODE, replace(NODE, name="n2"))))
    assert {(run.submit_s, run.rate) for run in history.speeds(10)} == {(0.0, 1.8), (5.0, 0.4)}


def test_jobs_of_two_schedulers_that_share_id_and_partition_have_rows_and_no_series_that_is_either_ones(recommender):
    twins = [replace(job("1", gpus), submit_s=submit_s, source=source) for gpus, submit_s, source in
             ((2, 0.0, "a"), (4, 5.0, "b"))]
    found = recommender(curves=(KNOWN,)).recommend(scene(*twins, job("2")))
    assert sorted((row.job_id, row.submit_s) for row in found.rows) == [("1", 0.0), ("1", 5.0), ("2", 0.0)]
    for name in ("elastic_time_ratio", "elastic_marginal_gain_ratio", "elastic_info"):
        assert {labels[1] for labels in found.metrics[name]} == {"2"}


def test_a_job_has_no_series_where_one_of_another_scheduler_with_its_id_has_no_row(recommender):
    other = replace(job("1", name="another"), submit_s=5.0, source="b")
    found = recommender(curves=(KNOWN,)).recommend(scene(job("1"), other))
    assert [(row.job_id, row.submit_s) for row in found.rows] == [("1", 0.0)]
    assert found.metrics["elastic_info"] == {}


def test_a_job_that_still_loads_is_not_watched(recommender):
    opened = recommender(settle=200_000.0)
    assert watched(opened, ("1", 2, 190.0), ("2", 4, 340.0)).metrics["elastic_unknown_jobs"]["unseen"] == 1.0


def test_readings_of_long_ago_are_not_those_of_now(recommender, history):
    opened = recommender()
    old = Throughput(NOW - 3600, (JobRate("1", 190.0),))
    opened.recommend(replace(scene(job("1")), facts=(old,)))
    assert history.speeds(10) == ()


def test_what_a_site_knows_itself_goes_before_what_was_learned(recommender):
    (row,) = recommender(curves=(KNOWN,)).recommend(scene(job())).rows
    assert (row.basis, row.runs, row.sizes) == ("configured", 0, (2, 4, 8))


def test_a_configured_curve_is_for_names_and_users_that_match(recommender):
    known = KNOWN.model_copy(update={"user": "b*"})
    assert recommender(curves=(known,)).recommend(scene(job(), job("2", name="resnet50"))).rows == ()


@pytest.mark.parametrize("speeds", [{2: 1.0}, {}, {2: 1.0, 4: -1.0}, {0: 1.0, 4: 1.0}, {2: float("nan"), 4: 1.0}])
def test_a_configured_curve_that_cannot_be_is_refused(speeds):
    with pytest.raises(ValueError, match="speeds"):
        CurveSettings(name="*", speeds=speeds)


def test_what_can_be_done_now_comes_first_and_every_metric_is_one(recommender):
    jobs = (job("1"), job("2", state=JobState.PENDING),
            job("3", 8, state=JobState.PENDING, reason=WaitReason.RESOURCES))
    found = recommender(curves=(KNOWN,)).recommend(scene(*jobs))
    acts = [row.has_room or bool(row.fewer and row.fewer.helps) for row in found.rows]
    assert acts == sorted(acts, reverse=True)
    check(found.metrics)
    times = found.metrics["elastic_time_ratio"]
    assert times["a100", "1", "+4", "low"] < times["a100", "1", "+4", "estimate"] < times["a100", "1", "+4", "high"] < 0
    gain = found.metrics["elastic_marginal_gain_ratio"]["a100", "1", "+4"]
    assert gain == pytest.approx((560 / 340 - 1) / 4, rel=0.1)


def test_no_more_series_than_fifty_jobs_have_but_every_row(recommender):
    jobs = [job(str(number), state=JobState.PENDING) for number in range(80)]
    found = recommender(curves=(KNOWN,)).recommend(scene(*jobs))
    assert len(found.rows) == 80
    assert len(found.metrics["elastic_marginal_gain_ratio"]) == 100


def test_a_history_that_cannot_be_written_does_not_silence_it(recommender, history, monkeypatch):
    def full(_runs):
        raise StoreUnavailable("disk full")

    opened = recommender(curves=(KNOWN,))
    monkeypatch.setattr(history, "record_speeds", full)
    assert len(opened.recommend(scene(job(), rates=[("1", 5.0)])).rows) == 1


def test_a_size_far_from_the_measured_is_counted_and_not_guessed(recommender):
    found = recommender(curves=(KNOWN,)).recommend(scene(job(gpus=64, state=JobState.PENDING)))
    assert found.rows == ()
    assert found.metrics["elastic_unknown_jobs"]["too_far"] == 1.0


@pytest.mark.parametrize("odd", [
    job(gpus=0), job(state=JobState.PENDING, gpus=0), replace(job(), start_s=None), replace(job(), name="\ud800"),
    replace(job(), allocations=(Allocation("gone", 4),)), replace(job(), submit_s=float("nan")),
    job(gpus=10**9, state=JobState.PENDING)])
def test_odd_jobs_do_no_harm(recommender, odd):
    opened = recommender(curves=(KNOWN,))
    found = opened.recommend(scene(odd, job("2"), rates=[("1", 7.0), ("2", 8.0), ("vanished", 9.0)]))
    assert "2" in [row.job_id for row in found.rows]


def test_without_nodes_or_jobs_there_is_nothing_to_say(recommender):
    assert recommender().recommend(scene(nodes=())).rows == ()


def test_the_table_has_every_column(recommender):
    from pydantic import TypeAdapter

    subject = subjects()["elastic"]
    rows = recommender(curves=(KNOWN,)).recommend(scene(job(), job("2", 16, state=JobState.PENDING))).rows
    for row in TypeAdapter(tuple[subject.row, ...]).dump_python(rows, mode="json"):
        cells = subject.cells(row)
        assert set(subject.columns) <= set(cells)
    assert cells["fewer"] is not None


def test_nobody_is_told_how_to_become_slower(recommender):
    falling = CurveSettings(name="*", speeds={2: 100.0, 4: 110.0, 8: 60.0})
    (row,) = recommender(curves=(falling,)).recommend(scene(job())).rows
    assert row.has_room
    assert row.more.time_ratio > 0
    assert subjects()["elastic"].cells(asdict(row))["how"] == ""
