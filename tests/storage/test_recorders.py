"""Two daemons on one database, one after the other: whoever was replaced writes no more."""

import time

import pytest
from sqlalchemy import text

from idlewatt.storage.errors import StoreLocked, StoreUnavailable, Superseded
from idlewatt.storage.history import History
from idlewatt.storage.records import PowerClass, SchedulerSnapshot, WasteReading


@pytest.fixture
def spools(tmp_path):
    return [tmp_path / "first.spool", tmp_path / "second.spool"]


def _waste(start_s: float) -> WasteReading:
    return WasteReading(start_s, 300.0, "gpu", PowerClass.STRANDED, 1.0)


def _lose_lock(history: History, url: str) -> None:
    """Take the lock away from a daemon as a server does that restarts."""
    if url.startswith("sqlite"):
        history._lock.release()
        return
    with history._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        connection.execute(text("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'"))


def test_a_daemon_that_another_one_replaced_stops_says_so_and_keeps_its_backlog(url, spools, make, caplog):
    first = History.open(url, spools[0])
    first.record_waste([_waste(0.0)])
    _lose_lock(first, url)
    with History.open(url, spools[1]) as second:
        with pytest.raises(StoreLocked, match="another idlewatt daemon records into"):
            first.record_waste([_waste(300.0)])
        second.record_waste([_waste(600.0)])
    for _ in range(2):
        with pytest.raises(Superseded, match=r"another idlewatt daemon \(process .*\) has recorded .* restarted"):
            first.record_waste([_waste(900.0)])
    with pytest.raises(Superseded):
        first.compact(0.0)
    assert (first.backlog, first.recording.possible) == (3, False)
    assert "has recorded into this database since" in first.recording.reason
    with History.read_only(url) as reader:
        assert [row.start_s for row in reader.waste(0, 1e9)] == [0.0, 600.0]
    History.open(url, spools[1]).close()
    first.close()
    assert list(spools[0].glob("*.jsonl"))


def test_a_daemon_that_finds_the_lock_free_and_nothing_written_goes_on(url, spools):
    first = History.open(url, spools[0])
    first.record_waste([_waste(0.0)])
    _lose_lock(first, url)
    with History.open(url, spools[1]), pytest.raises(StoreLocked):
        first.record_waste([_waste(300.0)])
    first.record_waste([_waste(600.0)])
    assert [row.start_s for row in first.waste(0, 1e9)] == [0.0, 300.0, 600.0]
    assert first.recording.possible
    first.close()


def test_a_backlog_of_a_time_when_another_daemon_recorded_adds_no_energy_and_all_jobs(url, spools, make):
    now_s = time.time()
    first = History.open(url, spools[0])
    first.record_waste([_waste(0.0)])
    _lose_lock(first, url)
    second = History.open(url, spools[1])
    second.record_waste([_waste(now_s + 100)])
    with pytest.raises(StoreLocked):
        first.record_waste([_waste(now_s - 1000), _waste(now_s - 10), _waste(now_s + 290)])
    with pytest.raises(StoreLocked):
        first.record_snapshot(SchedulerSnapshot(now_s, jobs=(make.job(),)))
    first.close()
    second.close()
    with History.open(url, spools[0]) as again:
        again.record_waste(())
        assert again.backlog == 0
        assert again.job("1") is not None
        assert [row.start_s for row in again.waste(0, 1e11)] == pytest.approx(
            [0.0, now_s - 1000, now_s + 100])


def test_a_commit_whose_answer_was_lost_is_written_once(history, make, monkeypatch):
    """The server has committed, the connection broke before it could say so."""
    confirm = history._claim.confirm

    def lost():
        raise StoreUnavailable("the connection broke at the answer")

    monkeypatch.setattr(history._claim, "confirm", lost)
    with pytest.raises(StoreUnavailable):
        history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
    monkeypatch.setattr(history._claim, "confirm", confirm)
    history.record_waste([_waste(0.0)])
    assert (len(history.jobs(0, 1e9)), len(history.job("1").changes), history.backlog) == (1, 1, 0)
    with history._reading() as connection:
        assert connection.execute(text("SELECT count(*) FROM recorders")).scalar_one() == 1
