"""What ended jobs tell of others: the same live as in replay."""

import numpy as np
import pytest

from idlewatt.daemon.replay.workload import PREDICTED_COLUMNS, Workload
from idlewatt.daemon.replay.workload_builder import from_columns
from idlewatt.daemon.runtime_history import RuntimeHistory
from idlewatt.storage.history import History
from idlewatt.storage.records import Job, JobState, Request

DAY = 86400.0


def job(number: int, chance: np.random.Generator) -> Job:
    submit_s, run_s = 1e9 + 300.0 * number, float(chance.uniform(60, 7200))
    return Job(str(number), submit_s, JobState.COMPLETED, "gpu", Request(int(chance.choice([1, 2, 8]))),
               user=f"u{number % 5}", name=f"train_lr0.{number}", start_s=submit_s + 60, end_s=submit_s + 60 + run_s,
               limit_s=2 * DAY)


@pytest.fixture
def history(tmp_path):
    chance = np.random.default_rng(1)
    with History.open(f"sqlite:///{tmp_path}/history.db") as opened:
        opened.record_finished([job(number, chance) for number in range(200)])
        yield opened


def test_a_job_is_foreseen_live_as_it_was_in_training(history):
    columns = history.load_columns()
    replayed = from_columns(columns).workload
    live = Workload.from_records(history.jobs(0, 1e10), predictor=RuntimeHistory(columns))
    assert live.ids == replayed.ids
    for name in PREDICTED_COLUMNS:
        assert np.array_equal(getattr(live, name), getattr(replayed, name), equal_nan=True), name
    assert np.isfinite(live.prediction[5:]).all()


def test_what_was_told_of_a_job_stays_though_more_have_ended(history):
    columns = history.load_columns()
    pending = Job("new", 1e9 + 200 * 300.0, JobState.PENDING, "gpu", Request(1), user="u1", name="train_lr0.9",
                  limit_s=DAY)
    young = RuntimeHistory(history.load_columns(until_s=1e9 + 3000.0))
    before = young([pending])
    assert young.renewed(columns)([pending]) == before
    assert RuntimeHistory(columns)([pending])["prediction"] != before["prediction"]
    young([])
    assert young.renewed(columns)([pending]) != before, "whoever has gone is forgotten"


def test_of_jobs_that_have_gone_nothing_is_kept_however_many_were_asked_about_with_one_that_waits(history):
    foresight = RuntimeHistory(history.load_columns())
    waiting, *others = [Job(f"new {number}", 2e9, JobState.PENDING, "gpu", Request(1), user="u1", name="train_lr0.9",
                            limit_s=DAY) for number in range(9)]
    first = foresight([waiting, *others])["prediction"][0]
    assert foresight([waiting])["prediction"].tolist() == [first]
    _, told = foresight._predicted
    assert (told.shape, told.base) == ((1, len(PREDICTED_COLUMNS)), None)
    assert foresight.independent_copy()([waiting])["prediction"].tolist() == [first]


def test_without_any_past_nothing_is_foreseen(tmp_path):
    with History.open(f"sqlite:///{tmp_path}/empty.db") as empty:
        nothing = RuntimeHistory(empty.load_columns())
    some = [Job("1", 1e9, JobState.PENDING, "gpu", Request(1)), Job("2", 1e9, JobState.PENDING, "gpu", Request(1))]
    assert all(np.isnan(values).all() and len(values) == 2 for values in nothing(some).values())
    assert all(len(values) == 0 for values in nothing([]).values())


def test_tasks_of_an_array_share_what_is_told(history):
    some = [Job("7", 1e9 + 70_000, JobState.PENDING, "gpu", Request(1), user="u1")] * 3
    told = RuntimeHistory(history.load_columns())(some)["prediction"]
    assert len(told) == 3
    assert len(set(told)) == 1


def test_of_names_only_templates_are_remembered(history):
    assert RuntimeHistory(history.load_columns()).past.vocabularies["name"] == ("train_lr#",)


def test_only_the_last_jobs_are_remembered(history):
    assert history.load_columns(last=10).job_id.tolist() == [str(number) for number in range(190, 200)]


def test_another_asker_does_not_make_it_forget(history):
    columns = history.load_columns()
    pending = Job("new", 1e9 + 200 * 300.0, JobState.PENDING, "gpu", Request(1), user="u1", name="train_lr0.9",
                  limit_s=DAY)
    young = RuntimeHistory(history.load_columns(until_s=1e9 + 3000.0))
    before = young([pending])
    other = young.independent_copy()
    assert other([pending]) == before
    other([])
    assert young.renewed(columns)([pending]) == before
