"""Days of traces as work: as much as was asked for, of the days that may be used, and the same each time."""

import numpy as np
import pytest
from rounds import write_traces

from idlewatt.daemon.agents.maifs import windows
from idlewatt.daemon.agents.maifs.windows import DAY_S, HELIOS, LOAD, LONGEST_S, PHILLY, Place
from idlewatt.storage.traces import TraceError


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return write_traces(tmp_path_factory.mktemp("traces"))


@pytest.mark.parametrize("nodes", [16, 64])
def test_a_window_loads_the_nodes_for_a_day_with_jobs_that_fit(traces, nodes):
    trace = windows.window(PHILLY, traces, 90, nodes)
    work = (trace.work * trace.gpus).sum()
    assert work >= LOAD * nodes * 8 * DAY_S
    assert work - trace.work[-1] * trace.gpus[-1] < LOAD * nodes * 8 * DAY_S
    assert trace.submit[-1] == DAY_S
    assert trace.work.max() <= LONGEST_S
    assert trace.gpus.max() <= 8 * nodes


def test_held_out_windows_share_no_job_and_come_after_all_that_is_learned_from(traces):
    days = list(windows.days(PHILLY, traces, 64))
    assert days[0] == PHILLY.held_out
    assert np.diff(days).min() >= PHILLY.pace


def test_lessons_are_the_same_though_the_held_out_days_were_never_there(tmp_path):
    (tmp_path / "all").mkdir()
    (tmp_path / "cut").mkdir()
    everything = write_traces(tmp_path / "all", helios_each=5)  # so few that a late window wants more than there are
    cut = write_traces(tmp_path / "cut", helios_each=5, days=(PHILLY.held_out, HELIOS.held_out))
    assert len(windows.window(HELIOS, everything, 10, 32).work) > len(windows.window(HELIOS, cut, 10, 32).work)
    for number in range(40):
        (_, one), (_, other) = windows.lesson(everything, number), windows.lesson(cut, number)
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)), number


def test_days_without_jobs_are_told_so(traces):
    with pytest.raises(TraceError, match="no job since day 200 fits 16 nodes"):
        windows.window(PHILLY, traces, 200, 16)
    with pytest.raises(TraceError, match="no job of nobody since day 85"):
        windows.complete(Place(PHILLY, "nobody", 109, 32), traces)


def test_a_trace_that_ends_too_early_gives_fewer_windows(traces):
    assert len(list(windows.days(HELIOS, traces, 16))) > len(list(windows.days(HELIOS, traces, 128))) > 0
    assert list(windows.days(HELIOS, traces, 4000)) == []


def test_a_number_gives_the_same_lesson_and_another_one_another(traces):
    (site, one), (again, same), (_, other) = (windows.lesson(traces, number) for number in (3, 3, 4))
    assert site.nodes == again.nodes
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.work, other.work)
    assert (one.submit == 0).all()


def test_a_virtual_cluster_is_taken_as_it_was(traces):
    trace = windows.complete(windows.COMPLETE[0], traces)
    assert trace.submit[0] == 0
    assert 15 * DAY_S < trace.submit[-1] <= (109 - PHILLY.held_out) * DAY_S
    assert trace.work.max() > LONGEST_S
