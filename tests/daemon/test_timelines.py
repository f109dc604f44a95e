"""A job's GPUs over time: from the Prometheus that is configured, else from the windows, and it is said from where."""

from dataclasses import replace

import pytest

from idlewatt.daemon.config import parse
from idlewatt.daemon.efficiency import EnergyBook
from idlewatt.daemon.efficiency.timelines import GpuTimelines
from idlewatt.daemon.pricing import Costing
from idlewatt.daemon.range_clients import RangesOfSettings
from idlewatt.daemon.web.own_view import OwnBook
from idlewatt.exporters.gpu_ranges import GpuRange, GpuRanges
from idlewatt.exporters.source import SourceError
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Allocation, GpuRollup, Job, JobState, Request, SchedulerSnapshot
from idlewatt.storage.run_energy import EnergyShare

NOW, START = 10_000.0, 3600.0
JOB = Job("7", 3000.0, JobState.RUNNING, "gpu", Request(2), start_s=START, user="ada",
          allocations=(Allocation("n1", 2, (0, 1), cpus=8),))


@pytest.fixture
def history(tmp_path):
    with History.open(f"sqlite:///{tmp_path}/history.db") as made:
        made.record_snapshot(SchedulerSnapshot(START, (), (), (JOB,)))
        for start_s in (START, START + 300):
            made.record_rollups([GpuRollup(start_s, 300.0, "n1", f"GPU-{index}", index, 300.0, 30_000.0, 0.5, 0.6,
                                           100.0, 120.0, 300.0) for index in (0, 1)])
            made.record_shares([EnergyShare(start_s, 300.0, "n1", "gpu", {PowerClass.PRODUCTIVE: 60_000.0}, "7",
                                            3000.0, START, "ada", gpus=2.0, seen_seconds=300.0, gpu_seconds=600.0)])
        yield made


class Server:
    """Answers, or raises, as the test says, and notes what it was asked."""

    def __init__(self, watts=(90.0, 95.0), fault=""):
        self.watts, self.fault, self.asked = watts, fault, []

    def read(self, uuids, since_s, until_s, most):
        self.asked.append((tuple(uuids), since_s, until_s, most))
        if self.fault:
            raise SourceError(self.fault)
        known = tuple(None if value is None else 0.75 for value in self.watts)
        return GpuRanges(since_s, 300.0, len(self.watts), dict.fromkeys(uuids, GpuRange(tuple(self.watts), known)))


def report(history, timelines):
    (found,) = EnergyBook(history, Costing(), lambda: NOW, timelines).reports("7")
    return found


def test_without_a_prometheus_the_windows_tell(history):
    found = report(history, None)
    assert [(one.name, one.watts, one.activity) for one in found.series] == [
        ("n1:0", (100.0, 100.0), (0.5, 0.5)), ("n1:1", (100.0, 100.0), (0.5, 0.5))]
    assert found.series_source == "recorded windows"


def test_a_window_in_which_a_job_started_tells_of_others_too_and_is_a_gap(history):
    history.record_rollups([GpuRollup(START - 100.0, 100.5, "n1", f"GPU-{index}", index, 100.0, 1000.0, 0.0, 0.0,
                                      10.0, 10.0, 100.0) for index in (0, 1)])
    assert report(history, None).series[0].watts == (None, 100.0, 100.0)
    assert report(history, None).series[0].activity == (None, 0.5, 0.5)


def test_the_prometheus_that_is_configured_tells_and_it_is_said(history):
    server = Server()
    found = report(history, GpuTimelines(server, lambda: NOW))
    assert [(one.name, one.watts, one.activity, one.start_s) for one in found.series] == [
        (name, (90.0, 95.0), (0.75, 0.75), (START, START + 300)) for name in ("n1:0", "n1:1")]
    assert found.series_source == "Prometheus, by 300 s"
    assert server.asked == [(("GPU-0", "GPU-1"), START, START + 600, 96)]


def test_the_prometheus_tells_a_user_of_the_users_own_job_too(history):
    book = EnergyBook(history, Costing(), lambda: NOW, GpuTimelines(Server(), lambda: NOW))
    (found,) = OwnBook(book, "ada").reports("7")
    assert (found.series[0].watts, found.series_source) == ((90.0, 95.0), "Prometheus, by 300 s")
    assert OwnBook(book, "bob").reports("7") == ()


def test_one_that_lost_a_part_leaves_it_to_the_windows(history):
    found = report(history, GpuTimelines(Server(watts=(90.0, None)), lambda: NOW))
    assert found.series[0].watts == (100.0, 100.0)
    assert found.series_source == "recorded windows (Prometheus knows 50 % of the time)"


def test_one_that_cannot_be_asked_is_told_and_left_alone_for_a_while(history):
    now, server = [NOW], Server(fault="did not end within 3 s (timeout)")
    timelines = GpuTimelines(server, lambda: now[0])
    for _ in range(3):
        found = report(history, timelines)
        assert found.series_source == ("recorded windows (Prometheus could not be queried: did not end within 3 s "
                                       "(timeout))")
        assert found.series[0].watts == (100.0, 100.0)
    assert len(server.asked) == 1
    now[0] += 61
    server.fault = ""
    assert report(history, timelines).series_source == "Prometheus, by 300 s"


def test_the_client_is_that_of_the_configuration_in_force():
    ranges = RangesOfSettings(lambda: NOW)
    none = parse("sources: []")
    assert ranges.of(none) is ranges.of(none)
    one = parse("sources: [{kind: prometheus, url: 'http://127.0.0.1:9'}]")
    first = ranges.of(one)
    assert first is ranges.of(one)
    other = ranges.of(parse("sources: [{kind: prometheus, url: 'http://127.0.0.1:10'}]"))
    assert other is not first
    ranges.close()


def _shrunk(history):
    history.record_rollups([GpuRollup(start_s, 300.0, "n2", "GPU-9", 0, 300.0, 30_000.0, 0.5, 0.6, 100.0, 120.0, 300.0)
                            for start_s in (START, START + 300)])
    second = Allocation("n2", 1, (0,), cpus=4)
    wide = replace(JOB, allocations=(*JOB.allocations, second))
    history.record_snapshot(SchedulerSnapshot(START + 1, (), (), (wide,)))
    history.record_snapshot(SchedulerSnapshot(START + 310, (), (), (JOB,)))


@pytest.mark.parametrize("server", [None, Server((100.0, 100.0))], ids=["windows", "prometheus"])
def test_a_gpu_that_a_job_has_given_back_tells_nothing_of_it_afterwards(history, server):
    _shrunk(history)
    found = report(history, server and GpuTimelines(server, lambda: NOW))
    assert {one.name: one.watts for one in found.series} == {
        "n1:0": (100.0, 100.0), "n1:1": (100.0, 100.0), "n2:0": (100.0, None)}
    assert [part.node for part in found.job.allocations] == ["n1"]
