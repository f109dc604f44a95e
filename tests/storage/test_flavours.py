"""Jobs are recorded with their flavours; those of the past are told theirs by and by."""

from dataclasses import replace

from sqlalchemy import update

from idlewatt.storage import schema
from idlewatt.storage.energy_queries import RunFilter
from idlewatt.storage.power_classes import PowerClass
from idlewatt.storage.records import SchedulerSnapshot
from idlewatt.storage.run_energy import EnergyShare


def seen(history, *jobs, time_s=150.0):
    history.record_snapshot(SchedulerSnapshot(time_s, jobs=jobs))


def test_a_flavour_is_recorded_with_its_job_and_read_again(history, make):
    seen(history, make.job(flavour="s-A100"), make.job("2", flavour=""), make.job("3"))
    assert [history.job(name).job.flavour for name in "123"] == ["s-A100", "", None]


def test_a_source_that_tells_no_flavour_erases_none_and_none_replaces_one(history, make):
    seen(history, make.job(flavour="s-A100"))
    history.record_finished([make.ended(130.0, 140.0)])
    assert history.job("1").job.flavour == "s-A100"
    seen(history, make.running(160.0, flavour=""), time_s=170.0)
    assert history.job("1").job.flavour == ""


def test_jobs_of_the_past_are_told_their_flavours_once(history, make):
    seen(history, make.job(limit_s=60.0), make.job("2", flavour="known"))
    asked = []
    assert history.record_flavours(lambda *job: asked.append(job) or "2-gpu") == 1
    assert asked == [("gpu", 2, 60.0, "")]
    assert history.record_flavours(lambda *job: "other") == 0
    assert [history.job(name).job.flavour for name in "12"] == ["2-gpu", "known"]


def test_jobs_are_counted_by_flavour_and_limit(history, make):
    seen(history, make.job(flavour="s", limit_s=60.0), make.job("2", flavour="s", limit_s=60.0),
         make.job("3", flavour="s"), make.job("4"))
    assert {(one.flavour, one.gpus, one.limit_s, one.jobs) for one in history.flavours(0.0)} == {
        ("s", 2, 60.0, 2), ("s", 2, None, 1)}
    assert history.flavours(200.0) == []


def test_energy_adds_up_by_flavour_over_whole_runs(history, make):
    jobs = [make.running(120.0, job_id=name, flavour=flavour) for name, flavour in (("1", "s"), ("2", "s"), ("3", ""))]
    seen(history, *jobs)
    share = EnergyShare(120.0, 300.0, "a", "gpu", {PowerClass.ALLOCATED_IDLE: 1000.0}, "1", 100.0, 120.0, "u")
    history.record_shares([replace(share, job_id=name) for name in "123"])
    by = dict(history.energy_by("flavour", RunFilter()))
    assert {name: sums["wasted_mj"] for name, sums in by.items()} == {"s": 2_000_000, "": 1_000_000}
    with history._writing() as connection:
        connection.execute(update(schema.jobs).values(flavour=None))
    assert dict(history.energy_by("flavour", RunFilter()))[""]["wasted_mj"] == 3_000_000
