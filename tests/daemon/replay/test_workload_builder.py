import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Charged, Workload
from idlewatt.daemon.replay.workload_builder import HistoryError, digest, fitted, from_columns, from_trace
from idlewatt.storage.history import History
from idlewatt.storage.records import Job, JobState, Request
from idlewatt.storage.traces import read_trace

HEAD = "job,submit_s,run_s,gpus,limit_s,user,partition,cpus,mem_bytes,nodes\n"


def trace(tmp_path, text):
    path = tmp_path / "jobs.csv"
    path.write_text(HEAD + text)
    return read_trace(path)


def test_what_a_trace_tells_arrives_and_what_it_does_not_tell_binds_nothing(tmp_path):
    found = from_trace(trace(tmp_path, "a,10,60,2,90,eve,gold,8,1024,2\nb,5,30,1,,,,,,\n")).workload
    assert list(map(str, found.ids)) == ["b", "a"]
    assert found.limit.tolist() == [np.inf, 90.0]
    assert found.cpus.tolist() == [0, 8]
    assert found.memory.tolist() == [0, 1024]
    assert found.nodes.tolist() == [0, 2]
    assert found.partition.tolist() == [-1, 0]
    assert (found.partition_names, found.user_names) == (("gold",), ("eve",))


def test_a_prediction_knows_only_jobs_that_had_ended(tmp_path):
    lines = "".join(f"{job},{job * 1000},100,1,900,eve,p,,,\n" for job in range(5)) + "late,100000,700,1,900,eve,p,,,\n"
    found = from_trace(trace(tmp_path, lines)).workload
    assert found.prediction[0] == 900.0  # nothing had ended: its limit
    assert found.prediction[-1] == pytest.approx(100.0)


def test_rows_that_are_left_out_are_counted_and_some_are_shown(tmp_path):
    found = from_trace(trace(tmp_path, "a,0,1,1,,,,,,\nb,-1,1,1,,,,,,\n"))
    assert sum(found.left_out.values()) == 1
    assert found.examples == ("line 3: submit_s is negative (-1.0)",)


def test_a_trace_of_nothing_is_refused_with_its_reasons(tmp_path):
    with pytest.raises(HistoryError, match=r"1 x submit_s is negative; first: line 2"):
        from_trace(trace(tmp_path, "b,-1,1,1,,,,,,\n"))


def test_partitions_and_models_are_not_asked_for_where_the_cluster_has_none(tmp_path):
    found = from_trace(trace(tmp_path, "a,0,1,1,,,gold,,,\nb,1,1,1,,,silver,,,\n"))
    plain, named = Cluster.from_spec("1x8"), Cluster.from_mapping({"nodes": [{"gpus": 8, "partitions": ["gold"]}]})
    assert fitted(found, plain).workload.partition_names == ("default",)
    assert "gold, silver" in fitted(found, plain).notes[0]
    assert fitted(found, named).workload is found.workload


def test_the_digest_sees_every_difference_and_nothing_else():
    cluster, other = Cluster.from_spec("2x8"), Cluster.from_spec("2x8:a100")
    work = Workload.of([0, 1], [5, 5], [1, 2], user=["eve", "bob"])
    again = Workload.of([0, 1], [5, 5], [1, 2], user=["eve", "bob"])
    longer = Workload.of([0, 1], [5, 6], [1, 2], user=["eve", "bob"])
    assert digest(cluster, work) == digest(cluster, again)
    assert len({digest(cluster, work), digest(other, work), digest(cluster, longer)}) == 3


DESCRIBED = {"nodes": [{"name": "n", "count": 2, "gpus": 8, "features": ["ib", "nvme", "a100", "rack1"]}],
             "settings": {"PriorityType": "priority/multifactor", "PriorityWeightAge": 1000,
                          "PriorityFlags": "MAX_TRES,NO_NORMAL_ALL,SMALL_RELATIVE_TO_TIME",
                          "SchedulerParameters": "bf_interval=30"}}


@pytest.mark.parametrize("changed", [
    {"settings": DESCRIBED["settings"] | {"PriorityWeightAge": 1}},
    {"settings": DESCRIBED["settings"] | {"SchedulerParameters": "bf_interval=60"}},
    {"settings": DESCRIBED["settings"] | {"PriorityFlags": "MAX_TRES"}},
    {"nodes": [DESCRIBED["nodes"][0] | {"features": ["ib"]}]}])
def test_the_digest_sees_how_a_site_schedules_and_what_its_nodes_are_called_for(changed):
    work = Workload.of([0, 1], [5, 5], [1, 2])
    first, again = Cluster.from_mapping(DESCRIBED), Cluster.from_mapping(DESCRIBED)
    assert digest(first, work) == digest(again, work)
    assert digest(first, work) != digest(Cluster.from_mapping(DESCRIBED | changed), work)


@pytest.mark.parametrize("changed", [
    {"account": ("chem",) * 2000}, {"qos": ("low",) * 2000}, {"nice": np.arange(2000) == 1000.0},
    {"waited": np.arange(2000) == 1000.0}])
def test_the_digest_sees_who_is_charged_for_each_job(changed):
    cluster, work = Cluster.from_spec("2x8"), Workload.of(np.arange(2000), np.ones(2000), np.ones(2000))
    charged = Charged(("phys",) * 2000, ("high",) * 2000, np.zeros(2000))
    found = [digest(cluster, replace(work, charged=one)) for one in (
        None, charged, replace(charged), replace(charged, **changed))]
    assert found[1] == found[2]
    assert len(set(found)) == 3


def test_the_digest_sees_the_names_of_users_by_which_a_site_gives_shares():
    cluster, columns = Cluster.from_spec("2x8"), ([0, 1], [5, 5], [1, 2])
    assert digest(cluster, Workload.of(*columns, user=["eve", "bob"])) != digest(
        cluster, Workload.of(*columns, user=["bob", "eve"]))


def test_the_digest_is_the_same_in_every_process():
    program = ("from idlewatt.daemon.replay.cluster import Cluster\n"
               "from idlewatt.daemon.replay.workload import Workload\n"
               "from idlewatt.daemon.replay.workload_builder import digest\n"
               f"print(digest(Cluster.from_mapping({DESCRIBED!r}), Workload.of([0, 1], [5, 5], [1, 2])))")
    found = {subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True,
                            env=os.environ | {"PYTHONHASHSEED": seed}).stdout for seed in ("1", "2", "3")}
    assert found == {digest(Cluster.from_mapping(DESCRIBED), Workload.of([0, 1], [5, 5], [1, 2])) + "\n"}


def test_the_daemons_own_history_gives_the_jobs_that_ended(tmp_path):
    wanted = Request(4, 1, cpus=8)
    jobs = [Job("1", 100.0, JobState.COMPLETED, "all", wanted, user="eve", start_s=110.0, end_s=200.0, limit_s=300.0),
            Job("2", 120.0, JobState.CANCELLED, "all", wanted, user="bob", end_s=130.0),
            Job("3", 90.0, JobState.COMPLETED, "all", wanted, eligible_s=150.0, start_s=160.0, end_s=260.0)]
    with History.open(f"sqlite:///{tmp_path}/history.db") as history:
        history.record_finished(jobs)
        found = from_columns(history.load_columns())
    assert found.workload.ids == ("1", "3")
    assert found.workload.submit.tolist() == [100.0, 150.0]
    assert found.workload.run.tolist() == [90.0, 100.0]
    assert found.started.tolist() == [110.0, 160.0]
    assert found.left_out == {"never started": 1}


@pytest.mark.parametrize(("row", "shown"), [
    ("b,-5,10,1,,,,,,", "submit_s is negative"), ("b,0,0,1,,,,,,", "run_s is not positive"),
    ("b,0,-3,1,,,,,,", "run_s is not positive"), ("b,0,10,-1,,,,,,", "gpus is negative"),
    ("b,0,10,1,0,,,,,", "limit_s is not positive"), ("b,0,10", "does not have 10 columns"),
    ("b,0,nan,1,,,,,,", "run_s is missing"), ("b,0,1e99,1,,,,,,", "run_s is out of range"),
    ("a,9,10,1,,,,,,", "the job appears twice")])
def test_a_row_that_makes_no_sense_is_counted_and_named_with_its_line(tmp_path, row, shown):
    found = from_trace(trace(tmp_path, f"a,0,10,1,,,,,,\n{row}\nc,1,10,1,,,,,,\n"))
    assert list(map(str, found.workload.ids)) == ["a", "c"]
    assert found.lines.tolist() == [2, 4]
    assert sum(found.left_out.values()) == 1
    assert found.examples[0].startswith(f"line 3: {shown}")


@pytest.mark.parametrize("ids", [None, ["a", "b"], np.array([1, 2]), np.array(["a", "b"])])
def test_a_digest_knows_jobs_by_their_names_however_these_are_kept(ids):
    cluster, columns = Cluster.from_spec("1x1"), ([0.0, 1.0], [5.0, 5.0], [1, 1])
    other = None if ids is None else ids[::-1]
    assert digest(cluster, Workload.of(*columns, ids=ids)) == digest(cluster, Workload.of(*columns, ids=ids))
    if other is not None:
        assert digest(cluster, Workload.of(*columns, ids=ids)) != digest(cluster, Workload.of(*columns, ids=other))


@pytest.mark.parametrize(("jobs", "differing"), [(100, 0), (100, 1), (200, 1), (200, 100)])
def test_limits_that_are_the_run_times_are_taken_as_none_even_where_some_differ(tmp_path, jobs, differing):
    path = tmp_path / "jobs.csv"
    runs = [600 + 61 * job for job in range(jobs)]
    rows = [f"{job},{60 * job},{run},1,{run if job >= differing else 86400 + 3600 * (job % 3)}"
            for job, run in enumerate(runs)]
    path.write_text("\n".join(["job,submit_s,run_s,gpus,limit_s", *rows]))
    found = from_trace(read_trace(path))
    assert np.isinf(found.workload.limit).sum() == jobs - differing
    assert [note for note in found.notes if note.startswith(f"{jobs - differing} jobs have their very run time")]


@pytest.mark.parametrize("times", [1.0, 3.0])
def test_limits_that_tell_run_times_have_no_part_in_predictions(tmp_path, times):
    """They stay where the backfill needs them, as a multiple of the run time that somebody declares."""
    runs = np.random.default_rng(0).integers(600, 90000, 300)
    text = "".join(f"{job},{60 * job},{run},1,{times * run:.0f},eve,,,,\n" for job, run in enumerate(runs))
    found = from_trace(trace(tmp_path, text)).workload
    without = from_trace(trace(tmp_path, "".join(f"{job},{60 * job},{run},1,,eve,,,,\n"
                                                 for job, run in enumerate(runs)))).workload
    np.testing.assert_array_equal(found.prediction, without.prediction)
    assert found.limit[0] == (3.0 * runs[0] if times > 1 else np.inf)
