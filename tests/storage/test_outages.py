"""A real PostgreSQL that goes away and comes back while a daemon records: nothing is lost, nothing is there twice."""

import os
import random
import signal
import time
from collections import Counter
from pathlib import Path
from threading import Event, Thread

import pytest
from cost import widened
from postgres import Server, database
from sqlalchemy import text

from idlewatt.storage import history as history_module
from idlewatt.storage.errors import StoreError, StoreUnavailable
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.promotions import Decision, Promotion
from idlewatt.storage.records import Allocation, GpuRollup, SchedulerSnapshot, WasteReading

pytestmark = pytest.mark.postgres


class Daemon:
    """Records a little of everything at every step, as the daemon's cycles do, and goes on whatever is said."""

    def __init__(self, url: str, spool, make) -> None:
        self._url, self._spool, self._make = url, spool, make
        self.history = History.open(url, spool)
        self.steps = self.refused = self.restarts = 0

    def step(self) -> None:
        self.steps += 1
        now_s, history = 300.0 * self.steps, self.history
        run = self._make.running(now_s - 5, Allocation("a", 2), job_id=str(self.steps), submit_s=now_s - 10)
        ended = self._make.ended(now_s - 305, now_s - 200, job_id=str(self.steps - 1), submit_s=now_s - 310,
                                 allocations=(Allocation("a", 2),))
        for write in (
                lambda: history.record_snapshot(SchedulerSnapshot(now_s, jobs=(ended, run))),
                lambda: history.record_recommendations(
                    [self._make.advice(now_s, "a", job_id=str(self.steps + 1), submit_s=now_s + 290)]),
                lambda: history.record_rollups([GpuRollup(now_s, 300.0, "a", f"GPU-{self.steps % 7}", 0, 300.0, 1.0)]),
                lambda: history.record_waste([WasteReading(now_s, 300.0, "gpu", PowerClass.STRANDED, 1.0)]),
                lambda: history.decide(Promotion(now_s, "scorer@1", Decision.SHADOW, "daemon", "step"))):
            try:
                write()
            except StoreUnavailable:
                self.refused += 1

    def restart(self) -> None:
        """End as by SIGTERM and start again as systemd would: until the database can be opened."""
        self.history.close()
        self.restarts += 1
        while True:
            try:
                self.history = History.open(self._url, self._spool)
                return
            except StoreError:
                Event().wait(0.05)


def _outages(number: int, server: Server, draws: random.Random, over: Event, away: Event, caught_up: Event) -> None:
    for _ in range(number):
        caught_up.wait(10)
        Event().wait(draws.uniform(0, 0.08))
        server.stop(draws.choice(["fast", "immediate", "immediate"]))
        away.set()
        Event().wait(draws.uniform(0, 0.1))
        caught_up.clear()
        server.start()
        away.clear()
    over.set()


@pytest.mark.parametrize("outages", [6, pytest.param(30, marks=pytest.mark.long)])
def test_outages_at_random_moments_lose_nothing_and_double_nothing(frail_postgres, tmp_path, make, outages):
    draws, over, away, caught_up = random.Random(13), Event(), Event(), Event()
    daemon = Daemon(database(frail_postgres.url, "outages"), tmp_path / "spool", make)
    server = Thread(target=_outages, args=(outages, frail_postgres, draws, over, away, caught_up))
    server.start()
    chance = random.Random(7)
    while not over.is_set():
        daemon.step()
        if not daemon.history.backlog:
            caught_up.set()
        if away.is_set() and (chance.random() < 0.02 or (daemon.refused > outages and not daemon.restarts)):
            daemon.restart()
    server.join()
    daemon.step()
    history, steps = daemon.history, daemon.steps
    while history.backlog:
        history.record_waste(())
    print(f"{outages} outages, {steps} steps of 5 writes, {daemon.refused} refused, {daemon.restarts} restarts")
    assert outages < daemon.refused < 5 * steps
    assert daemon.restarts > 0
    _assert_all_once(history, steps)
    history.close()


@pytest.fixture
def still(frail_postgres):
    """Stop all processes of the server where they stand, as a hung disk does; they go on at the end."""
    stopped: list[int] = []

    def stop() -> None:
        stopped.extend(_processes(frail_postgres))
        for process in stopped:
            os.kill(process, signal.SIGSTOP)

    def go_on() -> None:
        while stopped:
            os.kill(stopped.pop(), signal.SIGCONT)

    yield stop, go_on
    go_on()


def _processes(server: Server) -> list[int]:
    first = int((server.root / "data/postmaster.pid").read_text().splitlines()[0])
    children = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat")
                if path.read_text().rpartition(")")[2].split()[1] == str(first)]
    return [first, *children]


def test_a_server_that_accepts_and_says_nothing_holds_nobody_for_long(frail_postgres, still, tmp_path, monkeypatch):
    monkeypatch.setattr(history_module, "ANSWER_S", 0.3)
    stop, go_on = still
    history = History.open(database(frail_postgres.url, "hung"), tmp_path / "spool")
    windows = [WasteReading(300.0 * number, 300.0, "gpu", PowerClass.STRANDED, 1.0) for number in range(4)]
    history.record_waste(windows[:1])
    stop()
    began = time.monotonic()
    for window in windows[1:3]:
        with pytest.raises(StoreUnavailable, match="has not answered|cannot be reached"):
            history.record_waste([window])
    with pytest.raises(StoreUnavailable):
        history.jobs(0, 1e9)
    assert time.monotonic() - began < widened(10)
    assert history.backlog == 2
    began = time.monotonic()
    history.hurry()
    history.close()
    assert time.monotonic() - began < widened(3)
    go_on()
    with History.open(database_url(history), tmp_path / "spool") as again:
        again.record_waste(windows[3:])
        assert len(again.waste(0, 1e9)) == 4


def database_url(history: History) -> str:
    return history._engine.url.render_as_string(hide_password=False)


def _assert_all_once(history: History, steps: int) -> None:
    starts = [300.0 * step for step in range(1, steps + 1)]
    assert [row.start_s for row in history.waste(0, 1e12)] == starts
    assert [row.start_s for row in history.rollups(0, 1e12)] == starts
    assert [promotion.time_s for promotion in history.decisions()] == starts
    assert len(history.recommendations(0, 1e12)) == steps
    jobs = {job.job_id: job for job in history.jobs(-1e12, 1e12)}
    assert len(jobs) == steps + 1
    assert Counter(job.state for job in jobs.values()) == {"completed": steps, "running": 1}
    with history._reading() as connection:
        changes = connection.execute(text("SELECT count(*), count(DISTINCT job) FROM job_changes")).one()
        runs = connection.execute(text("SELECT count(*), count(DISTINCT job) FROM runs")).one()
    assert runs == (steps + 1, steps + 1)
    assert changes == (3 * steps + 2, steps + 1)
    assert (history.backlog, history.dropped, history.recording.possible) == (0, 0, True)
