"""Days of traces as work: as much as was asked for, of the days that may be used, and the same each time."""

import numpy as np
import pytest
from rounds import write_traces

from idlewatt.daemon.reproduce.maifs import windows
from idlewatt.daemon.reproduce.maifs.windows import DAY_S, HELIOS, LOAD, LONGEST_S, PHILLY, HeldOutCluster
from idlewatt.daemon.reproduce.packaged import workload_of
from idlewatt.storage.traces import TraceError


@pytest.fixture(scope="module")
def traces(tmp_path_factory):
    return write_traces(tmp_path_factory.mktemp("traces"))


@pytest.mark.parametrize("nodes", [16, 64])
def test_held_out_windows_load_the_nodes_for_a_day_on_average_with_jobs_that_fit(traces, nodes):
    found = windows.held_out(PHILLY, traces, nodes, 1000)
    work = [(trace.work * trace.gpus).sum() for trace in found]
    assert np.mean(work) == pytest.approx(LOAD * nodes * 8 * DAY_S, rel=0.02)
    for trace in found:
        assert trace.submit[0] == 0
        assert trace.submit[-1] == pytest.approx(DAY_S)
        assert trace.work.max() <= LONGEST_S
        assert trace.gpus.max() <= 8 * nodes


def test_held_out_windows_share_no_job_and_follow_all_training_days(traces):
    found = windows.held_out(PHILLY, traces, 64, 1000)
    work = workload_of(traces / PHILLY.file)
    later = windows._fitting(work, PHILLY.held_out, PHILLY.last, 64)
    joined = np.concatenate([trace.gpus for trace in found])
    assert len(joined) > 10
    assert np.array_equal(joined, work.gpus[later][:len(joined)])
    assert len(later) - len(joined) < 2 * len(found[-1].gpus)  # only what fills no other window is left out


def test_fewer_windows_are_spread_over_the_held_out_days(traces):
    every, few = (windows.held_out(PHILLY, traces, 16, most) for most in (1000, 3))
    assert len(few) == 3
    for one, other in zip(few, (every[0], every[(len(every) - 1) // 2], every[-1]), strict=True):
        assert np.array_equal(one.model, other.model)
        assert np.array_equal(one.work, other.work)


def test_training_windows_do_not_depend_on_held_out_days(tmp_path):
    (tmp_path / "all").mkdir()
    (tmp_path / "cut").mkdir()
    everything, cut = write_traces(tmp_path / "all"), write_traces(tmp_path / "cut", days=(PHILLY.held_out, 0))
    (cut / HELIOS.file).unlink()
    for number in range(40):
        (_, one), (_, other) = windows.training_window(everything, number), windows.training_window(cut, number)
        assert all(np.array_equal(a, b) for a, b in zip(one, other, strict=True)), number


def test_days_without_jobs_are_an_error(tmp_path):
    cut = write_traces(tmp_path, days=(PHILLY.first, 26))
    with pytest.raises(TraceError, match="no job since day"):
        windows.training_window(cut, 3)
    with pytest.raises(TraceError, match="no job of nobody since day 80"):
        windows.complete(HeldOutCluster(PHILLY, "nobody", 109, 32), cut)


def test_a_trace_that_ends_too_early_gives_fewer_windows(traces):
    assert len(windows.held_out(HELIOS, traces, 16, 99)) > len(windows.held_out(HELIOS, traces, 128, 99)) > 0
    assert windows.held_out(HELIOS, traces, 4000, 99) == []


def test_enlarged_jobs_take_whole_nodes_up_to_all_and_are_faster_but_do_no_less_work():
    draw = np.random.default_rng(0)
    run, gpus = np.full(2000, 7200.0), np.ones(2000, np.int64)
    shorter, more = windows.enlarged(run, gpus, 20, draw)
    assert set(more.tolist()) == {1, 8, 16, 32, 64, 128}
    assert 0.75 < (more > 1).mean() < 0.85
    assert (shorter[more == 1] == run[0]).all()
    assert (np.diff([shorter[more == size][0] for size in (1, 8, 16, 32, 64, 128)]) < 0).all()
    assert (shorter * more >= run * gpus - 1e-6).all()


def test_a_number_gives_the_same_training_window_and_another_number_another(traces):
    (site, one), (again, same), (_, other) = (windows.training_window(traces, number) for number in (3, 3, 4))
    assert site.nodes == again.nodes
    assert all(np.array_equal(a, b) for a, b in zip(one, same, strict=True))
    assert not np.array_equal(one.work, other.work)
    assert (one.submit == 0).all()


def test_a_virtual_cluster_is_taken_unchanged(traces):
    trace = windows.complete(windows.COMPLETE[0], traces)
    assert trace.submit[0] == 0
    assert 15 * DAY_S < trace.submit[-1] <= (109 - PHILLY.held_out) * DAY_S
    assert trace.work.max() > LONGEST_S
