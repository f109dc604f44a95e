import csv

import pytest

from idlewatt.daemon.policies import named
from idlewatt.daemon.replay import engine, outcome, tables
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload


def run(policy="fifo", **options):
    """Return a run of four jobs of two users; the last one never fits."""
    work = Workload.of([0, 0, 5, 6], [100, 50, 10, 1], [8, 8, 8, 99], user=["ann", "bob", "ann", "bob"],
                       partition=["", "", "", ""], ids=["a", "b", "c", "=d"])
    return engine.run(Cluster.from_spec("1x8"), work, named(policy), **options)


def written(columns, rows, path):
    tables.write(columns, rows, path)
    return list(csv.DictReader(path.open()))


def test_a_table_has_a_row_per_job_in_both_formats(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    done = run(until=120)
    rows = written(tables.JOBS, tables.jobs(done), tmp_path / "jobs.csv")
    tables.write(tables.JOBS, tables.jobs(done), tmp_path / "jobs.parquet")
    assert [row["status"] for row in rows] == ["ended", "running", "waiting", "rejected"]
    assert (rows[0]["nodes"], rows[0]["user"], rows[0]["wait_s"]) == ("node0000:8", "ann", "0.0")
    assert (rows[1]["start_s"], rows[1]["end_s"]) == ("100.0", "")
    same = parquet.read_table(tmp_path / "jobs.parquet")
    assert same.column("end_s").to_pylist() == [100.0, None, None, None]
    assert same.column_names == list(tables.JOBS)


@pytest.mark.parametrize("policy", ["fifo", "srtf"])
def test_users_and_partitions_have_the_figures_of_their_jobs(tmp_path, policy):
    done = run(policy)
    rows = written(tables.GROUPS, tables.groups(done), tmp_path / "groups.csv")
    assert [(row["group"], row["name"], row["jobs"]) for row in rows] == [
        ("user", "ann", "2"), ("user", "bob", "1"), ("partition", "", "3")]
    figures = outcome.row(done)
    assert float(rows[2]["jct_s_mean"]) == figures["jct_mean_s"]
    assert float(rows[2]["wait_s_p99"]) == figures["wait_p99_s"]
    assert float(rows[2]["gpu_hours"]) == pytest.approx(figures["gpu_hours"])
    assert float(rows[0]["gpu_hours"]) + float(rows[1]["gpu_hours"]) == pytest.approx(figures["gpu_hours"])


def test_more_rows_than_are_kept_in_memory_are_all_there(tmp_path, monkeypatch):
    parquet = pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr(tables, "ROWS", 3)
    tables.write(tables.JOBS, tables.jobs(run()), tmp_path / "jobs.parquet")
    assert parquet.read_table(tmp_path / "jobs.parquet").column("job").to_pylist() == ["a", "b", "c", "=d"]


def test_nobody_ended_makes_an_empty_table(tmp_path):
    assert written(tables.GROUPS, tables.groups(run(until=1)), tmp_path / "groups.csv") == []


def test_another_suffix_is_an_error(tmp_path):
    with pytest.raises(ValueError, match=r"csv or \.parquet"):
        tables.write(tables.JOBS, tables.jobs(run()), tmp_path / "jobs.xlsx")
