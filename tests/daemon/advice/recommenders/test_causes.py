"""Causes of running jobs: told as rows, counted by partition, recorded with the run, gone on with after a restart."""

import pytest
from labelled import NOW, levels, readings
from pydantic import TypeAdapter

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.causes import CauseRecommender
from idlewatt.daemon.settings.recommenders import CausesSettings
from idlewatt.exporters.publish import check
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
from idlewatt.storage.telemetry import GpuReading, Telemetry
from idlewatt.storage.underuse import Cause, Underuse


@pytest.fixture
def history(tmp_path):
    with History.open(f"sqlite:///{tmp_path}/history.db") as opened:
        yield opened


def shown(recommender, labelled):
    """Show a whole labelled job to a recommender; return what is said at the end."""
    part = Allocation("n0", labelled.gpus, tuple(range(labelled.gpus)), labelled.cpus)
    job = Job("1", NOW - 10, JobState.RUNNING, "p", Request(labelled.gpus), user="ann", name=labelled.name, start_s=NOW,
              allocations=(part,))
    nodes = (Node("n0", ("p",), 8, cpus=64, gpu_model="h100"),)
    for now, telemetry in readings(labelled):
        found = recommender.recommend(RecommenderContext(now, SchedulerSnapshot(now, nodes, (), (job,)), telemetry))
    return found


def test_a_cause_is_a_row_with_evidence_and_remedy_and_counts_its_gpus(history):
    labelled = levels(Cause.SMALL_BATCH, 2)
    found = shown(CauseRecommender(CausesSettings(), history), labelled)
    (row,) = found.rows
    assert (row.job_id, row.cause, row.gpus) == ("1", Cause.SMALL_BATCH, labelled.gpus)
    assert (row.nodes, row.user) == (("n0",), "ann")
    assert row.share_ratio > 0.9
    assert row.remedy.startswith("Try a larger batch")
    assert any("warps filled" in words for words in row.evidence)
    check(found.metrics)
    assert found.metrics["underused_gpus"] == {("p", "small_batch"): float(labelled.gpus)}
    kind = subjects()["causes"]
    cells = kind.cells(TypeAdapter(Underuse).dump_python(row, mode="json"))
    assert set(kind.columns) <= set(cells)
    assert cells["what"] == "work too small for the GPU"


def test_of_a_job_that_does_well_nothing_is_said(history):
    found = shown(CauseRecommender(CausesSettings(), history), levels(Cause.NONE, 1))
    assert found.rows == ()
    assert found.metrics["underused_gpus"] == {}


def test_what_was_seen_is_recorded_with_the_run_and_gone_on_with(history):
    labelled = levels(Cause.MEMORY_BOUND, 4)
    shown(CauseRecommender(CausesSettings(), history), labelled)
    history.record_causes(())
    (recorded, *_) = history.causes_of_run("1", NOW - 10, NOW)
    assert recorded.cause is Cause.MEMORY_BOUND
    assert recorded.gpu_seconds >= 600 * labelled.gpus
    again = CauseRecommender(CausesSettings(), history)
    (row,) = shown(again, labelled).rows
    assert row.judged_s > recorded.gpu_seconds / labelled.gpus


def lived(recommender, history, since_s, minutes, state):
    """Let a job of one GPU go on in a state, None where its scheduler does not list it; return what is recorded."""
    node = Node("n0", ("p",), 1, cpus=8)
    for now in range(int(since_s), int(since_s) + 60 * minutes, 60):
        jobs = () if state is None else (Job("1", NOW - 10, state, "p", Request(1), start_s=NOW,
                                             allocations=(Allocation("n0", 1, (0,), 8),)),)
        gpu = GpuReading("GPU-0", "n0", 0, now, activity=0.9, activity_source="sm_active")
        recommender.recommend(RecommenderContext(now, SchedulerSnapshot(now, (node,), (), jobs), Telemetry((gpu,))))
    return sum(one.gpu_seconds for one in history.causes_of_run("1", NOW - 10, NOW))


@pytest.mark.parametrize("state", [JobState.SUSPENDED, JobState.UNKNOWN, None])
@pytest.mark.parametrize("minutes", [1, 12])
def test_what_was_recorded_goes_on_after_looks_at_which_a_job_did_not_run(history, state, minutes):
    recommender = CauseRecommender(CausesSettings(), history)
    before = lived(recommender, history, NOW + 600, 60, JobState.RUNNING)
    assert before >= 3000.0
    assert lived(recommender, history, NOW + 4200, minutes, state) >= before
    after = lived(recommender, history, NOW + 4200 + 60 * minutes, 30, JobState.RUNNING)
    assert after >= before + 1200.0
    assert after <= 60 * 90  # no time is counted in which it did not run


def away(runs):
    raise StoreUnavailable("the server is away")


def test_causes_of_a_new_job_wait_for_a_history_that_cannot_be_read(history, monkeypatch):
    read, recommender = history.causes_of, CauseRecommender(CausesSettings(), history)
    monkeypatch.setattr(history, "causes_of", away)
    assert lived(recommender, history, NOW + 600, 30, JobState.RUNNING) == 0.0
    monkeypatch.setattr(history, "causes_of", read)
    assert lived(recommender, history, NOW + 2400, 10, JobState.RUNNING) >= 1800.0
