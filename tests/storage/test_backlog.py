"""What cannot be written waits: on disk, bounded, over restarts and crashes, and once only in the database."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from idlewatt.storage import backlog as backlog_module
from idlewatt.storage import history as history_module
from idlewatt.storage.backlog import REPEAT_S, Backlog
from idlewatt.storage.batches import KINDS, Batch, Damaged, SnapshotChanges, decode, encode, write
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.notices import Notice
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.promotions import Abstention, Decision, Promotion, ShadowResult
from idlewatt.storage.records import Allocation, GpuRollup, IdleFloor, JobState, SchedulerSnapshot, WasteReading
from idlewatt.storage.rules import Qos, SchedulerRules
from idlewatt.storage.run_energy import EnergyShare
from idlewatt.storage.scheduler_configuration import SchedulerConfiguration
from idlewatt.storage.simulated import Simulated
from idlewatt.storage.speeds import RunSpeed
from idlewatt.storage.spool import Spool
from idlewatt.storage.underuse import Cause, CauseTally
from idlewatt.storage.uses import Use


def _batches(make) -> dict[str, Batch]:
    """Return a batch of every kind of facts."""
    run = make.running(120.0, Allocation("a", 2, (0, 1), 8, 1 << 30), name="x\0\ud800|\n", priority=float("nan"))
    ended = make.ended(120.0, 180.0, allocations=(Allocation("a", 2),))
    facts = {
        "seen": SnapshotChanges((run,), (make.node("a", features=("ib",), islands=((0, 1), (2, 3))),), 130.0,
                                SchedulerConfiguration(SchedulerRules(qos=(Qos("high", priority=5.0),))), 131.0),
        "finished": (ended,),
        "rollups": (GpuRollup(0.0, 300.0, "a", "GPU-1", 0, 300.0, 1.5),),
        "waste": (WasteReading(0.0, 300.0, "gpu", PowerClass.STRANDED, 7.5, "a"),),
        "shares": (EnergyShare(0.0, 300.0, "a", "gpu", {PowerClass.STRANDED: 7.5, PowerClass.PRODUCTIVE: 1.25}, "1",
                               100.0, 120.0, "u", "x"),),
        "floors": ((("GPU-1", "bare"), IdleFloor(55.0, "learned", 9, 100.0)),),
        "recommendations": (make.advice(101.0, "a", "b", reasons=("because",), interval_s=(1.0, 2.0)),),
        "decisions": (Promotion(100.0, "scorer@1", Decision.SHADOW, "operator", "try", {"jct": [0.9, None]}),),
        "abstentions": (Abstention("scorer@1", "doubt", "unsure", 100.0, 110.0, 2),),
        "standings": (ShadowResult("easy", 0.0, 3600.0, 1.0, 2.0, 3.0, 4.0),),
        "simulated": (Simulated("easy", 3600.0, 1.0, 2.0),),
        "speeds": (RunSpeed("1", 100.0, 120.0, "u", "x", "a100", 2, 1, "activity", 1.5, 9, 180.0),),
        "uses": (Use("1", 100.0, 120.0, "u", "x", 2, 8, 1 << 30, 180.0, 60.0, "cgroup", 1.0, 2.0, 0.0),),
        "causes": (CauseTally("1", 100.0, 120.0, Cause.CPU_BOUND, 180.0, 600.0, 0.9, {"cpus": 0.4}),),
        "notices": (Notice("idle", "first", "mail", "1", 100.0, 120.0, "idle_gpus", "u", "x", "gpu", "waiting", 170.0,
                           180.0, figures={"gpus": 2}),),
    }
    return {kind: Batch(kind, some, 1, 0) for kind, some in facts.items()}


def test_every_kind_of_facts_reads_back_as_it_was_written(make):
    made = _batches(make)
    assert made.keys() == KINDS.keys()
    for batch in made.values():
        back = decode(encode(batch))
        if batch.kind == "seen":
            assert back.facts.jobs[0].name == "x?|\n"
            assert back.facts.jobs[0].priority != back.facts.jobs[0].priority
            assert (back.facts.nodes, back.facts.time_s, back.facts.now_s) == (batch.facts.nodes, 130.0, 131.0)
        else:
            assert back == batch


def test_windows_wait_as_exactly_as_they_are_kept():
    window = GpuRollup(0.0, 300.0, "a", "GPU-1", 0, 299.9999999, 1234.5678901234, 0.12345678, 1 / 3, 2 / 3)
    (back,) = decode(encode(Batch("rollups", (window,), 1))).facts
    assert (back.energy_joules, back.activity_mean) == (1234.56789, 0.123457)


def test_a_line_that_was_touched_is_damaged(make):
    line = encode(_batches(make)["waste"])
    foreign = encode(Batch("waste", (), 1)).replace(b"waste", b"shell")
    for bad in (line[:-1], line[:40], line.replace(b'"items": 1', b'"items": 2'), b"\n", b"{}\n", foreign,
                b"00000000 []\n", b"x" * 100 + b"\n"):
        with pytest.raises(Damaged):
            decode(bad)


def test_a_batch_written_twice_or_out_of_turn_is_there_once(history, make):
    batches = list(_batches(make).values())
    for batch in (*batches, *batches, *reversed(batches)):
        with history._writing() as connection:
            write(connection, batch, {})
    rows = {table.table: table.rows for table in history.stats()}
    once = ("jobs", "runs", "node_changes", "floors", "recommendations", "promotions", "abstentions", "standings",
            "simulated", "speeds", "uses", "run_causes", "notices")
    assert {name: rows[name] for name in once} == dict.fromkeys(once, 1)
    assert (len(history.rollups(0, 1)), len(history.waste(0, 1, per_node=True))) == (1, 1)
    assert history.job("1").job.state is JobState.COMPLETED
    assert (history.abstentions()[0].rounds, history.dropped) == (2, 0)


def test_a_spool_holds_its_order_over_files_and_restarts(tmp_path, make, monkeypatch):
    monkeypatch.setattr("idlewatt.storage.spool.SEGMENT_BYTES", 600)
    spool = Spool(tmp_path / "spool", 1 << 20)
    for number in range(20):
        spool.append(encode(Batch("waste", (WasteReading(number, 1.0, "gpu", PowerClass.STRANDED, 1.0),), 1)), 1)
    assert len(list((tmp_path / "spool").glob("*.jsonl"))) > 3
    assert [_start(spool) for _ in range(5)] == [0, 1, 2, 3, 4]
    spool.close()
    again = Spool(tmp_path / "spool", 1 << 20)
    again.recover()
    first = again.first().facts[0].start_s
    assert first <= 5
    again.append(encode(Batch("waste", (WasteReading(20, 1.0, "gpu", PowerClass.STRANDED, 1.0),), 1)), 1)
    assert again.items == 21 - first
    assert [_start(again) for _ in range(again.items)] == list(range(int(first), 21))
    assert (again.items, again.bytes, again.first()) == (0, 0, None)
    assert list((tmp_path / "spool").glob("*.jsonl")) == []


def _start(spool: Spool) -> float:
    start_s = spool.first().facts[0].start_s
    spool.done()
    return start_s


def test_a_torn_end_and_a_flipped_bit_cost_only_themselves(tmp_path):
    spool = Spool(tmp_path / "spool", 1 << 20)
    for number in range(4):
        spool.append(encode(Batch("waste", (WasteReading(number, 1.0, "gpu", PowerClass.STRANDED, 1.0),), 1)), 1)
    spool.close()
    (path,) = (tmp_path / "spool").glob("*.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    flipped = lines[1].replace(b'"items": 1', b'"items": 3')
    path.write_bytes(lines[0] + flipped + lines[2] + lines[3][:30])
    again = Spool(tmp_path / "spool", 1 << 20)
    again.recover()
    assert again.items == 2
    assert [_start(again), _start(again)] == [0, 2]
    assert (again.first(), again.damaged, again.bytes) == (None, 2, 0)


def test_two_processes_never_share_a_spool(tmp_path, caplog):
    first, second = Spool(tmp_path / "spool", 1 << 20), Spool(tmp_path / "spool", 1 << 20)
    batch = Batch("waste", (WasteReading(0, 1.0, "gpu", PowerClass.STRANDED, 1.0),), 1)
    first.append(encode(batch), 1)
    other = Backlog(second)
    other.add(batch)
    assert (other.in_memory, other.items, other.first()) == (1, 1, batch)
    assert "stay in memory" in caplog.text
    assert first.items == 1


def test_what_the_disk_refuses_stays_in_memory_and_goes_there_later(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    backlog = Backlog(Spool(tmp_path / "file" / "spool", 1 << 20))
    monkeypatch.setattr(backlog_module, "MEMORY_ITEMS", 2)
    batches = [Batch("waste", (WasteReading(number, 1.0, "gpu", PowerClass.STRANDED, 1.0),), 1) for number in range(3)]
    assert [backlog.add(batch) for batch in batches] == [0, 0, 1]
    (tmp_path / "file").unlink()
    backlog.add(batches[0])
    assert (backlog.in_memory, backlog.items) == (0, 3)
    assert backlog.first() == batches[1]


def test_a_full_disk_tears_nothing(tmp_path, monkeypatch):
    spool = Spool(tmp_path / "spool", 1 << 20)
    line = encode(Batch("waste", (WasteReading(0, 1.0, "gpu", PowerClass.STRANDED, 1.0),), 1))
    spool.append(line, 1)
    really = os.write
    monkeypatch.setattr(os, "write", lambda file, data: really(file, data[:9]) if len(data) > 9 else _no_space())
    with pytest.raises(OSError, match="No space"):
        spool.append(line, 1)
    monkeypatch.setattr(os, "write", really)
    spool.append(line, 1)
    assert (spool.items, spool.bytes) == (2, 2 * len(line))
    assert [_start(spool), _start(spool), spool.first(), spool.damaged] == [0, 0, None, 0]


def _no_space() -> int:
    raise OSError(28, "No space left on device")


def test_advice_that_only_repeats_itself_waits_every_ten_minutes(make):
    backlog = Backlog(None)
    for second in range(0, int(REPEAT_S) + 1, 30):
        backlog.add(Batch("recommendations", (make.advice(1000.0 + second, "a"),), 1))
    assert backlog.items == 2
    backlog.add(Batch("recommendations", (make.advice(1000.0 + REPEAT_S + 30, "b"),), 1))
    assert backlog.items == 3


@contextmanager
def _locked(path):
    """Keep writers away from an SQLite file."""
    blocker = sqlite3.connect(path, isolation_level=None)
    blocker.execute("BEGIN IMMEDIATE")
    yield
    blocker.execute("ROLLBACK")
    blocker.close()


@contextmanager
def often_interrupted():
    """Let threads take turns within a loop over a few hundred things."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        yield
    finally:
        sys.setswitchinterval(before)


@pytest.fixture
def path(tmp_path):
    History.open(f"sqlite:///{tmp_path}/history.db").close()
    return tmp_path / "history.db"


def test_a_daemon_that_ends_while_the_database_is_away_loses_nothing(path, make):
    history = History.open(f"sqlite:///{path}?timeout=0.05")
    with _locked(path):
        with pytest.raises(StoreUnavailable):
            history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
        with pytest.raises(StoreUnavailable):
            history.record_snapshot(SchedulerSnapshot(130.0, jobs=(make.running(120.0),)))
        assert history.recording.backlog == 2
        history.close()
    with History.open(f"sqlite:///{path}") as again:
        assert again.backlog == 2
        again.record_waste(())
        assert [change.state for change in again.job("1").changes] == ["pending", "running"]
        assert (again.backlog, again.recording.backlog_bytes, again.dropped) == (0, 0, 0)


def test_what_is_said_of_recording_tells_since_when_and_why(path, make):
    with History.open(f"sqlite:///{path}?timeout=0.05") as history:
        assert (history.recording.possible, history.recording.since_s) == (True, None)
        with _locked(path):
            for _ in range(2):
                with pytest.raises(StoreUnavailable):
                    history.record_snapshot(SchedulerSnapshot(110.0, jobs=(make.job(),)))
                stopped = history.recording
        assert not stopped.possible
        assert stopped.since_s > 1e9
        assert "locked by another program" in stopped.reason
        assert (stopped.backlog, stopped.backlog_bytes > 0) == (1, True)
        history.record_waste(())
        assert history.recording == history_module.Recording()


def test_how_recording_fares_can_be_asked_while_facts_are_kept(path, tmp_path):
    (tmp_path / "file").write_text("")
    over, told = threading.Event(), []
    windows = [WasteReading(start, 1.0, "gpu", PowerClass.STRANDED, 1.0) for start in range(200)]

    def ask(history):
        while not over.is_set():
            told.append(history.recording.backlog)

    with History.open(f"sqlite:///{path}?timeout=0.001", tmp_path / "file" / "spool") as history, _locked(path), \
            ThreadPoolExecutor(1) as pool, often_interrupted():
        asked = pool.submit(ask, history)
        for window in windows:
            with pytest.raises(StoreUnavailable):
                history.record_waste([window])
        over.set()
        asked.result()
        assert history.recording.backlog == len(windows)
    assert told == sorted(told)


def test_the_bound_refuses_the_newest_counts_it_and_sees_it_anew(path, make):
    snapshot = SchedulerSnapshot(110.0, jobs=(make.job(),))
    windows = [WasteReading(start, 1.0, "gpu", PowerClass.STRANDED, 1.0) for start in range(9)]
    room = 3 * len(encode(Batch("waste", (windows[0],), 1, 0)))
    with History.open(f"sqlite:///{path}?timeout=0.05", spool_bytes=room + 40) as history:
        with _locked(path):
            for window in windows:
                with pytest.raises(StoreUnavailable):
                    history.record_waste([window])
            with pytest.raises(StoreUnavailable):
                history.record_snapshot(snapshot)
            assert (history.backlog, history.dropped) == (3, 7)
        history.record_snapshot(snapshot)
        assert history.job("1") is not None
        assert len(history.waste(0, 10)) == 3


_OUTAGE = """
import sys
from idlewatt.storage.errors import StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.records import *
with History.open(sys.argv[1]) as history:
    print("open", flush=True)
    sys.stdin.readline()
    for start in range(10**9):
        try:
            history.record_waste([WasteReading(start, 1.0, "gpu", PowerClass.STRANDED, 1.0)])
        except StoreUnavailable:
            print(start, flush=True)
"""


def test_a_crash_during_an_outage_loses_nothing(path):
    command = [sys.executable, "-c", _OUTAGE, f"sqlite:///{path}?timeout=0.001"]
    writer = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert writer.stdout.readline() == "open\n"
    with _locked(path):
        writer.stdin.write("go\n")
        writer.stdin.flush()
        for _ in range(20):
            writer.stdout.readline()
        os.kill(writer.pid, signal.SIGKILL)
        said = [int(line) for line in writer.communicate()[0].splitlines()[:-1]] or [19]
    with History.open(f"sqlite:///{path}") as history:
        history.record_waste(())
        assert len(history.waste(0, 1e9)) >= said[-1] + 1


def test_a_long_backlog_holds_nobody_up(path, monkeypatch):
    monkeypatch.setattr(history_module, "CATCH_UP_S", 0.0)
    windows = [WasteReading(start, 1.0, "gpu", PowerClass.STRANDED, 1.0) for start in range(6)]
    with History.open(f"sqlite:///{path}?timeout=0.05") as history:
        with _locked(path):
            for window in windows[:4]:
                with pytest.raises(StoreUnavailable):
                    history.record_waste([window])
        history.record_waste([windows[4]])
        assert (history.backlog, len(history.waste(0, 10)), history.recording.possible) == (4, 1, True)
        for _ in range(4):
            history.record_waste(())
        history.record_waste([windows[5]])
        assert (history.backlog, len(history.waste(0, 10))) == (0, 6)


def test_the_facts_of_a_waiting_line_are_plain_json(make):
    body = json.loads(encode(_batches(make)["waste"]).partition(b" ")[2])
    assert body.keys() == {"kind", "items", "after", "facts"}
