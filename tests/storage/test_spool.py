"""Files of the spool that the disk or another owner keeps from us: they cost themselves and nothing after them."""

import errno
import os

import pytest

from idlewatt.storage import history as history_module
from idlewatt.storage.backlog import Backlog
from idlewatt.storage.batches import Batch, encode
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import WasteReading
from idlewatt.storage.spool import Spool


@pytest.fixture
def path(tmp_path):
    History.open(f"sqlite:///{tmp_path}/history.db").close()
    return tmp_path / "history.db"


def _start(spool: Spool) -> float:
    start_s = spool.first().facts[0].start_s
    spool.done()
    return start_s


def _segments_of_one_batch(folder, starts, monkeypatch):
    """Leave a spool of files with a batch each."""
    monkeypatch.setattr("idlewatt.storage.spool.SEGMENT_BYTES", 1)
    spool = Spool(folder, 1 << 20)
    for start in starts:
        spool.append(encode(Batch("waste", (WasteReading(start, 1.0, "gpu", PowerClass.STRANDED, 1.0),), 1, 0)), 1)
    spool.close()
    return sorted(folder.glob("*.jsonl"))


def _make_unreadable(segment):
    """Put something in the place of a file that nobody can read as one, root neither."""
    segment.unlink()
    segment.mkdir()


@pytest.mark.parametrize("later", [False, True])
def test_a_file_of_the_spool_that_cannot_be_read_costs_only_itself(tmp_path, monkeypatch, caplog, later):
    segments = _segments_of_one_batch(tmp_path / "spool", range(3), monkeypatch)
    again = Spool(tmp_path / "spool", 1 << 20)
    if later:
        again.recover()
    _make_unreadable(segments[1])
    backlog = Backlog(again)
    for start in (0, 2):
        assert backlog.first().facts[0].start_s == start
        backlog.done()
    assert (backlog.first(), backlog.items, backlog.bytes, backlog.damaged) == (None, 0, 0, 1)
    assert caplog.text.count("cannot be read") == 1
    assert segments[1].exists()


def test_a_file_of_the_spool_that_breaks_off_while_it_is_read_costs_only_itself(tmp_path, monkeypatch):
    _segments_of_one_batch(tmp_path / "spool", range(3), monkeypatch)
    again = Spool(tmp_path / "spool", 1 << 20)
    again.recover()
    assert _start(again) == 0
    really = os.fstat
    monkeypatch.setattr(os, "fstat", lambda file: _broken())
    backlog = Backlog(None)
    backlog._spool = again
    assert backlog.first().facts[0].start_s == 1
    backlog.done()
    monkeypatch.setattr(os, "fstat", really)
    assert (backlog.first().facts[0].start_s, backlog.items) == (2, 1)


def _broken():
    raise OSError(errno.EIO, "Input/output error")


def test_a_file_of_the_spool_that_cannot_be_deleted_is_not_read_again(tmp_path, monkeypatch):
    _segments_of_one_batch(tmp_path / "spool", range(2), monkeypatch)
    again = Spool(tmp_path / "spool", 1 << 20)
    again.recover()
    monkeypatch.setattr("pathlib.Path.unlink", lambda path, missing_ok=False: _broken())
    assert [_start(again), _start(again), again.first(), again.damaged] == [0, 1, None, 0]


def test_facts_are_recorded_where_a_file_of_the_spool_cannot_be_read(path, monkeypatch):
    segments = _segments_of_one_batch(path.parent / "history.db.spool", range(2), monkeypatch)
    _make_unreadable(segments[0])
    with History.open(f"sqlite:///{path}") as history:
        history.record_waste([WasteReading(5.0, 1.0, "gpu", PowerClass.STRANDED, 1.0)])
        assert [window.start_s for window in history.waste(0, 10)] == [1.0, 5.0]
        assert history.recording == history_module.Recording(dropped=1)


def test_a_history_lets_the_next_daemon_in_though_its_backlog_cannot_be_written(path, monkeypatch):
    history = History.open(f"sqlite:///{path}")
    monkeypatch.setattr(history, "_flush", _broken)
    history.close()
    History.open(f"sqlite:///{path}").close()
