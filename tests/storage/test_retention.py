"""Energy and its ageing: sums stay exact, old rows go, writers are not kept waiting."""

from collections import defaultdict

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import text

from idlewatt.storage import schema
from idlewatt.storage.history import History
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import GpuRollup, IdleFloor, SchedulerSnapshot, WasteReading
from idlewatt.storage.retention import Retention
from idlewatt.storage.simulated import Simulated

DAY = 86400.0
SOON = Retention(rollups_s=DAY, hourly_rollups_s=10 * DAY, waste_s=DAY, hourly_waste_s=10 * DAY, jobs_s=10 * DAY,
                 recommendations_s=10 * DAY)


def rollup(start_s: float, **more) -> GpuRollup:
    return GpuRollup(**{"start_s": start_s, "seconds": 300.0, "node": "a", "uuid": "GPU-1", "index": 0,
                        "measured_seconds": 300.0, "energy_joules": 30_000.0} | more)


def test_rollups_come_back_as_they_were_given_and_again_replaces(history):
    given_ = rollup(300.0, activity_mean=0.5, activity_max=1.0, power_mean_watts=100.0, power_max_watts=400.0,
                    allocated_seconds=12.5)
    history.record_rollups([rollup(300.0), rollup(300.0, index=1, uuid="GPU-2", energy_joules=None)])
    history.record_rollups([given_])
    assert history.rollups(0, 1000) == (given_, rollup(300.0, index=1, uuid="GPU-2", energy_joules=None))
    assert history.rollups(0, 1000, node="b") == ()


def test_numbers_that_are_none_are_unmeasured(history):
    history.record_rollups([rollup(300.0, energy_joules=float("nan"), power_max_watts=float("inf"))])
    history.record_waste([WasteReading(0.0, 300.0, "gpu", PowerClass.STRANDED, float("nan"))])
    assert history.rollups(0, 1000) == (rollup(300.0, energy_joules=None),)
    assert history.waste(0, 1000) == ()


def test_simulated_totals_survive_a_restart(url):
    totals = (Simulated("fifo", 1e9, 1e13, 7200.5, 0.01),
              Simulated("sjf", 1e9, 9e12, 0.0, 0.01, -0.2, "fifo", -5.5e11, 8e12))
    with History.open(url) as history:
        history.save_simulated([Simulated("fifo", 5e8, 1.0, 1.0)])
        history.save_simulated(totals)
    with History.open(url) as history:
        assert history.load_simulated() == totals


def test_floors_survive_a_restart_with_their_provenance(url):
    floors = {("GPU-1", "bare"): IdleFloor(52.5, "learned", 900, 1e6),
              ("a100", "context"): IdleFloor(60.0, "catalogue")}
    with History.open(url) as history:
        history.save_floors({("GPU-1", "bare"): IdleFloor(1.0, "configured")})
        history.save_floors(floors)
    with History.open(url) as history:
        assert history.load_floors() == floors


def test_the_part_of_a_node_is_not_added_to_its_partition(history):
    whole = WasteReading(0.0, 300.0, "gpu", PowerClass.STRANDED, 5.0)
    part = WasteReading(0.0, 300.0, "gpu", PowerClass.STRANDED, 2.0, node="a")
    history.record_waste([whole, part])
    assert history.waste(0, 1000) == (whole,)
    assert history.waste(0, 1000, per_node=True) == (part,)


def test_old_rollups_become_hourly_with_means_weighted_by_measured_time(history):
    history.record_rollups([
        rollup(0.0, activity_mean=1.0, measured_seconds=300.0, allocated_seconds=300.0, power_max_watts=400.0),
        rollup(300.0, activity_mean=0.0, measured_seconds=100.0, power_max_watts=500.0),
        rollup(600.0, measured_seconds=0.0, energy_joules=None), rollup(3600.0), rollup(5 * DAY)])
    history.compact(5 * DAY, SOON)
    first, second, recent = history.rollups(0, 10 * DAY)
    assert (first.seconds, first.measured_seconds, first.allocated_seconds) == (3600.0, 400.0, 300.0)
    assert (first.energy_joules, first.activity_mean, first.power_max_watts) == (60_000.0, 0.75, 500.0)
    assert (first.activity_max, first.power_mean_watts) == (None, None)
    assert (second.start_s, second.seconds, recent.seconds) == (3600.0, 3600.0, 300.0)


def test_a_late_window_joins_its_hour_that_was_merged_before(history):
    history.record_rollups([rollup(0.0)])
    history.compact(5 * DAY, SOON)
    history.record_rollups([rollup(300.0)])
    history.compact(5 * DAY, SOON)
    assert [(row.start_s, row.energy_joules) for row in history.rollups(0, DAY)] == [(0.0, 60_000.0)]


@pytest.mark.parametrize("damage", [b"", b"\x07later", b"\x01torn"])
def test_an_hour_of_which_no_window_can_be_read_keeps_nothing_else_from_ageing(history, make, damage, caplog):
    history.record_rollups([rollup(0.0), rollup(3600.0), rollup(3900.0)])
    history.record_finished([make.ended(125.0, 160.0)])
    with history._writing() as connection:
        table = schema.gpu_windows
        connection.execute(table.update().where(table.c.start_s == 0).values(packed=damage))
    history.compact(5 * DAY, SOON)
    assert "the window of 300 s that begins at 0 is left out" in caplog.text
    assert [(row.start_s, row.seconds, row.energy_joules) for row in history.rollups(0, DAY)] == [
        (3600.0, 3600.0, 60_000.0)]
    caplog.clear()
    history.compact(15 * DAY, SOON)
    assert (history.rollups(0, DAY), history.jobs(0, 1e9)) == ((), ())
    assert "left out" not in caplog.text


@pytest.fixture(scope="module")
def one_history(tmp_path_factory):
    with History.open(f"sqlite:///{tmp_path_factory.mktemp('waste')}/history.db") as opened:
        yield opened


@given(st.lists(st.tuples(st.integers(0, 100), st.sampled_from(["gpu", "big"]), st.sampled_from(list(PowerClass)),
                          st.floats(0, 1e9)), max_size=30))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_merging_windows_keeps_every_sum_exactly(one_history, readings):
    with one_history._writing() as connection:
        connection.execute(text("DELETE FROM waste"))
    one_history.record_waste([WasteReading(300.0 * window, 300.0, *rest) for window, *rest in readings])

    def millijoules():
        exact = defaultdict(int)
        for reading in one_history.waste(0, DAY):
            exact[reading.partition, reading.power_class] += round(reading.energy_joules * 1000)
        return exact

    before = millijoules()
    one_history.compact(5 * DAY, SOON)
    assert millijoules() == before
    assert all(reading.seconds == 3600.0 for reading in one_history.waste(0, DAY))


def test_what_is_too_old_goes_with_all_that_hangs_on_it(history, make):
    history.record_recommendations([make.advice(110.0, "a")])
    history.record_finished([make.ended(125.0, 160.0), make.ended(9 * DAY, 9 * DAY + 5, job_id="2")])
    history.record_snapshot(SchedulerSnapshot(110.0, nodes=(make.node(),)))
    history.record_snapshot(SchedulerSnapshot(120.0, nodes=(make.node(cpus=8),), jobs=(make.job("3"),)))
    history.record_snapshot(SchedulerSnapshot(15 * DAY, nodes=(make.node(cpus=16),), jobs=(make.job("4"),)))
    history.record_rollups([rollup(0.0)])
    history.compact(15 * DAY, SOON)
    assert sorted(job.job_id for job in history.jobs(0, 1e9)) == ["2", "4"]
    assert [change.node.cpus for change in history.node_changes(0, 1e9)] == [8, 16]
    assert (history.recommendations(0, 1e9), history.rollups(0, 1e9)) == ((), ())


def test_advice_that_came_after_its_job_had_started_goes_after_a_day_and_no_other_with_it(history, make):
    history.record_snapshot(SchedulerSnapshot(125.0, jobs=(make.running(120.0), make.job("3"))))
    given_ = [("0", 100.0), ("1", 50.0), ("1", 100.0), ("1", 200.0), ("2", 100.0), ("3", 100.0)]
    history.record_recommendations([make.advice(121.0, "a", job_id=job_id, submit_s=submit_s)
                                    for job_id, submit_s in given_])

    def advised():
        return sorted((found.recommendation.job_id, found.recommendation.submit_s)
                      for found in history.recommendations(0, 1e9))

    history.compact(121.0 + DAY, SOON)
    assert advised() == given_
    history.compact(122.0 + DAY, SOON)
    assert advised() == [one for one in given_ if one != ("1", 100.0)]


def test_vacuum_gives_space_back(history):
    history.record_rollups([rollup(300.0 * window, uuid=f"GPU-{gpu}")
                            for window in range(300) for gpu in range(20)])
    history.vacuum()
    before = history.size_bytes()
    history.compact(100 * DAY, SOON)
    told: list[tuple[int, int]] = []
    history.vacuum(lambda done, total: told.append((done, total)))
    assert history.size_bytes() < before
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert {total for _, total in told} == {told[-1][0]}
    history.record_rollups([rollup(0.0)])
    assert history.rollups(0, 1) == (rollup(0.0),)
