import functools
import json
import os
from dataclasses import replace

import numpy as np
import pytest

from idlewatt.daemon import sweep, sweep_ray
from idlewatt.daemon.replay.cluster import Cluster
from idlewatt.daemon.replay.workload import Workload
from idlewatt.daemon.sweep import Shelf, Sweep, SweepError, SweepPlan


def plan(**changes):
    random = np.random.default_rng(1)
    run = random.integers(10, 900, 80)
    work = Workload.of(np.cumsum(random.integers(0, 60, 80)), run, random.integers(1, 9, 80), limit=2 * run)
    return SweepPlan(Cluster.from_spec("2x8"), work, **changes)


@functools.cache
def replayed():
    """Return an outcome to be kept, which nobody changes."""
    return sweep.replay(plan(), "fifo")


def carried_out(made, folder, policies=("fifo", "sjf-oracle+best-fit+easy"), engine="processes"):
    told, found = [], Sweep(made, policies, Shelf(folder))
    found.carry_out(engine, 2, lambda done, total: told.append((done, total)))
    return found, told


def test_what_is_done_is_not_done_again(tmp_path):
    first, told = carried_out(plan(), tmp_path)
    assert told == [(0, 2), (1, 2), (2, 2)]
    again, told = carried_out(plan(), tmp_path)
    assert told == [(2, 2)]
    assert [one.figures for one in again.outcomes()] == [one.figures for one in first.outcomes()]
    np.testing.assert_array_equal(again.outcomes()[0].arrays["end"], first.outcomes()[0].arrays["end"])


def test_everything_that_an_outcome_depends_on_is_in_its_key():
    made = plan()
    work = made.workload
    others = [replace(made, seed=1), replace(made, preemption_s=1.0), replace(made, power_down_s=60.0),
              replace(made, cluster=Cluster.from_spec("3x8")), replace(made, model=replace(made.model, host=1.0)),
              replace(made, workload=replace(work, gpus=work.gpus[::-1]))]
    keys = {made.key("fifo"), made.key("sjf-oracle+best-fit+easy"), *(other.key("fifo") for other in others)}
    assert len(keys) == 8
    assert plan().key("fifo") == made.key("fifo")


@pytest.mark.parametrize("damage", [lambda file: file.write_bytes(file.read_bytes()[:100]), lambda file: file.unlink(),
                                    lambda file: file.write_bytes(b"")])
@pytest.mark.parametrize("suffix", [".json", ".npz"])
def test_half_an_outcome_is_none(tmp_path, damage, suffix):
    shelf, outcome = Shelf(tmp_path), replayed()
    shelf.put("key", outcome)
    assert shelf.get("key").figures == json.loads(json.dumps(outcome.figures))
    damage(tmp_path / f"key{suffix}")
    assert shelf.get("key") is None


def test_the_oldest_outcomes_make_room(tmp_path, monkeypatch):
    monkeypatch.setattr(sweep, "KEPT", 2)
    shelf, outcome = Shelf(tmp_path), replayed()
    for age, key in enumerate(("a", "b", "c")):
        shelf.put(key, outcome)
        os.utime(tmp_path / f"{key}.json", (1000 + age, 1000 + age))
    shelf.put("d", outcome)
    assert {path.name for path in tmp_path.iterdir()} == {"c.json", "c.npz", "d.json", "d.npz"}


def test_rows_share_one_end_for_their_energy_and_a_baseline_for_their_times(tmp_path):
    made = plan()
    outcomes = [sweep.replay(made, policy) for policy in ("fifo", "sjf-oracle", "random-feasible")]
    found = sweep.rows(outcomes, made, "fifo")
    assert len({row["energy_until_s"] for row in found}) == 1
    assert found[0]["jct_ratio"] == found[0]["jct_ratio_low"] == found[0]["jct_ratio_high"] == 1.0
    assert found[1]["jct_ratio"] == pytest.approx(found[1]["jct_mean_s"] / found[0]["jct_mean_s"])
    assert np.isnan(found[1]["jct_ratio_low"])  # all came on one day: nobody can say how days differ
    assert found[0]["energy_until_s"] >= max(float(np.nanmax(outcome.arrays["end"])) for outcome in outcomes)


def test_days_that_differ_make_an_interval():
    made = plan()
    days = replace(made.workload, submit=made.workload.submit + 86400.0 * (np.arange(80) // 16))
    made = replace(made, workload=days)
    row = sweep.rows([sweep.replay(made, policy) for policy in ("fifo", "sjf-oracle")], made, "fifo")[1]
    assert row["jct_ratio_low"] <= row["jct_ratio"] <= row["jct_ratio_high"]


def test_a_baseline_that_is_not_done_yet_leaves_its_columns_out():
    made = plan()
    assert "jct_ratio" not in sweep.rows([sweep.replay(made, "fifo")], made, "sjf-oracle+best-fit+easy")[0]
    assert sweep.rows([], made, "fifo") == []


def test_figures_that_are_no_numbers_become_null():
    assert sweep.json_row({"a": float("nan"), "b": float("inf"), "c": 1.5, "d": "x", "e": 3}) == {
        "a": None, "b": None, "c": 1.5, "d": "x", "e": 3}


def test_an_unknown_policy_in_a_worker_is_named(tmp_path):
    with pytest.raises(SweepError, match="'nonsense' is no rule"):
        carried_out(plan(), tmp_path, ("nonsense",))


@pytest.mark.long
def test_a_ray_cluster_of_two_nodes_gives_the_same_figures_and_tables(tmp_path, monkeypatch):
    ray = pytest.importorskip("ray")
    cluster_utils = pytest.importorskip("ray.cluster_utils")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")
    cluster = cluster_utils.Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    try:
        cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False)
        assert sum(node["Alive"] for node in ray.nodes()) == 2
        tables = {"jobs_out": tmp_path / "jobs" / "t.csv", "groups_out": tmp_path / "groups" / "t.csv"}
        for path in tables.values():
            path.parent.mkdir()
        far, _ = carried_out(plan(**tables), tmp_path / "far", engine="ray")
    finally:
        ray.shutdown()
        cluster.shutdown()
    for name, path in tables.items():
        assert {made.name for made in path.parent.iterdir()} == {"t.fifo.csv", "t.sjf-oracle+best-fit+easy.csv"}
        assert ("group," in (path.parent / "t.fifo.csv").read_text()) == (name == "groups_out")
    near, _ = carried_out(plan(), tmp_path / "near")
    assert [one.figures for one in far.outcomes()] == [one.figures for one in near.outcomes()]


def test_without_ray_the_command_says_what_to_install(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "ray", None)
    with pytest.raises(SweepError, match=r"pip install 'idlewatt\[ray\]'"):
        next(iter(sweep_ray.side_by_side(plan(), ["fifo"], 1)))
