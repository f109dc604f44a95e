"""What runs took: added up once, whatever comes twice, on both databases."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sqlalchemy import select, text

from idlewatt.daemon.waste.assessment import CLASSES, COLUMN
from idlewatt.daemon.waste.energy import Windows
from idlewatt.daemon.waste.holders import Share
from idlewatt.storage import energy_queries, schema
from idlewatt.storage.batches import Batch, decode, encode, ended_by
from idlewatt.storage.energy_prices import EnergyPrice
from idlewatt.storage.energy_queries import RunFilter
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import Job, JobState, Request, SchedulerSnapshot
from idlewatt.storage.retention import Retention
from idlewatt.storage.run_energy import EnergyShare

DAY = 86400.0
IDLE, WORK, FREE = PowerClass.ALLOCATED_IDLE, PowerClass.PRODUCTIVE, PowerClass.IDLE_UNALLOCATED
UNDERUSED = PowerClass.ALLOCATED_UNDERUSED


def share(start_s=0.0, job_id="1", joules=None, **more):
    known = {"seconds": 300.0, "node": "a", "partition": "gpu", "submit_s": 10.0, "run_s": 20.0, "user": "ada",
             "account": "lab", "gpus": 2.0, "seen_seconds": 300.0, "gpu_seconds": 600.0, "measured_seconds": 600.0,
             "active_seconds": 300.0, "power_max_watts": 100.0, "idle": ()}
    if not job_id:
        known = {"seconds": 300.0, "node": "a", "partition": "gpu"}
    return EnergyShare(start_s, job_id=job_id, joules={WORK: 1000.0} if joules is None else joules, **(known | more))


def rows(history, table=schema.run_energy):
    return [row._asdict() for row in history._all(select(table))]


def test_windows_add_up_and_the_most_is_kept(history):
    history.record_shares([share(0.0), share(300.0, joules={WORK: 1.0, IDLE: 2.5}, power_max_watts=250.0, gpus=4.0)])
    history.record_shares([share(600.0, power_max_watts=90.0)])
    (row,) = rows(history)
    assert (row["energy_mj"], row["wasted_mj"], row["productive_mj"]) == (2_003_500, 2500, 2_001_000)
    assert (row["first_s"], row["last_s"], row["seen_ms"], row["gpu_ms"]) == (0.0, 900.0, 900_000, 1_800_000)
    assert (row["power_max_mw"], row["gpus"]) == (250_000, 4.0)


def test_a_window_that_comes_twice_changes_nothing(history):
    windows = [share(0.0), share(0.0, job_id="", joules={FREE: 7.0})]
    history.record_shares(windows)
    before = [rows(history, table) for table in (schema.run_energy, schema.energy_days, schema.node_days)]
    history.record_shares(windows)
    assert [rows(history, table) for table in (schema.run_energy, schema.energy_days, schema.node_days)] == before


def test_the_two_halves_of_a_window_cut_by_a_restart_are_both_counted(history):
    history.record_shares([share(0.0, seconds=120.0)])
    history.record_shares([share(0.0, seconds=300.0)])
    assert rows(history)[0]["energy_mj"] == 2_000_000


def test_a_run_over_several_nodes_is_one_row_and_each_node_has_its_own(history):
    history.record_shares([share(node="a"), share(node="b", joules={WORK: 500.0})])
    (row,) = rows(history)
    assert (row["gpus"], row["energy_mj"], row["seen_ms"]) == (4.0, 1_500_000, 300_000)
    assert {one["node"]: one["energy_mj"] for one in rows(history, schema.node_days)} == {"a": 1_000_000, "b": 500_000}


def test_a_job_that_runs_again_has_a_row_for_each_run(history):
    history.record_shares([share(0.0), share(900.0, run_s=900.0)])
    assert [row["start_s"] for row in rows(history)] == [20.0, 900.0]


def started(history, make, time_s, start_s, **more):
    job = make.running(start_s, submit_s=10.0, user="ada", **more)
    history.record_snapshot(SchedulerSnapshot(time_s, jobs=(job,)))


def test_a_run_whose_start_is_set_anew_once_its_nodes_have_booted_is_one_with_all_that_it_took(history, make):
    started(history, make, 30.0, 20.0)
    history.record_shares([share(0.0, joules={IDLE: 1.0}, idle=("a:0", "a:1"))])
    started(history, make, 490.0, 480.0)
    history.record_shares([share(300.0, run_s=20.0, joules={IDLE: 2.0}, seen_seconds=180.0, idle=("a:0",)),
                           share(300.0, run_s=480.0, joules={WORK: 4.0}, seen_seconds=120.0, idle=("a:0", "a:1"))])
    history.record_shares([share(600.0, run_s=480.0, joules={WORK: 8.0}, idle=("a:0", "a:1"))])
    (row,) = rows(history)
    assert (row["start_s"], row["first_s"], row["last_s"]) == (480.0, 0.0, 900.0)
    assert (row["energy_mj"], row["allocated_idle_mj"], row["productive_mj"]) == (15_000, 3_000, 12_000)
    assert (row["seen_ms"], row["gpus"], row["idle"]) == (900_000, 2.0, ["a:0"])
    (run,) = history.runs_of("1")
    assert (run.state, run.end_s) == (JobState.RUNNING, None)
    assert history.classes_of(run, 9) == (((480.0, 120.0), {WORK: 4_000}), ((600.0, 300.0), {WORK: 8_000}))


def test_the_first_window_of_a_run_whose_start_is_set_anew_may_be_written_afterwards(history, make):
    started(history, make, 30.0, 20.0)
    started(history, make, 210.0, 200.0)
    history.record_shares([share(0.0), share(0.0, job_id="2"), share(0.0, run_s=200.0, joules={IDLE: 1.0})])
    assert {(row["job_id"], row["start_s"]): row["energy_mj"] for row in rows(history)} == {
        ("1", 200.0): 1_001_000, ("2", 20.0): 1_000_000}


def test_a_window_within_which_a_run_began_anew_unseen_counts_and_is_not_on_its_timeline(history, make):
    started(history, make, 30.0, 20.0)
    history.record_shares([share(0.0), share(0.0, job_id="2", joules={WORK: 7.0})])
    started(history, make, 310.0, 295.0)
    history.record_shares([share(300.0, run_s=295.0, joules={WORK: 5.0})])
    ((run,), (other,)) = history.runs_of("1"), history.runs_of("2")
    assert run.sums["energy_mj"] == 1_005_000
    assert history.classes_of(run, 9) == (((300.0, 300.0), {WORK: 5_000}),)
    assert history.classes_of(other, 9) == (((20.0, 280.0), {WORK: 7_000}),)


def test_what_is_recorded_under_both_starts_of_a_run_is_added_up(history, make):
    started(history, make, 30.0, 20.0)
    history.record_shares([share(0.0, idle=("a:0",), power_max_watts=300.0)])
    history.record_shares([share(300.0, run_s=310.0, idle=("a:0", "a:1"), grams_per_kwh=400.0)])
    started(history, make, 320.0, 310.0)
    (row,) = rows(history)
    assert (row["start_s"], row["first_s"], row["last_s"], row["energy_mj"]) == (310.0, 0.0, 600.0, 2_000_000)
    assert (row["power_max_mw"], row["idle"], row["intensity_mj"]) == (300_000, ["a:0"], 1_000_000)


def test_a_run_that_follows_another_of_its_job_takes_nothing_of_it(history, make):
    started(history, make, 30.0, 20.0)
    started(history, make, 210.0, 200.0, restarts=1)
    started(history, make, 260.0, 250.0, restarts=1)
    history.record_shares([share(0.0), share(0.0, run_s=200.0, joules={IDLE: 1.0}), share(0.0, job_id="9")])
    assert {(row["job_id"], row["start_s"]): row["energy_mj"] for row in rows(history)} == {
        ("1", 20.0): 1_000_000, ("1", 250.0): 1_000, ("9", 20.0): 1_000_000}


def test_gpus_stay_unused_only_as_long_as_nobody_has_used_them(history):
    history.record_shares([share(0.0, idle=("a:0", "a:1"))])
    history.record_shares([share(300.0, idle=("a:1",))])
    history.record_shares([share(600.0, idle=("a:0", "a:1"))])  # a daemon that has just started
    assert rows(history)[0]["idle"] == ["a:1"]


def test_unknown_stays_unknown(history):
    history.record_shares([share(0.0, power_max_watts=None, memory_max_bytes=None, idle=None)])
    history.record_shares([share(300.0, power_max_watts=None, memory_max_bytes=None)])
    (row,) = rows(history)
    assert (row["power_max_mw"], row["memory_max_bytes"], row["idle"]) == (None, None, None)


def test_hostile_words_and_numbers_harm_no_other_row(history):
    history.record_shares([share(job_id="a\0\ud800", user="\0", joules={WORK: float("inf"), IDLE: float("nan")}),
                           share(job_id="2")])
    assert history.dropped == 0
    assert [(row["job_id"], row["energy_mj"]) for row in rows(history)] == [("a?", 0), ("2", 1_000_000)]


@given(st.lists(st.tuples(st.integers(0, 600), st.sampled_from(["", "1", "2"]), st.sampled_from("abc"),
                          st.sampled_from(list(PowerClass)), st.floats(0, 1e6)), max_size=40))
@settings(max_examples=12, deadline=None)
def test_runs_and_what_nobody_holds_are_the_days_and_the_nodes(tmp_path_factory, parts):
    shares = [share(300.0 * window, job_id, {power_class: joules}, node=node)
              for window, job_id, node, power_class, joules in parts]
    with History.open(f"sqlite:///{tmp_path_factory.mktemp('sums')}/history.db") as history:
        history.record_shares(shares)
        days, nodes, runs = (rows(history, table) for table in (
            schema.energy_days, schema.node_days, schema.run_energy))
    total = sum(round(joules * 1000) for *_, joules in parts)
    nobody = sum(row["energy_mj"] for row in days if not row["user"])
    assert sum(row["energy_mj"] for row in days) == total == sum(row["energy_mj"] for row in nodes)
    assert sum(row["energy_mj"] for row in runs) + nobody == total


def test_money_is_booked_at_the_price_of_its_hour(history):
    history.record_shares([share(0.0, joules={WORK: 3.6e6, IDLE: 3.6e6}, price_per_kwh=0.25, price_per_gpu_hour=2.0),
                           share(300.0, joules={WORK: 3.6e6}, price_per_kwh=0.5),
                           share(600.0, joules={WORK: 3.6e6})])
    (row,) = rows(history)
    assert (row["cost_micro"], row["wasted_cost_micro"], row["priced_mj"]) == (1_000_000, 250_000, 10_800_000_000)
    assert row["gpu_cost_micro"] == round(2e6 * 600 / 3600)


def test_the_classes_of_a_run_over_time(history):
    history.record_shares([share(0.0), share(0.0, job_id="2", joules={IDLE: 9.0}), share(300.0, joules={IDLE: 5.0})])
    (run,) = history.runs_of("1")
    assert history.classes_of(run, 100) == (((20.0, 280.0), {WORK: 1_000_000}), ((300.0, 300.0), {IDLE: 5000}))
    assert history.classes_of(run, 1) == (((20.0, 280.0), {WORK: 1_000_000}),)


def test_of_a_window_in_which_a_run_started_the_time_counts_in_which_it_ran(history):
    history.record_shares([share(0.0, run_s=200.0), share(300.0, run_s=200.0)])
    (run,) = history.runs_of("1")
    assert [window for window, _ in history.classes_of(run, 100)] == [(200.0, 100.0), (300.0, 300.0)]
    ended = replace(run, end_s=450.0)
    assert [window for window, _ in history.classes_of(ended, 100)] == [(200.0, 100.0), (300.0, 150.0)]


def test_shares_wait_on_disk_as_they_are():
    facts = (share(idle=("a:1",), price_per_kwh=0.3), share(job_id="", joules={FREE: 1.5}))
    assert decode(encode(Batch("shares", facts, 2))).facts == facts


def test_what_is_old_goes(history):
    history.record_shares([share(0.0), share(40 * DAY, job_id="2")])
    history.compact(60 * DAY, Retention(jobs_s=30 * DAY, hourly_waste_s=30 * DAY, rollups_s=30 * DAY))
    assert [row["job_id"] for row in rows(history)] == ["2"]
    for table in (schema.run_windows, schema.energy_days, schema.node_days):
        assert len(rows(history, table)) == 1


def test_a_run_takes_less_than_500_bytes(history):
    """2,500 runs of three windows and four classes each, with all prices and the grid's carbon.

    Of PostgreSQL once the room of updated rows is given back.
    """
    runs = [share(300.0 * (number // 100 + window), str(9_000_000 + number),
                  {one: 1e6 + number for one in (WORK, IDLE, PowerClass.HOST_ACTIVE, UNDERUSED)},
                  user=f"user{number % 100}", submit_s=1.7e9 + number, run_s=1.7e9 + number, node=f"a{number % 100}",
                  model="NVIDIA A100-SXM4-40GB", memory_max_bytes=4e10, price_per_kwh=0.31, price_per_gpu_hour=2.5,
                  grams_per_kwh=412.0, currency="EUR")
            for window in range(3) for number in range(2500)]
    history.record_shares(sorted(runs, key=lambda one: one.start_s))
    history.vacuum()
    if history._engine.dialect.name == "postgresql":
        with history._engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            connection.execute(text("VACUUM FULL run_energy"))
    size = {one.table: one.bytes for one in history.stats()}
    if size["run_energy"] is None:
        pytest.skip("SQLite without dbstat tells no sizes")
    each = size["run_energy"] / 2500
    print(f"\n{each:.0f} bytes a run")
    assert each < 500


def test_a_batch_of_windows_that_another_recorder_has_ended_is_cut():
    batch = Batch("shares", (share(0.0), share(300.0)), 2)
    assert ended_by(batch, 300.0).facts == (share(0.0),)


@pytest.fixture
def searched(history):
    """Return a history of jobs of two users with names, one of them failed, and what each took."""
    known = [("4711", "ada", "train", "completed"), ("4712", "ada", "sweep", "failed"),
             ("815", "bob", "train-2", "running"), ("99", "train", "other", "completed")]
    for number, (job_id, user, name, state) in enumerate(known):
        job = Job(job_id, 10.0, JobState(state), "gpu", Request(2), user=user, name=name, start_s=20.0,
                  end_s=900.0 if state != "running" else None)
        history.record_snapshot(SchedulerSnapshot(1000.0 + number, (), (), (job,)))
        history.record_shares([share(300.0 * number, job_id, user=user, joules={IDLE: 10.0 * number + 1})])
    return history


SEARCHES = [
    ({"text": "471"}, ["4712", "4711"]), ({"text": "train"}, ["99", "815", "4711"]), ({"text": "sweep"}, ["4712"]),
    ({"text": "_"}, []), ({"text": "%"}, []), ({"text": "nobody"}, []), ({"text": "train", "user": "ada"}, ["4711"]),
    ({"text": "train", "state": "running"}, ["815"]), ({"state": "failed"}, ["4712"]),
    ({"state": "completed", "since_s": 900.0}, ["99"]), ({}, ["99", "815", "4712", "4711"])]


def test_a_search_finds_the_same_runs_whether_they_are_looked_up_or_walked(searched, monkeypatch):
    for few in (energy_queries.FEW, 1, 0):
        monkeypatch.setattr(energy_queries, "FEW", few)
        for wanted, found in SEARCHES:
            rows, total = searched.runs(RunFilter(**wanted), "wasted", 10)
            assert ([row.job_id for row in rows], total) == (found, len(found)), (few, wanted)


def test_runs_are_counted_up_to_a_bound_and_one_more_says_that_there_are_others(searched, monkeypatch):
    monkeypatch.setattr(energy_queries, "MOST_COUNTED", 2)
    assert searched.runs(RunFilter(), "ended", 1)[1] == 3


def test_the_jobs_that_wasted_most_are_the_same_whether_all_are_asked_for_or_some(searched):
    assert searched.energy_by("job", RunFilter(), 2) == searched.energy_by("job", RunFilter())[:2]


def test_carbon_is_booked_with_its_energy_and_absent_where_nobody_knew_it(history):
    history.record_shares([share(0.0)])
    assert (rows(history)[0]["intensity_mj"], rows(history)[0]["carbon_mg"]) == (None, None)
    history.record_shares([share(300.0, joules={WORK: 3.6e6}, grams_per_kwh=400.0)])
    history.record_shares([share(600.0)])
    for table in (schema.run_energy, schema.energy_days, schema.node_days):
        (row,) = rows(history, table)
        assert (row["intensity_mj"], row["carbon_mg"]) == (3_600_000_000, 400_000)
    ((_, sums),) = history.energy_by("user", RunFilter())
    assert sums["carbon_mg"] == 400_000


def test_what_a_kwh_cost_is_kept_by_quarters_of_an_hour(history):
    history.record_shares([share(0.0, price_per_kwh=0.2, currency="EUR"),
                           share(300.0, price_per_kwh=0.3, currency="EUR", grams_per_kwh=380.0), share(600.0),
                           share(900.0, grams_per_kwh=390.0)])
    assert history.energy_prices(0.0, 1e9, 10) == (EnergyPrice(900.0, None, "", 390.0),
                                                   EnergyPrice(0.0, 0.3, "EUR", 380.0))
    history.compact(60 * DAY, Retention(hourly_waste_s=30 * DAY))
    assert history.energy_prices(0.0, 1e9, 10) == ()


def test_money_is_booked_by_class_at_the_price_of_its_time(history):
    history.record_shares([share(0.0, joules={WORK: 3.6e6, IDLE: 7.2e6}, price_per_kwh=0.1, currency="EUR"),
                           share(300.0, joules={IDLE: 3.6e6}, price_per_kwh=0.5, currency="EUR"),
                           share(600.0, job_id="", joules={FREE: 3.6e6}, price_per_kwh=-0.2, currency="EUR")])
    sums = dict(history.energy_by("class", RunFilter()))
    assert {name: (one["cost_micro"], one["wasted_cost_micro"]) for name, one in sums.items()} == {
        "productive": (100_000, 0), "allocated_idle": (700_000, 700_000), "idle_unallocated": (-200_000, -200_000)}
    ((_, all_of_it),) = history.energy_by("partition", RunFilter())
    assert sum(one["cost_micro"] for one in sums.values()) == all_of_it["cost_micro"] == 600_000


def test_a_class_of_which_a_run_took_nothing_takes_no_room_and_counts_as_none(history):
    history.record_shares([share(joules={WORK: 1000.0}), share(job_id="2", joules={IDLE: 5.0})])
    first, second = rows(history)
    assert (first["allocated_idle_mj"], first["priced_mj"], second["productive_mj"]) == (None, None, None)
    found, _ = history.runs(RunFilter(wasted=(IDLE, UNDERUSED)), "wasted", 10)
    assert [(row.job_id, row.sums["allocated_idle_mj"]) for row in found] == [("2", 5000), ("1", 0)]


def test_jobs_of_two_sources_that_share_id_partition_and_user_are_two_sums(history, make):
    for submit_s, source in ((10.0, "north"), (10.015625, "south")):
        history.record_snapshot(SchedulerSnapshot(20.0, jobs=(make.running(20.0, submit_s=submit_s, source=source),)))
    history.record_shares([share(), share(submit_s=10.015625, joules={IDLE: 7.0}), share(job_id="2")])
    wanted = [("1", 7_000), ("1", 1_000_000), ("2", 1_000_000)]
    assert [(job_id, sums["energy_mj"]) for job_id, _, sums in history.energy_by_job(RunFilter())] == wanted
    assert [sums["energy_mj"] for *_, sums in history.energy_by_job(RunFilter(), 1)] == [7_000]


def test_a_window_cut_short_at_a_stop_whose_commit_seemed_to_fail_counts_once(history):
    windows = Windows()
    taken = Share("a", "gpu", Job("1", 10.0, JobState.RUNNING, "gpu", Request(gpus=2), start_s=20.0))
    taken.values[COLUMN[WORK]] = 100.0
    windows.add(170.12345671653748, 170.1, [], {}, (taken,))
    windows.close(170.12345671653748)
    facts = tuple(windows.drain().shares)
    history.record_shares(facts)
    before = [rows(history, table) for table in (schema.run_energy, schema.energy_days, schema.node_days)]
    assert before[0][0]["energy_mj"] == 17_010_000
    history.record_shares(decode(encode(Batch("shares", facts, 1))).facts)
    assert [rows(history, table) for table in (schema.run_energy, schema.energy_days, schema.node_days)] == before


def test_an_hour_that_the_clock_shows_twice_has_the_energy_of_both(history):
    windows = Windows()
    taken = Share("a", "gpu", Job("1", 10.0, JobState.RUNNING, "gpu", Request(gpus=2), start_s=20.0))
    taken.values[COLUMN[WORK]] = 100.0
    for _ in range(2):
        for now_s in range(3615, 7230, 15):
            windows.add(float(now_s), 15.0, [], {("a", "gpu"): taken.values[:len(CLASSES)]}, (taken,))
        windows.close(now_s)
        closed = windows.drain()
        history.record_shares(closed.shares)
        history.record_waste(closed.readings)
    joules = 100.0 * 15 * 2 * 241
    assert rows(history)[0]["energy_mj"] == 1000 * joules
    assert sum(reading.energy_joules for reading in history.waste(0, DAY)) == joules
    assert sum(reading.energy_joules for reading in history.waste(0, DAY, per_node=True)) == joules
