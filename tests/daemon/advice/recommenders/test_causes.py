"""Causes of running jobs: told as rows, counted by partition, recorded with the run, gone on with after a restart."""

import pytest
from labelled import NOW, levels, readings
from pydantic import TypeAdapter

from idlewatt.daemon.advice.recommender import RecommenderContext
from idlewatt.daemon.advice.recommenders import subjects
from idlewatt.daemon.advice.recommenders.causes import CauseRecommender
from idlewatt.daemon.settings.recommenders import CausesSettings
from idlewatt.exporters.publish import check
from idlewatt.storage.history import History
from idlewatt.storage.records import Allocation, Job, JobState, Node, Request, SchedulerSnapshot
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
