"""An SQLite file that is deleted, moved away or replaced while a daemon records into it."""

import shutil

import pytest

from idlewatt.storage.errors import StoreError, StoreLocked, StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.records import GpuRollup, SchedulerSnapshot


@pytest.fixture
def path(tmp_path):
    return tmp_path / "history.db"


@pytest.fixture
def history(path):
    with History.open(f"sqlite:///{path}") as opened:
        yield opened


def _files(path):
    return [path, path.with_name("history.db-wal"), path.with_name("history.db-shm")]


def test_a_deleted_database_is_noticed_and_what_comes_is_kept_for_the_next_start(path, history, make):
    history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    for file in _files(path):
        file.unlink()
    for second, job in ((120.0, make.running(115.0)), (130.0, make.ended(115.0, 125.0))):
        with pytest.raises(StoreUnavailable, match="history.db was deleted or moved away while idlewatt records"):
            history.record_snapshot(SchedulerSnapshot(second, jobs=(job,)))
    with pytest.raises(StoreUnavailable, match="was deleted"):
        history.jobs(0, 1e9)
    assert (history.backlog, history.recording.possible, path.exists()) == (2, False, False)
    history.close()
    with History.open(f"sqlite:///{path}") as again:
        again.record_waste(())
        assert [change.state for change in again.job("1").changes] == ["pending", "running", "completed"]


def test_a_database_that_was_moved_away_and_back_misses_nothing(path, history, make):
    history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    path.rename(path.with_name("elsewhere"))
    with pytest.raises(StoreUnavailable):
        history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(120.0),)))
    path.with_name("elsewhere").rename(path)
    history.record_waste(())
    assert [change.state for change in history.job("1").changes] == ["pending", "running"]
    assert history.recording.possible


def test_a_backup_in_its_place_is_gone_on_with(path, history, make, tmp_path, caplog):
    rollup = GpuRollup(0.0, 300.0, "a", "GPU-1", 0, 300.0, 1.0)
    history.vacuum()
    shutil.copy(path, tmp_path / "backup")
    history.record_rollups([rollup])
    history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    (tmp_path / "backup").replace(path)
    for file in _files(path)[1:]:
        file.unlink()
    history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.job(),)))
    history.record_rollups([GpuRollup(300.0, 300.0, "a", "GPU-1", 0, 300.0, 1.0)])
    history.record_snapshot(SchedulerSnapshot(150.0, jobs=(make.job(),)))
    assert "another file has taken the place" in caplog.text
    assert [job.job_id for job in history.jobs(0, 1e9)] == ["1"]
    assert (len(history.rollups(0, 1e9)), history.dropped) == (1, 0)


def test_a_file_of_another_kind_in_its_place_is_not_written_to(path, history, make):
    for file in _files(path)[1:]:
        file.unlink(missing_ok=True)
    path.unlink()
    path.write_bytes(b"<html>" * 1000)
    with pytest.raises(StoreError, match="is not an SQLite database"):
        history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.job(),)))
    assert path.read_bytes().startswith(b"<html>")
    assert history.backlog == 1


def test_a_lock_file_that_was_deleted_is_made_again_or_the_other_daemon_has_it(path, history, make):
    path.with_name("history.db.lock").unlink()
    history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    with pytest.raises(StoreLocked):
        History.open(f"sqlite:///{path}")
    path.with_name("history.db.lock").unlink()
    with History.open(f"sqlite:///{path}") as other:
        with pytest.raises(StoreLocked, match="another idlewatt daemon records into"):
            history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(120.0),)))
        assert other.jobs(0, 1e9)
